import type { JWTVerifyGetKey } from "jose";
import type { Clock, Timer } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Logger } from "../protocol/logger.ts";

/** How often the set is fetched again, in ms: a key that was taken out of it counts no longer than this. */
const REFRESH_MS = 600_000;
/** … and when that failed. Until then the keys that are known go on counting. */
const RETRY_MS = 60_000;
/** A token with a key nobody knows may mean that the set has changed. So often it is fetched for that at once … */
const FETCHES = 5;
/** … and one more each so many ms: tokens with made-up keys must not become a flood at whoever publishes them. */
const FETCH_EVERY_MS = 10_000;

export interface KeySetOptions {
  clock: Clock;
  log: Logger;
}

/** The keys that an identity provider publishes (JWKS). A set that cannot be had yet is asked for with each token. */
export function openKeySet(
  url: string,
  { createRemoteJWKSet, errors }: typeof import("jose"),
  { clock, log }: KeySetOptions,
): { find: JWTVerifyGetKey; close(): void } {
  // When to fetch is decided here.
  const never = Number.POSITIVE_INFINITY;
  const keys = createRemoteJWKSet(new URL(url), { cooldownDuration: never, cacheMaxAge: never });
  const allowance = new Allowance(clock);
  let timer: Timer | undefined;
  let isClosed = false;
  const refresh = async (): Promise<void> => {
    let delayMs = REFRESH_MS;
    try {
      await keys.reload();
    } catch (error) {
      delayMs = RETRY_MS;
      log.warn({ err: error, url }, "the keys that tokens are signed with could not be fetched");
    }
    if (!isClosed) timer = clock.after(delayMs, () => void refresh());
  };
  // Nobody waits for it before there is a token.
  void refresh();

  /** @throws AppError `unavailable` */
  const fetched = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // The token names no key, or several, or one of a kind that is unknown here.
      const isTokens =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported;
      if (isTokens) throw error;
      throw new AppError("unavailable", "The keys that tokens are signed with cannot be fetched just now.");
    }
  };
  return {
    find: async (header, token) => {
      try {
        return await fetched(() => keys(header, token));
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey) || !allowance.take()) throw error;
        await fetched(() => keys.reload());
        return keys(header, token);
      }
    },
    close() {
      isClosed = true;
      timer?.cancel();
    },
  };
}

/** Some at once, and then one in a while. */
class Allowance {
  readonly #clock: Clock;
  #left = FETCHES;
  #at: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock.now();
  }

  take(): boolean {
    const earned = Math.floor((this.#clock.now() - this.#at) / FETCH_EVERY_MS);
    this.#left = Math.min(FETCHES, this.#left + earned);
    this.#at += earned * FETCH_EVERY_MS;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
