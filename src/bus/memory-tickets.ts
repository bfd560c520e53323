import type { Clock } from "../protocol/clock.ts";
import type { TicketStore } from "./tickets.ts";

/** Tickets that nobody used yet; the one given out first makes room. Each takes some 300 bytes, and lasts seconds. */
const MAX_TICKETS = 10_000;

/** Tickets of one process. */
export class MemoryTickets implements TicketStore {
  readonly #clock: Clock;
  /** The one given out last stands last. */
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

  async take(ticket: string): Promise<string | undefined> {
    const kept = this.#tickets.get(ticket);
    this.#tickets.delete(ticket);
    return kept && kept.until > this.#clock.now() ? kept.grant : undefined;
  }
}
