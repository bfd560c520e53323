import type { FastifyRequest } from "fastify";
import { AppError } from "../../protocol/errors.ts";

/** The authenticated sender of a request. */
export interface Caller {
  /** The key of the caller's receipts. */
  id: string;
  /** The owner of the sessions that the caller creates and sees; absent when authentication is off. */
  ownerId: string | undefined;
  /** Whether the caller may see and change the sessions of all owners. */
  isOperator: boolean;
  /** When the caller's credential expires, in ms since 1970; absent if it does not. */
  expiresAt?: number | undefined;
  /** The published key behind the caller's credential, if there is one. The credential ends with it. */
  keyId?: string | undefined;
}

/** @throws AppError `unauthorized` */
export type CallerOf = (request: FastifyRequest) => Caller;

/** The caller of every request when authentication is off. */
export const LOCAL: Caller = Object.freeze({ id: "local", ownerId: undefined, isOperator: true });

/** `INTERLOCK_AUTH=none`: every client that reaches the node is its operator. Allowed on loopback addresses only. */
export const everybodyIsOperator: CallerOf = () => LOCAL;

/** @throws AppError `forbidden` for a user other than the caller */
export function checkUser(caller: Caller, userId: string | undefined): void {
  if (caller.isOperator || userId === undefined || userId === caller.ownerId) return;
  throw new AppError(
    "forbidden",
    "You act for yourself: leave the user out, or name yourself. Only an operator acts for other users.",
  );
}

/**
 * The owner of a session that this caller creates. A session that competes for a user's floor belongs to that user: an
 * operator creates it on the user's behalf, and the user sees every session of its floor.
 */
export function ownerOf(caller: Caller, userId: string | undefined): string | undefined {
  return caller.ownerId === undefined ? undefined : (userId ?? caller.ownerId);
}
