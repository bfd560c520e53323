/**
 * Tickets that were given out and not used yet. One implementation per bus: a ticket may be used on another gateway than
 * the one that gave it out. Both methods throw `AppError("unavailable")` where the tickets cannot be reached.
 */
export interface TicketStore {
  /** Keep what a ticket stands for, at most so long. */
  put(ticket: string, grant: string, ttlMs: number): Promise<void>;
  /** Take it: whoever comes first has it, everybody after that gets undefined, and so does who comes too late. */
  take(ticket: string): Promise<string | undefined>;
}
