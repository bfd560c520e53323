import type { Redis } from "ioredis";
import { AppError } from "../protocol/errors.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { readRedisAddresses } from "./redis-address.ts";
import { connectRedis } from "./redis-client.ts";
import type { TicketStore } from "./ticket-store.ts";

/**
 * How long a client that redeems a ticket waits for the server, in ms. Long enough for a gateway that is busy itself,
 * because the server has redeemed the ticket by then.
 */
const ANSWER_MS = 1_000;

export interface RedisTicketsOptions {
  /** The addresses of the bus; tickets are on one of its servers, the same for all nodes. */
  urls: readonly string[];
  /** Identifies the store: tickets of another store are not valid here (rule C20). */
  epoch: string;
  clock: Clock;
}

/** Tickets shared by all gateways of a store. Redis expires them, and GETDEL returns each at most once. */
export class RedisTickets implements TicketStore {
  /** Fails fast. The gateways' shared rate-limit counters use it too. */
  readonly connection: Redis;
  readonly #prefix: string;

  /** @throws Error with a sentence for the operator when the server cannot be used */
  static async open({ urls, epoch, clock }: RedisTicketsOptions): Promise<RedisTickets> {
    const [address] = readRedisAddresses(urls);
    return new RedisTickets(await connectRedis(address!, clock, { commandTimeout: ANSWER_MS }), epoch);
  }

  private constructor(connection: Redis, epoch: string) {
    this.connection = connection;
    this.#prefix = `${epoch}.ticket.`;
  }

  async put(ticket: string, grant: string, ttlMs: number): Promise<void> {
    await reach(this.connection.set(this.#prefix + ticket, grant, "PX", ttlMs));
  }

  async redeem(ticket: string): Promise<string | undefined> {
    return (await reach(this.connection.getdel(this.#prefix + ticket))) ?? undefined;
  }

  close(): void {
    this.connection.disconnect();
  }
}

/** Drop the vendor's error: it carries the failed command, which contains the ticket. */
async function reach<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch {
    throw new AppError("unavailable", "The store of tickets cannot be reached at the moment. Try again.");
  }
}
