import type { Redis } from "ioredis";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import { readRedisAddresses } from "./redis-address.ts";
import { connectRedis } from "./redis-client.ts";
import type { TicketStore } from "./tickets.ts";

/** How long a client that shows a ticket is kept waiting for the server, in ms. */
const ANSWER_MS = 100;

export interface RedisTicketsOptions {
  /** The addresses of the bus; tickets are on one of its servers, the same for all nodes. */
  urls: readonly string[];
  /** Names the store: another's tickets are no tickets here (rule C20). */
  epoch: string;
  clock: Clock;
}

/** Tickets that all gateways of a store share. Redis forgets them by itself, and hands out each once. */
export class RedisTickets implements TicketStore {
  /** Fails fast. Whatever else gateways count together goes over it too. */
  readonly connection: Redis;
  readonly #prefix: string;

  /** @throws Error with a sentence for the operator when the server cannot be had */
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

  async take(ticket: string): Promise<string | undefined> {
    return (await reach(this.connection.getdel(this.#prefix + ticket))) ?? undefined;
  }

  close(): void {
    this.connection.disconnect();
  }
}

/** What went wrong stays here: a failure of the vendor's carries its command, and with it the ticket. */
async function reach<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch {
    throw new AppError("unavailable", "Tickets cannot be reached just now.");
  }
}
