import type { FastifyRequest } from "fastify";
import { AppError } from "../protocol/errors.ts";
import { type FloorId, type SessionId, userOf } from "../protocol/ids.ts";
import type { Store } from "../store/store.ts";

/** Who asks. */
export interface Caller {
  /** Receipts are kept per caller. */
  id: string;
  /** Whose sessions it makes and sees; absent where nobody is told apart. */
  ownerId: string | undefined;
  /** May see and change everybody's. */
  isOperator: boolean;
  /** When what it proved itself with runs out, ms since 1970; absent when it does not. */
  expiresAt?: number | undefined;
}

/** @throws AppError `unauthorized` */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>;

const LOCAL: Caller = Object.freeze({ id: "local", ownerId: undefined, isOperator: true });

/** `INTERLOCK_AUTH=none`: whoever can reach the node is its operator. Refused on any address but loopback. */
export const everybodyIsOperator: Authenticate = async () => LOCAL;

/** Whether what belongs to `ownerId` exists for this caller (rule C26). */
export function maySee(caller: Caller, ownerId: string | undefined): boolean {
  return caller.isOperator || (caller.ownerId !== undefined && caller.ownerId === ownerId);
}

const seesEverything = () => true;

/** The same, for somebody who stays: it keeps the caller in memory, and nothing else of a request. */
export function visibleTo(caller: Caller): (ownerId: string | undefined) => boolean {
  return caller.isOperator ? seesEverything : (ownerId) => maySee(caller, ownerId);
}

/** @throws AppError `forbidden` for a user that is not the caller */
export function checkUser(caller: Caller, userId: string | undefined): void {
  if (caller.isOperator || userId === undefined || userId === caller.ownerId) return;
  throw new AppError("forbidden", "userId must be your own.");
}

/**
 * Whose a session is that this caller makes. What competes for a user's floor is the user's: an operator makes it on
 * behalf of that user, who sees on the floor nothing that does not exist for it.
 */
export function ownerOf(caller: Caller, userId: string | undefined): string | undefined {
  return caller.ownerId === undefined ? undefined : (userId ?? caller.ownerId);
}

/** @throws AppError `not_found` for another's floor; one that belongs to a session alone is that session's owner's */
export async function checkFloor(caller: Caller, floorId: FloorId, store: Pick<Store, "whereIs">): Promise<void> {
  if (caller.isOperator) return;
  const userId = userOf(floorId);
  if (userId === undefined) {
    const where = await store.whereIs(floorId.slice("s:".length) as SessionId);
    if (where?.floorId === floorId && maySee(caller, where.ownerId)) return;
  } else if (userId === caller.ownerId) return;
  throw new AppError("not_found");
}
