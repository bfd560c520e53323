import type { JWTVerifyOptions } from "jose";
import type { Subscription } from "../../bus/bus.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import { keepListening } from "../streams/keep-listening.ts";
import { PublishedKeys, type VerifiedToken } from "./published-keys.ts";
import type { VerifierOptions } from "./verifier.ts";

/** How often the set is fetched again, in ms. A key that was withdrawn is accepted for up to this time. */
const REFRESH_MS = 600_000;
/** How soon the set is fetched again after a failed fetch, in ms. Until then the known keys stay valid. */
const RETRY_MS = 60_000;
/**
 * A token that no known key verifies may mean that the set has changed, as does the signal of another node. The set is
 * fetched for these reasons this many times at once. Further fetches follow once in `FETCH_EVERY_MS`.
 */
const FETCHES = 5;
/** The interval of the further fetches, in ms: tokens with made-up keys must not flood the identity provider. */
const FETCH_EVERY_MS = 10_000;
/** A set is a few kilobytes. */
const MAX_SET_BYTES = 1_048_576;

/**
 * Algorithms for published keys. Shared secrets are excluded: a client could sign tokens with the public key as the
 * secret.
 */
const PUBLIC_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

type KeySetOptions = Pick<VerifierOptions, "clock" | "log" | "bus" | "epoch">;

/**
 * The keys that an identity provider publishes (JWKS). A set that could not be fetched yet is fetched again with each
 * token. A node that finds keys withdrawn signals the others, which then fetch the set too.
 */
export class KeySet {
  readonly algorithms = PUBLIC_ALGORITHMS;
  readonly #url: string;
  readonly #jose: typeof import("jose");
  readonly #options: KeySetOptions;
  readonly #topic: string;
  readonly #remote: ReturnType<typeof import("jose").createRemoteJWKSet>;
  readonly #allowance: Allowance;
  #keys: PublishedKeys | undefined;
  #timer: Timer | undefined;
  /** Whether the timer was set by the signal of another node. */
  #isSignalled = false;
  #isClosed = false;
  #subscription: Subscription | undefined;
  #forget = () => {};

  /** The first fetch runs in the background. */
  static async open(url: string, jose: typeof import("jose"), options: KeySetOptions): Promise<KeySet> {
    const set = new KeySet(url, jose, options);
    void set.#refresh();
    await set.#listen();
    return set;
  }

  private constructor(url: string, jose: typeof import("jose"), options: KeySetOptions) {
    this.#url = url;
    this.#jose = jose;
    this.#options = options;
    this.#topic = `${options.epoch}.keys`;
    // This class decides when to fetch.
    const never = Number.POSITIVE_INFINITY;
    const fetching = { cooldownDuration: never, cacheMaxAge: never, [jose.customFetch]: fetchBounded };
    this.#remote = jose.createRemoteJWKSet(new URL(url), fetching);
    this.#allowance = new Allowance(options.clock);
  }

  /**
   * The content of a token; undefined if no published key verifies its signature.
   *
   * @throws AppError `unavailable`; errors of jose for other faults of the token
   */
  verify(token: string, options: JWTVerifyOptions): Promise<VerifiedToken | undefined> {
    return this.#find((keys) => keys.verify(token, options));
  }

  /** Whether a key that this node found published was withdrawn since. */
  isWithdrawn(keyId: string): boolean {
    return this.#keys !== undefined && !this.#keys.has(keyId);
  }

  /**
   * Whether a key that any node found published is published now.
   *
   * @throws AppError `unavailable`
   */
  async isPublished(keyId: string): Promise<boolean> {
    return (await this.#find(async (keys) => keys.has(keyId) || undefined)) ?? false;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#forget();
    this.#subscription?.end();
  }

  /** Look something up in the set. What is not found is looked up again in a newer set. */
  async #find<T>(look: (keys: PublishedKeys) => Promise<T | undefined>): Promise<T | undefined> {
    if (!this.#keys) await this.#demand(() => this.#load());
    const found = await look(this.#keys!);
    if (found !== undefined || !this.#allowance.tryReserve()) return found;
    await this.#demand(() => this.#reload());
    return look(this.#keys!);
  }

  async #demand(fetched: () => Promise<void>): Promise<void> {
    try {
      await fetched();
    } catch {
      throw new AppError("unavailable", "The keys that tokens are signed with cannot be fetched at the moment.");
    }
  }

  /** Fetch the set anew: a fetch that is under way may have begun before the set changed. */
  async #reload(): Promise<void> {
    if (this.#remote.reloading) await this.#remote.reload().catch(() => {});
    await this.#load();
  }

  async #load(): Promise<void> {
    await this.#remote.reload();
    const former = this.#keys;
    this.#keys = new PublishedKeys(this.#remote.jwks()!, this.#jose);
    if (!former || this.#keys.includes(former)) return;
    this.#options.log.info({ url: this.#url }, "the identity provider withdrew keys that tokens are signed with");
    void this.#options.bus.publish(this.#topic, new Uint8Array());
  }

  async #refresh(): Promise<void> {
    this.#isSignalled = false;
    let delayMs = REFRESH_MS;
    try {
      await this.#reload();
    } catch (error) {
      delayMs = RETRY_MS;
      this.#options.log.warn(
        { err: error, url: this.#url },
        "the keys that tokens are signed with could not be fetched",
      );
    }
    if (!this.#isSignalled) this.#schedule(delayMs);
  }

  #schedule(delayMs: number): void {
    this.#timer?.cancel();
    if (!this.#isClosed) this.#timer = this.#options.clock.after(delayMs, () => void this.#refresh());
  }

  async #listen(): Promise<void> {
    const { bus } = this.#options;
    const onSignal = () => this.#onSignal();
    // Signals are lost while the bus is away.
    this.#forget = bus.onRecovered(onSignal);
    const subscription = await keepListening(bus, this.#topic, onSignal, onSignal);
    this.#subscription = subscription;
    if (this.#isClosed) subscription.end();
  }

  #onSignal(): void {
    if (this.#isSignalled) return;
    this.#isSignalled = true;
    this.#schedule(this.#allowance.tryReserve() ? 0 : FETCH_EVERY_MS);
  }
}

const fetchBounded = async (url: string, init: RequestInit): Promise<Response> => {
  const response = await fetch(url, init);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_SET_BYTES) throw new Error(`the set of keys is larger than ${MAX_SET_BYTES} bytes`);
    chunks.push(chunk);
  }
  return new Response(Buffer.concat(chunks), { status: response.status });
};

/** A token bucket: a burst, then one per interval. */
class Allowance {
  readonly #clock: Clock;
  #left = FETCHES;
  #at: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock.now();
  }

  tryReserve(): boolean {
    const now = this.#clock.now();
    // The clock of several nodes may be set back.
    this.#at = Math.min(this.#at, now);
    const earned = Math.floor((now - this.#at) / FETCH_EVERY_MS);
    this.#left = Math.min(FETCHES, this.#left + earned);
    this.#at += earned * FETCH_EVERY_MS;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
