// Rule C29 of docs/inside/correctness.md.
import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { TicketStore } from "../../bus/ticket-store.ts";
import type { AuthSetting } from "../../config/auth-setting.ts";
import { loadKeys } from "../../config/keys-file.ts";
import type { RateLimits } from "../../config/rate-limits.ts";
import { AppError } from "../../protocol/errors.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { RecentMap } from "../../shared/recent-map.ts";
import type { Routes } from "../route-context.ts";
import type { Caller } from "./caller.ts";
import { type Credential, credentialOf } from "./credential.ts";
import { KeyVerifier } from "./key-verifier.ts";
import { limitRates, type RateLimiter, type RateLimitOptions } from "./rate-limiter.ts";
import { Tickets } from "./tickets.ts";
import { openTokenVerifier } from "./token-verifier.ts";
import type { Verifier, VerifierOptions } from "./verifier.ts";

/** How long a verified token is accepted without another check, in ms, while its key is published. */
const REMEMBER_MS = 60_000;
/**
 * Verified tokens that are remembered. Beyond it a token that was not used lately is dropped, and verified again when
 * it returns.
 */
const MAX_REMEMBERED = 10_000;

export interface GatekeeperOptions {
  verifier: Verifier;
  tickets: Tickets;
  limiter: RateLimiter;
  clock: Clock;
}

/** Authenticates each request and applies the rate limits, before the request's body is read. */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  /** Callers by the hash of their token. The token itself is not kept. */
  readonly #known = new RecentMap<string, { caller: Caller; until: number }>(MAX_REMEMBERED);

  constructor(options: GatekeeperOptions) {
    this.#options = options;
  }

  /**
   * Count a request of this address. Probes are counted but never refused, because a refusal costs as much as the
   * answer.
   *
   * @throws AppError `too_many_requests`
   */
  async countAddress(request: FastifyRequest): Promise<void> {
    try {
      await this.#options.limiter.countAddress(request);
    } catch (error) {
      if (!request.routeOptions.config?.isProbe) throw error;
    }
  }

  /** @throws AppError `unauthorized`, `too_many_requests`, or `unavailable` while the credential cannot be verified */
  async authenticate(request: FastifyRequest): Promise<void> {
    request.caller = await this.#identify(request);
    await this.#options.limiter.countOwner(request);
    if (request.method !== "GET") flow.onHop?.("caller", request.caller.id);
  }

  /** The caller on an open route; undefined for a request without a valid credential. */
  async recognize(request: FastifyRequest): Promise<Caller | undefined> {
    try {
      return credentialOf(request) && (await this.#identify(request));
    } catch (error) {
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  async #identify(request: FastifyRequest): Promise<Caller> {
    const { limiter, tickets } = this.#options;
    try {
      const credential = credentialOf(request);
      const known = credential?.kind === "token" && this.#recall(credential.token);
      if (known) return known;
      // Stops clients that guess credentials. Known callers behind the same address are not affected.
      await limiter.checkRefused(request);
      if (!credential) throw new AppError("unauthorized");
      if (credential.kind === "token") return await this.#verify(credential);
      const caller = await tickets.redeem(credential.ticket);
      // Another node may have issued the ticket, for a key that this one has not met.
      const isValid = caller.keyId === undefined || (await this.#options.verifier.isPublished(caller.keyId));
      if (!isValid) throw new AppError("unauthorized", "The key behind the ticket was withdrawn.");
      return caller;
    } catch (error) {
      if (error instanceof AppError && error.code === "unauthorized") await limiter.countRefused(request);
      throw error;
    }
  }

  async #verify({ token }: Extract<Credential, { kind: "token" }>): Promise<Caller> {
    const { verifier, clock } = this.#options;
    const { ownerId, isOperator, expiresAt, keyId } = await verifier.verify(token);
    const caller: Caller = { id: `owner:${ownerId}`, ownerId, isOperator, expiresAt, keyId };
    const until = Math.min(clock.now() + REMEMBER_MS, expiresAt ?? Number.POSITIVE_INFINITY);
    this.#known.set(hashOf(token), { caller, until });
    return caller;
  }

  #recall(token: string): Caller | undefined {
    const key = hashOf(token);
    const known = this.#known.get(key);
    if (!known) return undefined;
    if (this.#options.clock.now() >= known.until || this.#isWithdrawn(known.caller)) {
      this.#known.delete(key);
      return undefined;
    }
    this.#known.set(key, known);
    return known.caller;
  }

  #isWithdrawn({ keyId }: Caller): boolean {
    return keyId !== undefined && this.#options.verifier.isWithdrawn(keyId);
  }
}

const hashOf = (token: string): string => hash("sha256", token, "base64url");

/** What a gateway needs for authentication. */
export interface Access {
  verifier: Verifier;
  tickets: TicketStore;
  rateLimits: RateLimits;
  shared?: RateLimitOptions["shared"];
}

/** Require authentication on the routes of this scope, except open ones. Call it before routes are added. */
export async function controlAccess(
  scope: Routes,
  access: Access,
  { clock, stopwatch }: { clock: Clock; stopwatch: Clock },
): Promise<Gatekeeper> {
  const gatekeeper = new Gatekeeper({
    verifier: access.verifier,
    tickets: new Tickets(access.tickets, clock),
    limiter: await limitRates(scope, { limits: access.rateLimits, shared: access.shared, stopwatch }),
    clock,
  });
  scope.addHook("onRequest", async (request) => {
    if (!request.routeOptions.config.isOpen) await gatekeeper.authenticate(request);
  });
  return gatekeeper;
}

/** @throws Error, with a sentence for the operator, if the keys or secret cannot be used */
export async function openVerifier(setting: Exclude<AuthSetting, "none">, options: VerifierOptions): Promise<Verifier> {
  return setting.kind === "keys" ? new KeyVerifier(await loadKeys(setting.file)) : openTokenVerifier(setting, options);
}
