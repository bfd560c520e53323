import rateLimit, { normalizeIP } from "@fastify/rate-limit";
import type { FastifyRequest } from "fastify";
import type { RateLimit, RateLimits } from "../config/rate-limits.ts";
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

/** What @fastify/rate-limit counts in when gateways count together: a connection of ioredis. */
export type SharedCounters = object;

/** Owners or addresses that are counted at a time, each kind by itself; the one heard of longest ago is forgotten. */
const MAX_COUNTED = 10_000;

/**
 * Count requests in windows of time, in this process or with other gateways. Counters that cannot be reached let
 * everybody in: they protect from too much, not from the wrong people.
 */
export async function limitRates(
  scope: Routes,
  limits: RateLimits,
  shared?: { counters: SharedCounters; prefix: string },
): Promise<RateLimiter> {
  await scope.register(rateLimit, {
    global: false,
    cache: MAX_COUNTED,
    skipOnError: true,
    ...(shared && { redis: shared.counters, nameSpace: shared.prefix }),
  });
  const limiter = (limit: RateLimit | undefined, keyGenerator: (request: FastifyRequest) => string) => {
    if (!limit) return undefined;
    return scope.createRateLimit({ max: limit.max, timeWindow: limit.windowMs, keyGenerator });
  };
  const ofAddress = limiter(limits.address, (request) => `address:${normalizeIP(request.ip)}`);
  const ofRefused = limiter(limits.refused, (request) => `refused:${normalizeIP(request.ip)}`);
  const ofOwner = limiter(limits.owner, (request) => `owner:${request.caller!.ownerId}`);
  return {
    countAddress: async (request) => check(await ofAddress?.(request)),
    checkRefused: async (request) => check(await ofRefused?.(request, { increment: false }), 1),
    countRefused: async (request) => void (await ofRefused?.(request)),
    countOwner: async (request) => check(await ofOwner?.(request)),
  };
}

type Count = Awaited<ReturnType<ReturnType<Routes["createRateLimit"]>>>;

/** @param more what the request would add to what was counted */
function check(count: Count | undefined, more = 0): void {
  if (!count || count.isAllowed) return;
  const isOver = more > 0 ? count.remaining < more : count.isExceeded;
  if (isOver) throw new AppError("too_many_requests", undefined, { facts: { retryAfterMs: Math.max(1, count.ttl) } });
}
