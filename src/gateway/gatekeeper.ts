import { hash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Caller } from "./auth.ts";
import { type Credential, credentialOf } from "./credential.ts";
import type { RateLimiter } from "./rate-limits.ts";
import type { Tickets } from "./tickets.ts";
import type { Verifier } from "./verified.ts";

/** A token that counted is not looked at again for so long, in ms: so long does one count whose key was taken back. */
const REMEMBER_MS = 60_000;
/** Tokens that are remembered; the one seen longest ago is forgotten, which costs a look. */
const MAX_REMEMBERED = 10_000;

export interface GatekeeperOptions {
  verifier: Verifier;
  tickets: Tickets;
  limiter: RateLimiter;
  clock: Clock;
}

/** Who may come in, and how often. Asked once for each request, before anything of it is read. */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  /** By hash: a token is nowhere kept. The one seen last stands last. */
  readonly #known = new Map<string, { caller: Caller; until: number }>();

  constructor(options: GatekeeperOptions) {
    this.#options = options;
  }

  /** @throws AppError `unauthorized`, `too_many_requests`, or `unavailable` when nobody can tell just now */
  async admit(request: FastifyRequest): Promise<void> {
    const { limiter } = this.#options;
    await limiter.countAddress(request);
    request.caller = await this.#identify(request);
    await limiter.countOwner(request);
  }

  async #identify(request: FastifyRequest): Promise<Caller> {
    const { limiter, tickets } = this.#options;
    try {
      const credential = credentialOf(request);
      const known = credential?.kind === "token" && this.#recall(credential.token);
      if (known) return known;
      // Who guesses is stopped; who is known from before is not, although it may be the neighbour.
      await limiter.checkRefused(request);
      if (!credential) throw new AppError("unauthorized");
      return await (credential.kind === "ticket" ? tickets.redeem(credential.ticket) : this.#verify(credential));
    } catch (error) {
      if (error instanceof AppError && error.code === "unauthorized") await limiter.countRefused(request);
      throw error;
    }
  }

  async #verify({ token }: Extract<Credential, { kind: "token" }>): Promise<Caller> {
    const { verifier, clock } = this.#options;
    const { ownerId, isOperator, expiresAt } = await verifier.verify(token);
    const caller: Caller = { id: `owner:${ownerId}`, ownerId, isOperator, expiresAt };
    const until = Math.min(clock.now() + REMEMBER_MS, expiresAt ?? Number.POSITIVE_INFINITY);
    this.#known.set(hashOf(token), { caller, until });
    if (this.#known.size > MAX_REMEMBERED) this.#known.delete(this.#known.keys().next().value!);
    return caller;
  }

  #recall(token: string): Caller | undefined {
    const key = hashOf(token);
    const known = this.#known.get(key);
    if (!known) return undefined;
    this.#known.delete(key);
    if (this.#options.clock.now() >= known.until) return undefined;
    this.#known.set(key, known);
    return known.caller;
  }
}

const hashOf = (token: string): string => hash("sha256", token, "base64url");
