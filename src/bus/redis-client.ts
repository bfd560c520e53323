import type { Redis } from "ioredis";
import type { Clock } from "../protocol/clock.ts";
import type { RedisAddress, RedisOptions } from "./redis-address.ts";

/** How long a server may take to let this node in when it starts, in ms. */
const OPEN_MS = 5_000;
/** How long a server may take to accept a connection, in ms, and how long a Sentinel to answer; the next one is asked then. */
const CONNECT_MS = 2_000;
const SENTINEL_MS = 1_000;
/** Between two tries to connect again, in ms: twice as long each time, up to here. */
const MAX_BACKOFF_MS = 1_000;
const FIRST_BACKOFF_MS = 50;
/** A connection on which an answer is due and nothing comes for so long is given up, in ms. */
const SILENCE_MS = 5_000;
/** A connection that is being closed and whose other end says nothing is cut after so long, in ms. */
const GOODBYE_MS = 500;

/**
 * Connect to a server. Once connected, it connects again for ever; what was asked on a connection that broke is
 * rejected, never sent twice.
 *
 * @throws Error with a sentence for the operator when it cannot be had, or does not let this node in
 */
export async function connectRedis(
  { label, options: where }: RedisAddress,
  clock: Clock,
  options: RedisOptions = {},
): Promise<Redis> {
  // The vendor is loaded where Redis is used, and nowhere else.
  const { Redis } = await import("ioredis");
  let isOpen = false;
  let reason = "it does not answer";
  const retry = (tries: number) => (isOpen ? Math.min(FIRST_BACKOFF_MS * 2 ** (tries - 1), MAX_BACKOFF_MS) : null);
  const redis = new Redis({
    ...where,
    lazyConnect: true,
    retryStrategy: retry,
    sentinelRetryStrategy: retry,
    // A server that was a master, and has become a replica of another.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    connectTimeout: CONNECT_MS,
    sentinelCommandTimeout: SENTINEL_MS,
    socketTimeout: SILENCE_MS,
    disconnectTimeout: GOODBYE_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    ...options,
  });
  redis.on("error", (error) => {
    reason = reasonOf(error);
  });
  const late = clock.after(OPEN_MS, () => redis.disconnect());
  try {
    await redis.connect();
    isOpen = true;
    return redis;
  } catch {
    redis.disconnect();
    // The failure itself is not kept as its cause: it may hold the command that logs in.
    throw new Error(`INTERLOCK_BUS: ${label} cannot be used: ${reason}`);
  } finally {
    late.cancel();
  }
}

/** What a failure says. Its other properties are not for logs: the command that failed may hold a password. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, code } = error as Error & { code?: unknown };
  return message || String(code ?? error.name);
}
