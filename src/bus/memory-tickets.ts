import type { Clock } from "../shared/ports/clock.ts";
import type { TicketStore } from "./ticket-store.ts";

/** Unused tickets; beyond this the oldest is discarded. Each takes about 300 bytes and lives for seconds. */
const MAX_TICKETS = 10_000;

/** Tickets of one process. */
export class MemoryTickets implements TicketStore {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #tickets = new Map<string, { grant: string; until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async put(ticket: string, grant: string, ttlMs: number): Promise<void> {
    const now = this.#clock.now();
    for (const [old, { until }] of this.#tickets) {
      if (until > now && this.#tickets.size < MAX_TICKETS) break;
      this.#tickets.delete(old);
    }
    this.#tickets.set(ticket, { grant, until: now + ttlMs });
  }

  async redeem(ticket: string): Promise<string | undefined> {
    const kept = this.#tickets.get(ticket);
    this.#tickets.delete(ticket);
    return kept && kept.until > this.#clock.now() ? kept.grant : undefined;
  }
}
