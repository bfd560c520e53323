import type { Redis } from "ioredis";
import { AppError } from "../protocol/errors.ts";
import type { Membership } from "./ownership.ts";

export interface RedisMembershipOptions {
  /** Fails fast: a frozen server must not block the caller. */
  redis: Redis;
  /** Identifies the store (rule C20). */
  epoch: string;
  nodeId: string;
  leaseMs: number;
  /** The number of partitions that the floors are divided into; all nodes must agree. */
  count: number;
}

/**
 * A lease that ends later than this, in ms from now, was not written by a node at the server's present time: leases
 * have at most a minute, and twice that leaves room for a server's clock that goes back a little.
 */
const LATEST_END_MS = 120_000;

/**
 * Stores members with the end of their lease on the server's clock, so nodes need not agree on the time. Returns the
 * members whose lease is valid, or the members' number of partitions when this node is configured with a different one.
 * If the server's clock was ahead, a node that died meanwhile would remain a member until that time, and its floors
 * would have no owner. Removing comes first, because a full Redis lets only those scripts write that have removed
 * something.
 */
const RENEW = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[4], '+inf')
  local count = redis.call('GET', KEYS[2])
  if count and count ~= ARGV[3] and redis.call('ZCARD', KEYS[1]) > 0 then return count end
  redis.call('SET', KEYS[2], ARGV[3])
  if ARGV[1] ~= '' then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
  return redis.call('ZRANGE', KEYS[1], 0, -1)`;

/** The live orchestrators, stored in one Redis. */
export class RedisMembership implements Membership {
  readonly #options: RedisMembershipOptions;

  constructor(options: RedisMembershipOptions) {
    this.#options = options;
  }

  async renew(): Promise<string[]> {
    return await this.#renewAs(this.#options.nodeId);
  }

  /**
   * Read the members without joining, as a node without the orchestrator role does.
   * @throws Error with a sentence for the operator when the members use another number of partitions
   */
  async read(): Promise<string[]> {
    return await this.#renewAs("");
  }

  async leave(): Promise<void> {
    await reach(this.#options.redis.zrem(this.#keys[0], this.#options.nodeId));
  }

  get #keys(): [string, string] {
    const { epoch } = this.#options;
    // The second key has the number of partitions.
    return [`${epoch}.members`, `${epoch}.partitions`];
  }

  async #renewAs(nodeId: string): Promise<string[]> {
    const { redis, leaseMs, count } = this.#options;
    const answer = await reach(redis.eval(RENEW, 2, ...this.#keys, nodeId, leaseMs, count, LATEST_END_MS));
    if (Array.isArray(answer)) return answer.map(String);
    const difference = `${count} here and ${String(answer)} on the nodes that are running`;
    throw new Error(`INTERLOCK_PARTITIONS is ${difference}: all nodes need the same number`);
  }
}

async function reach<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw new AppError("unavailable", "the members cannot be read at the moment", { cause: error });
  }
}
