import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { TicketStore } from "../bus/tickets.ts";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Caller } from "./auth.ts";

/** Long enough to open a stream with, too short to be found in a log and used, in ms. */
const TICKET_MS = 30_000;

/** Who holds a ticket, as it is kept. */
const Grant = z.object({
  id: z.string(),
  ownerId: z.string(),
  isOperator: z.boolean(),
  expiresAt: z.number().optional(),
});

/**
 * Tickets: who cannot send a header gets one for a stream, and shows it in the address. It is good once, for a while, and
 * for no longer than what it was got with; so is the stream.
 */
export class Tickets {
  readonly #store: TicketStore;
  readonly #clock: Clock;

  constructor(store: TicketStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  async issue(caller: Caller): Promise<{ ticket: string; expiresAt: number }> {
    const now = this.#clock.now();
    const expiresAt = Math.min(now + TICKET_MS, caller.expiresAt ?? Number.POSITIVE_INFINITY);
    const ticket = randomBytes(24).toString("base64url");
    await this.#store.put(ticket, JSON.stringify(caller), Math.max(1, expiresAt - now));
    return { ticket, expiresAt };
  }

  /** @throws AppError `unauthorized` for a ticket that is none, or is none any more */
  async redeem(ticket: string): Promise<Caller> {
    const text = await this.#store.take(ticket);
    const grant = text === undefined ? undefined : Grant.parse(JSON.parse(text));
    const isLate = grant?.expiresAt !== undefined && grant.expiresAt <= this.#clock.now();
    if (!grant || isLate) throw new AppError("unauthorized", "The ticket is not known: used, too old, or made up.");
    return grant;
  }
}
