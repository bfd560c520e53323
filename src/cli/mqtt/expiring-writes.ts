import { delay } from "../../client/delay.ts";
import { type Client, type ClientOptions, createClient } from "../../client/interlock-client.ts";

/** A client for one request of the broker, which may expire while it is carried out. */
export interface ExpiringWrites {
  readonly client: Client;
  /** Whether a write may have reached the node. */
  readonly wasSent: () => boolean;
}

/**
 * A client that begins no write after the expiry. One that is under way is waited for, so that its outcome is known.
 * Between two attempts it throws the reason of the expiry.
 */
export function expiringWrites(options: ClientOptions, expiry: AbortSignal): ExpiringWrites {
  const { fetch: send = fetch, delay: pause = delay } = options;
  let wasSent = false;
  const client = createClient({
    ...options,
    fetch: async (input, init) => {
      expiry.throwIfAborted();
      const isWrite = init?.method !== "GET";
      try {
        const response = await send(input, init);
        wasSent ||= isWrite;
        return response;
      } catch (error) {
        wasSent ||= isWrite && !isRefused(error);
        throw error;
      }
    },
    delay: async (ms, signal) => {
      await pause(ms, signal ? AbortSignal.any([signal, expiry]) : expiry);
      expiry.throwIfAborted();
    },
  });
  return { client, wasSent: () => wasSent };
}

/** Nothing listens at the address. */
const isRefused = (error: unknown): boolean => (error as { cause?: { code?: unknown } }).cause?.code === "ECONNREFUSED";
