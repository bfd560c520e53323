/**
 * Tickets that were issued and not used yet. One implementation per bus, because a client may redeem a ticket at
 * another gateway than the one that issued it. Both methods throw `AppError("unavailable")` when the store cannot be
 * reached.
 */
export interface TicketStore {
  /** Store the grant of a ticket for at most `ttlMs`. */
  put(ticket: string, grant: string, ttlMs: number): Promise<void>;
  /** Redeem a ticket: the first caller gets its grant. Undefined for an unknown, used or expired ticket. */
  redeem(ticket: string): Promise<string | undefined>;
}
