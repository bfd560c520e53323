import type { Clock } from "../protocol/clock.ts";
import type { Logger } from "../protocol/logger.ts";

/** Whom a token stands for. */
export interface Verified {
  /** A name as `userId` is one. */
  ownerId: string;
  isOperator: boolean;
  /** ms since 1970: from then on the token is refused. */
  expiresAt?: number | undefined;
}

/** Tells whom a token stands for. One implementation per kind of token. */
export interface Verifier {
  /** @throws AppError `unauthorized` for a token that does not count, `unavailable` when that cannot be told just now */
  verify(token: string): Promise<Verified>;
  close(): void;
}

export interface VerifierOptions {
  /** Who must have issued a token, and for whom, if that matters. */
  issuer: string | undefined;
  audience: string | undefined;
  clock: Clock;
  log: Logger;
}
