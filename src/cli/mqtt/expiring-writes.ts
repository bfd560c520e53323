import { failureOf } from "../../client/client-error.ts";
import { delay } from "../../client/delay.ts";
import { type Client, type ClientOptions, createClient } from "../../client/interlock-client.ts";

/** A client for one request of the broker, which may expire while it is carried out. */
export interface ExpiringWrites {
  readonly client: Client;
  /** Whether a write may have been carried out. */
  readonly mayBeDone: () => boolean;
}

/**
 * A client that begins no write after the expiry. One that is under way is waited for, so that its outcome is known.
 * Between two attempts it throws the reason of the expiry.
 */
export function expiringWrites(options: ClientOptions, expiry: AbortSignal): ExpiringWrites {
  const { fetch: send = fetch, delay: pause = delay } = options;
  let mayBeDone = false;
  const client = createClient({
    ...options,
    fetch: async (input, init) => {
      expiry.throwIfAborted();
      const isWrite = init?.method !== "GET";
      try {
        const response = await send(input, init);
        mayBeDone ||= isWrite && !(await isDeferred(response));
        return response;
      } catch (error) {
        mayBeDone ||= isWrite && !isRefused(error);
        throw error;
      }
    },
    delay: async (ms, signal) => {
      await pause(ms, signal ? AbortSignal.any([signal, expiry]) : expiry);
      expiry.throwIfAborted();
    },
  });
  return { client, mayBeDone: () => mayBeDone };
}

/** The node has begun nothing. With an answer for each of several floors this is not known. */
async function isDeferred(response: Response): Promise<boolean> {
  if (response.ok) return false;
  const { code, facts } = await failureOf(response.clone());
  return (code === "busy" || code === "too_many_requests") && facts.zones === undefined;
}

/** Nothing listens at the address. */
const isRefused = (error: unknown): boolean => (error as { cause?: { code?: unknown } }).cause?.code === "ECONNREFUSED";
