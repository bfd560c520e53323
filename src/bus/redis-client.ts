import type { Redis } from "ioredis";
import type { Clock } from "../shared/ports/clock.ts";
import { isNetworkError, Unreachable } from "../shared/unreachable.ts";
import { backoffMs } from "../shared/waiting.ts";
import type { RedisAddress, RedisOptions } from "./redis-address.ts";

/** How long connecting and logging in may take when a node starts, in ms. */
const OPEN_MS = 5_000;
/** How long a server may take to accept a connection, and a Sentinel to answer before the next one is tried, in ms. */
const CONNECT_MS = 2_000;
const SENTINEL_MS = 1_000;
/** The pauses between two attempts to reconnect. */
const RECONNECTS = { firstMs: 50, maxMs: 1_000 };
/** A connection that owes an answer and has been silent for this long is closed, in ms. */
const SILENCE_MS = 5_000;
/** A connection that is closing is destroyed when the other end has not reacted for this long, in ms. */
const DISCONNECT_MS = 500;

/** How the client library begins when no Sentinel answered. It does not say that a certificate was not trusted. */
const NO_SENTINEL = "All sentinels are unreachable";
const SENTINEL_ADVICE =
  " Check their addresses, sentinel-password and, over TLS, that NODE_EXTRA_CA_CERTS names the authority of their certificates";

/**
 * Connect to a server. After the first connection the client reconnects without limit. Commands that were pending on a
 * broken connection are rejected, never sent twice.
 *
 * @throws Error with a sentence for the operator when the server refuses the login; Unreachable when it does not answer
 */
export async function connectRedis(
  { label, options: where }: RedisAddress,
  clock: Clock,
  options: RedisOptions = {},
): Promise<Redis> {
  // Load the vendor library lazily, only where Redis is used.
  const { Redis } = await import("ioredis");
  let isOpen = false;
  let reason = "it does not answer";
  let isPassing = true;
  const retry = (tries: number) => (isOpen ? backoffMs(tries, RECONNECTS) : null);
  const redis = new Redis({
    ...where,
    lazyConnect: true,
    retryStrategy: retry,
    sentinelRetryStrategy: retry,
    // The server was a master and has become a replica.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    connectTimeout: CONNECT_MS,
    sentinelCommandTimeout: SENTINEL_MS,
    socketTimeout: SILENCE_MS,
    disconnectTimeout: DISCONNECT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    ...options,
  });
  redis.on("error", (error) => {
    reason = redisReasonOf(error);
    // A server that starts reads its file first.
    isPassing = isNetworkError(error) || reason.startsWith("LOADING");
  });
  const late = clock.after(OPEN_MS, () => redis.disconnect());
  try {
    await redis.connect();
    isOpen = true;
    return redis;
  } catch {
    redis.disconnect();
    // Do not keep the failure as the cause: it may contain the login command.
    const Failure = isPassing ? Unreachable : Error;
    const advice = reason.startsWith(NO_SENTINEL) ? SENTINEL_ADVICE : "";
    throw new Failure(`INTERLOCK_BUS: ${label} cannot be used: ${reason}${advice}`);
  } finally {
    late.cancel();
  }
}

/** The message of a failure. Its other properties must not be logged: the failed command may contain a password. */
export function redisReasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, code } = error as Error & { code?: unknown };
  return message || String(code ?? error.name);
}
