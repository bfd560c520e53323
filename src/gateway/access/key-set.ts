import type { JWTVerifyGetKey } from "jose";
import { AppError } from "../../protocol/errors.ts";
import type { Clock, Timer } from "../../protocol/ports/clock.ts";
import type { Logger } from "../../protocol/ports/logger.ts";
import { RecentMap } from "../../protocol/recent-map.ts";

/** How often the set is fetched again, in ms. A key that was withdrawn is accepted for up to this time. */
const REFRESH_MS = 600_000;
/** … and after a failed fetch. Until then the known keys stay valid. */
const RETRY_MS = 60_000;
/**
 * An unknown key in a token may mean that the set has changed. The set is fetched for that reason this many times at
 * once …
 */
const FETCHES = 5;
/** … and then once in this many ms, so that tokens with made-up keys cannot flood the identity provider. */
const FETCH_EVERY_MS = 10_000;
/** Withdrawn keys that are remembered, more than a provider withdraws while streams are open. */
const MAX_WITHDRAWN = 256;

export interface KeySetOptions {
  clock: Clock;
  log: Logger;
}

/**
 * The keys that an identity provider publishes (JWKS). A set that could not be fetched yet is fetched again with each
 * token.
 */
export function openKeySet(
  url: string,
  { createRemoteJWKSet, errors }: typeof import("jose"),
  { clock, log }: KeySetOptions,
): { find: JWTVerifyGetKey; isWithdrawn(keyId: string): boolean; close(): void } {
  // This module decides when to fetch.
  const never = Number.POSITIVE_INFINITY;
  const keys = createRemoteJWKSet(new URL(url), { cooldownDuration: never, cacheMaxAge: never });
  const allowance = new Allowance(clock);
  const withdrawn = new RecentMap<string, true>(MAX_WITHDRAWN);
  const publishedIds = () => new Set(keys.jwks()?.keys.flatMap(({ kid }) => kid ?? []));
  const reload = async (): Promise<void> => {
    const before = publishedIds();
    await keys.reload();
    const now = publishedIds();
    for (const kid of before) if (!now.has(kid)) withdrawn.set(kid, true);
    for (const kid of now) withdrawn.delete(kid);
  };
  let timer: Timer | undefined;
  let isClosed = false;
  const refresh = async (): Promise<void> => {
    let delayMs = REFRESH_MS;
    try {
      await reload();
    } catch (error) {
      delayMs = RETRY_MS;
      log.warn({ err: error, url }, "the keys that tokens are signed with could not be fetched");
    }
    if (!isClosed) timer = clock.after(delayMs, () => void refresh());
  };
  // The first fetch runs in the background.
  void refresh();

  /** @throws AppError `unavailable` */
  const fetched = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      // The fault is the token's: its key is unknown, ambiguous or of an unsupported type.
      const isTokens =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported;
      if (isTokens) throw error;
      throw new AppError("unavailable", "The keys that tokens are signed with cannot be fetched at the moment.");
    }
  };
  return {
    find: async (header, token) => {
      try {
        return await fetched(() => keys(header, token));
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey) || !allowance.take()) throw error;
        await fetched(reload);
        return keys(header, token);
      }
    },
    isWithdrawn: (keyId) => withdrawn.has(keyId),
    close() {
      isClosed = true;
      timer?.cancel();
    },
  };
}

/** A token bucket: a burst, then one per interval. */
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
