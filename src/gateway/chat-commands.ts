import { checkContent, keepImages, newTurn } from "../copies/turn-content.ts";
import type { ClientMessage } from "../protocol/client-message.ts";
import { AppError } from "../protocol/errors.ts";
import { type FloorId, floorOf, type SessionId } from "../protocol/ids.ts";
import type { CommandOf, WantedSession } from "../protocol/internal/command.ts";
import type { Routed } from "../protocol/routed.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { BlobStore } from "../store/store.ts";
import { type Caller, checkUser, ownerOf } from "./access/caller.ts";
import type { IdempotentCommands, Identity } from "./idempotent-commands.ts";

/** A user's message, as every door passes it on. */
export interface Chat extends Pick<Extract<ClientMessage, { type: "chat" }>, "id" | "content" | "images"> {
  /** How much of the reply before was spoken, in UTF-16 units. */
  playedUpTo?: number | undefined;
}

/** The session that a message is for: an existing one, or one that the message creates. */
export interface Target {
  sessionId: SessionId;
  floorId: FloorId;
  creates?: WantedSession | undefined;
  /** Of a sentence that named no agent: which agent hears it. */
  routed?: Routed | undefined;
}

type UserZone = Pick<WantedSession, "userId" | "zone">;

/** The user and the zone of a new session; of a request that names no user, those of its connection. */
export function userZoneOf({ userId, zone }: UserZone, row: UserZone | undefined): UserZone {
  return userId === undefined && row ? { userId: row.userId, zone: zone ?? row.zone } : { userId, zone };
}

/** @throws AppError `forbidden` for another user, `bad_request` for a zone without a user */
export function checkUserZone(caller: Caller, { userId, zone }: UserZone): void {
  checkUser(caller, userId);
  if (zone !== undefined && userId === undefined)
    throw new AppError("bad_request", "The request names a zone without a userId. Add the userId.");
}

/** A session that a request creates. @throws AppError as `checkUserZone` */
export function newTarget(
  caller: Caller,
  sessionId: SessionId,
  wanted: Omit<WantedSession, "sessionId" | "ownerId">,
): Target & { creates: WantedSession } {
  const { userId, zone } = wanted;
  checkUserZone(caller, wanted);
  const creates = { ...wanted, sessionId, ownerId: ownerOf(caller, userId) };
  return { sessionId, floorId: floorOf(sessionId, userId, zone), creates };
}

/** Makes the commands that carry users' messages to their sessions. */
export class ChatCommands {
  readonly #options: { store: BlobStore; commands: IdempotentCommands; clock: Clock };

  constructor(options: { store: BlobStore; commands: IdempotentCommands; clock: Clock }) {
    this.#options = options;
  }

  /**
   * The command that gives a message to its session, or notes that nobody hears it.
   * @throws AppError `too_large`, or `bad_request` for a message without content
   */
  async command(
    message: Chat,
    target: Target,
    identity: Identity,
  ): Promise<CommandOf<"session.chat" | "floor.ignore">> {
    const { commands } = this.#options;
    const { sessionId, creates, routed } = target;
    checkContent(message.content, message.images?.length ?? 0);
    if (routed?.ignored) return { type: "floor.ignore", routed };
    const images = await keepImages(this.#options, sessionId, message.images ?? []);
    const groups = routed?.groups;
    const parts = groups && [{ type: "heard", groups }];
    const turn = newTurn(commands, identity, { ...message, images, parts });
    return { type: "session.chat", sessionId, turn, ...(creates && { session: creates }), ...(routed && { routed }) };
  }
}
