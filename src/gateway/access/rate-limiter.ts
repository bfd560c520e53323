import rateLimit from "@fastify/rate-limit";
import type { FastifyRequest } from "fastify";
import type { RateLimit, RateLimits } from "../../config/rate-limits.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { RecentMap } from "../../shared/recent-map.ts";
import { networkOf } from "../http/network-address.ts";
import { afterNextPoll } from "../http/sockets/stand-still.ts";
import type { Routes } from "../route-context.ts";

/** Counts requests. Each method throws AppError `too_many_requests` above its limit. */
export interface RateLimiter {
  countAddress(request: FastifyRequest): Promise<void>;
  /** Throw if too many requests of this address were refused; counts nothing. */
  checkRefused(request: FastifyRequest): Promise<void>;
  /** Count a refused request. Does not change the request's own answer. */
  countRefused(request: FastifyRequest): Promise<void>;
  countOwner(request: FastifyRequest): Promise<void>;
}

export interface RateLimitOptions {
  limits: RateLimits;
  /**
   * The ioredis connection and key prefix with which gateways share their counters. Absent: each gateway counts alone.
   */
  shared?: { counters: object; prefix: string } | undefined;
  stopwatch: Clock;
}

/** Owners, and addresses, that are counted at a time. Beyond it, those not seen lately are dropped. */
const MAX_COUNTED = 10_000;
/** Counters that do not answer within this many ms are treated as away. A working network needs about 50 µs. */
const ANSWER_MS = 100;
/** Requests do not wait again for counters that are away for this many ms. */
const AWAY_MS = 1_000;

type Counter = ReturnType<Routes["createRateLimit"]>;
type Count = Extract<Awaited<ReturnType<Counter>>, { isAllowed: false }>;

/**
 * Count requests in time windows, in this process or together with other gateways. While the shared counters are away,
 * every request is admitted: limits protect from overload, not from unauthorised access.
 */
export async function limitRates(scope: Routes, options: RateLimitOptions): Promise<RateLimiter> {
  const { limits, shared, stopwatch } = options;
  class Store extends RequestWindows {
    constructor() {
      super(stopwatch, MAX_COUNTED);
    }
  }
  const counters = shared ? { redis: shared.counters, nameSpace: shared.prefix } : { store: Store };
  await scope.register(rateLimit, { global: false, ...counters });
  let awayUntil = 0;
  const read = async (counting: ReturnType<Counter>): Promise<Count | undefined> => {
    const away = (): undefined => {
      awayUntil = stopwatch.now() + AWAY_MS;
    };
    const answer = counting.then((count) => (count.isAllowed ? undefined : count), away);
    if (!shared) return await answer;
    const late = Promise.withResolvers<"late">();
    // If this node is busy, the answer has arrived, and is read after the timers.
    const timer = stopwatch.after(ANSWER_MS, () => afterNextPoll(() => late.resolve("late")));
    const count = await Promise.race([answer, late.promise]);
    timer.cancel();
    return count === "late" ? away() : count;
  };
  const counterOf = (limit: RateLimit | undefined, keyGenerator: (request: FastifyRequest) => string) => {
    const count = limit && scope.createRateLimit({ max: limit.max, timeWindow: limit.windowMs, keyGenerator });
    return async (request: FastifyRequest, increment = true): Promise<Count | undefined> => {
      return count && stopwatch.now() >= awayUntil ? await read(count(request, { increment })) : undefined;
    };
  };
  const ofAddress = counterOf(limits.address, (request) => `address:${networkOf(request.ip)}`);
  const ofRefused = counterOf(limits.refused, (request) => `refused:${networkOf(request.ip)}`);
  const ofOwner = counterOf(limits.owner, (request) => `owner:${request.caller!.ownerId}`);
  return {
    async countAddress(request) {
      const count = await ofAddress(request);
      if (count?.isExceeded) refuse(count);
    },
    async checkRefused(request) {
      const count = await ofRefused(request, false);
      if (count?.remaining === 0) refuse(count);
    },
    async countRefused(request) {
      await ofRefused(request);
    },
    async countOwner(request) {
      const count = await ofOwner(request);
      if (count?.isExceeded) refuse(count);
    },
  };
}

function refuse({ ttl }: Count): never {
  throw new AppError("too_many_requests", undefined, { facts: { retryAfterMs: Math.max(1, ttl) } });
}

interface Window {
  current: number;
  begunAt: number;
}

/** The requests so far in a window, and how long it lasts from now, in ms. */
interface Counted {
  current: number;
  ttl: number;
}

type Answer = (error: Error | null, counted: Counted) => void;

/**
 * The counters of one process, as the library for limits asks for them. The library's own counters use the wall clock:
 * a window that begins before the clock is set back would last longer by that time.
 */
class RequestWindows {
  readonly #stopwatch: Clock;
  readonly #limit: number;
  readonly #windows: RecentMap<string, Window>;

  /** @param limit the keys that are counted at a time; beyond it a key that was not counted lately is dropped */
  constructor(stopwatch: Clock, limit: number) {
    this.#stopwatch = stopwatch;
    this.#limit = limit;
    this.#windows = new RecentMap(limit);
  }

  /** Count a request. */
  incr(key: string, answer: Answer, windowMs: number): void {
    const window = this.#alive(key, windowMs) ?? { current: 0, begunAt: this.#stopwatch.now() };
    window.current += 1;
    this.#windows.set(key, window);
    answer(null, this.#counted(window, windowMs));
  }

  /** The same without counting. */
  read(key: string, answer: Answer, windowMs: number): void {
    const window = this.#alive(key, windowMs);
    answer(null, window ? this.#counted(window, windowMs) : { current: 0, ttl: 0 });
  }

  /** Counters for another limit. */
  child(): RequestWindows {
    return new RequestWindows(this.#stopwatch, this.#limit);
  }

  #alive(key: string, windowMs: number): Window | undefined {
    const window = this.#windows.get(key);
    return window && this.#stopwatch.now() - window.begunAt < windowMs ? window : undefined;
  }

  #counted({ current, begunAt }: Window, windowMs: number): Counted {
    return { current, ttl: windowMs - (this.#stopwatch.now() - begunAt) };
  }
}
