import type { Bus } from "../../bus/bus.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";

/** The identity behind a credential. */
export interface Verified {
  /** A valid `userId`. */
  ownerId: string;
  isOperator: boolean;
  /** When the token expires, as an instant of the node's clock. */
  expiresAt?: number | undefined;
  /**
   * The key behind the token, the same on each node: a published one that signed it, or an entry of the file of keys.
   */
  keyId?: string | undefined;
}

/** Finds the identity behind a token. One implementation per kind of token. */
export interface Verifier {
  /** @throws AppError `unauthorized` for an invalid token, `unavailable` if it cannot be verified at the moment */
  verify(token: string): Promise<Verified>;
  /** Whether a key that this verifier knew is no longer published. The tokens that it signed are no longer valid. */
  isWithdrawn(keyId: string): boolean;
  /**
   * Whether a key that the verifier of any node knew is published.
   *
   * @throws AppError `unavailable` if that cannot be found out at the moment
   */
  isPublished(keyId: string): Promise<boolean>;
  close(): void;
}

export interface VerifierOptions {
  /** The required issuer and audience of a token, if configured. */
  issuer: string | undefined;
  audience: string | undefined;
  clock: Clock;
  /**
   * The wall clock, by which tokens expire. `clock` never goes back: after a moment in which the wall clock was wrong,
   * it may be ahead of it for as long as that was.
   */
  wallNow: () => number;
  log: Logger;
  bus: Bus;
  /** The store's name, which separates the topics of installations. */
  epoch: string;
}
