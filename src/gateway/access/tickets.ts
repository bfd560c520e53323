import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { TicketStore } from "../../bus/ticket-store.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Caller } from "./caller.ts";

/** Long enough to open a stream, too short for a ticket to be found in a log and used, in ms. */
const TICKET_MS = 30_000;

/** The caller behind a ticket, as stored. */
const Grant = z.object({
  id: z.string(),
  ownerId: z.string(),
  isOperator: z.boolean(),
  expiresAt: z.number().optional(),
  keyId: z.string().optional(),
});

/**
 * Tickets for clients that cannot send a header: they pass a ticket in the address of a stream. A ticket is valid once,
 * for a short time, and no longer than the credential it was issued for. The same holds for the stream.
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

  /** @throws AppError `unauthorized` for an unknown, used or expired ticket */
  async redeem(ticket: string): Promise<Caller> {
    const text = await this.#store.redeem(ticket);
    const grant = text === undefined ? undefined : Grant.parse(JSON.parse(text));
    const isLate = grant?.expiresAt !== undefined && grant.expiresAt <= this.#clock.now();
    if (!grant || isLate) throw new AppError("unauthorized", "The ticket is unknown, used or expired.");
    return grant;
  }
}
