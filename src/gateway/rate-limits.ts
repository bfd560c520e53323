import rateLimit, { normalizeIP } from "@fastify/rate-limit";
import type { FastifyRequest } from "fastify";
import type { RateLimit, RateLimits } from "../config/rate-limits.ts";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Routes } from "./door.ts";

/** What is counted of requests. Each throws AppError `too_many_requests` when it is over its limit. */
export interface RateLimiter {
  /** One more from this address. */
  countAddress(request: FastifyRequest): Promise<void>;
  /** Not one more: whether too many from this address were refused. */
  checkRefused(request: FastifyRequest): Promise<void>;
  /** One more that is refused. Its own answer stays what it is. */
  countRefused(request: FastifyRequest): Promise<void>;
  /** One more of whoever it is from. */
  countOwner(request: FastifyRequest): Promise<void>;
}

export interface RateLimitOptions {
  limits: RateLimits;
  /** Where gateways count together: a connection of ioredis, and what stands before its keys. Absent: each by itself. */
  shared?: { counters: object; prefix: string } | undefined;
  clock: Clock;
}

/** Owners or addresses that are counted at a time, each kind by itself; the one heard of longest ago is forgotten. */
const MAX_COUNTED = 10_000;
/** Counters that do not answer for so long are away, in ms: counting costs 50 µs over a network that works … */
const ANSWER_MS = 100;
/** … and nobody waits for them again before this. */
const AWAY_MS = 1_000;

type Counter = ReturnType<Routes["createRateLimit"]>;
type Count = Extract<Awaited<ReturnType<Counter>>, { isAllowed: false }>;

/**
 * Count requests in windows of time, in this process or with other gateways. Counters that cannot be reached let
 * everybody in: they protect from too much, not from the wrong people.
 */
export async function limitRates(scope: Routes, options: RateLimitOptions): Promise<RateLimiter> {
  const { limits, shared, clock } = options;
  await scope.register(rateLimit, {
    global: false,
    cache: MAX_COUNTED,
    ...(shared && { redis: shared.counters, nameSpace: shared.prefix }),
  });
  let awayUntil = 0;
  const read = async (counting: ReturnType<Counter>): Promise<Count | undefined> => {
    const away = (): undefined => {
      awayUntil = clock.now() + AWAY_MS;
    };
    const answer = counting.then((count) => (count.isAllowed ? undefined : count), away);
    if (!shared) return await answer;
    const late = Promise.withResolvers<undefined>();
    const timer = clock.after(ANSWER_MS, () => late.resolve(away()));
    const count = await Promise.race([answer, late.promise]);
    timer.cancel();
    return count;
  };
  const counterOf = (limit: RateLimit | undefined, keyGenerator: (request: FastifyRequest) => string) => {
    const count = limit && scope.createRateLimit({ max: limit.max, timeWindow: limit.windowMs, keyGenerator });
    return async (request: FastifyRequest, increment = true): Promise<Count | undefined> => {
      return count && clock.now() >= awayUntil ? await read(count(request, { increment })) : undefined;
    };
  };
  const ofAddress = counterOf(limits.address, (request) => `address:${normalizeIP(request.ip)}`);
  const ofRefused = counterOf(limits.refused, (request) => `refused:${normalizeIP(request.ip)}`);
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
