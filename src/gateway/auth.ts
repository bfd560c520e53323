import type { FastifyRequest } from "fastify";
import { AppError } from "../protocol/errors.ts";
import { type FloorId, userOf } from "../protocol/ids.ts";

/** Who asks. */
export interface Caller {
  /** Receipts are kept per caller. */
  id: string;
  /** Whose sessions it makes and sees; absent where nobody is told apart. */
  ownerId: string | undefined;
  /** May see and change everybody's. */
  isOperator: boolean;
}

export type Authenticate = (request: FastifyRequest) => Promise<Caller>;

/** `INTERLOCK_AUTH=none`: whoever can reach the node is its operator. Refused on any address but loopback. */
export const everybodyIsOperator: Authenticate = async () => ({ id: "local", ownerId: undefined, isOperator: true });

/** Whether what belongs to `ownerId` exists for this caller (rule C26). */
export function maySee(caller: Caller, ownerId: string | undefined): boolean {
  return caller.isOperator || (caller.ownerId !== undefined && caller.ownerId === ownerId);
}

/** @throws AppError `forbidden` for a user that is not the caller */
export function checkUser(caller: Caller, userId: string | undefined): void {
  if (caller.isOperator || userId === undefined || userId === caller.ownerId) return;
  throw new AppError("forbidden", "userId must be your own.");
}

/** @throws AppError `not_found` for another's floor */
export function checkFloor(caller: Caller, floorId: FloorId): void {
  if (caller.isOperator || (userOf(floorId) !== undefined && userOf(floorId) === caller.ownerId)) return;
  throw new AppError("not_found");
}
