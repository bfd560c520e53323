// Rule C22 of docs/inside/correctness.md.
import { createHash } from "node:crypto";
import { type ClientMessage, type ImageInput, MAX_CONTENT, MAX_IMAGE } from "../protocol/client-message.ts";
import { AppError } from "../protocol/errors.ts";
import { EVERY_ZONE, type FloorId, floorOf, type MessageId, type RunId, type SessionId } from "../protocol/ids.ts";
import type { CommandOf, TurnInput, WantedSession } from "../protocol/internal/command.ts";
import type { ImageRef } from "../protocol/message.ts";
import type { Routed } from "../protocol/routed.ts";
import { flow } from "../shared/flow.ts";
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

/** @throws AppError `forbidden` for another user, `bad_request` for a zone without a user, or for all zones */
export function checkUserZone(caller: Caller, { userId, zone }: UserZone): void {
  checkUser(caller, userId);
  if (zone !== undefined && userId === undefined)
    throw new AppError("bad_request", "The request names a zone without a userId. Add the userId.");
  if (zone === EVERY_ZONE)
    throw new AppError("bad_request", "The zone * means all floors of a user: only POST /session/create takes it.");
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

/**
 * The command that gives a message to its session, or notes that nobody hears it.
 * @throws AppError `too_large`, or `bad_request` for a message without content
 */
export async function chatCommand(
  { commands, ...stores }: { commands: IdempotentCommands; store: BlobStore; clock: Clock },
  message: Chat,
  { sessionId, creates, routed }: Target,
  identity: Identity,
): Promise<CommandOf<"session.chat" | "floor.ignore">> {
  flow.onHop?.("chat", `${message.content.length} characters for ${sessionId}`);
  checkContent(message.content, message.images?.length ?? 0);
  if (routed?.ignored) return { type: "floor.ignore", routed };
  const images = await keepImages(stores, sessionId, message.images ?? []);
  const groups = routed?.groups;
  const parts = groups && [{ type: "heard", groups }];
  const turn = newTurn(commands, identity, { ...message, images, parts });
  return { type: "session.chat", sessionId, turn, ...(creates && { session: creates }), ...(routed && { routed }) };
}

/** Check a message. @throws AppError `too_large`, or `bad_request` for a message without text and images */
export function checkContent(content: string, images: number): void {
  if (content.length > MAX_CONTENT) throw new AppError("too_large", `content has at most ${MAX_CONTENT} characters`);
  if (content.trim() !== "" || images > 0) return;
  const issues = [{ path: "body.content", message: "must not be empty without images" }];
  throw new AppError("bad_request", undefined, { facts: { issues } });
}

/** Store the images of a message first, so that only references travel (rule C22). @throws AppError `too_large` */
export async function keepImages(
  { store, clock }: { store: BlobStore; clock: Clock },
  sessionId: SessionId,
  images: readonly ImageInput[],
): Promise<ImageRef[]> {
  if (images.some(({ data }) => data.length > MAX_IMAGE)) {
    throw new AppError("too_large", `An image of the message has more than ${MAX_IMAGE} characters of base64.`);
  }
  const refs: ImageRef[] = [];
  for (const { data, mimeType } of images) {
    const bytes = Buffer.from(data, "base64");
    const hash = createHash("sha256").update(bytes).digest("hex");
    await store.putBlob(sessionId, { hash, mimeType, bytes, createdAt: clock.now() });
    refs.push({ hash, mimeType, bytes: bytes.byteLength });
  }
  return refs;
}

/**
 * A turn of the user, with ids that a repeat receives again.
 * @param said with the client's id for the message, if it has one
 */
export function newTurn(
  ids: Pick<IdempotentCommands, "deriveId">,
  identity: Identity,
  said: { id?: MessageId | undefined } & Pick<TurnInput, "content" | "images" | "parts" | "playedUpTo">,
): TurnInput {
  const { id, content, images = [], parts, playedUpTo } = said;
  return {
    messageId: id ?? ids.deriveId<MessageId>(identity, "message"),
    runId: ids.deriveId<RunId>(identity, "run"),
    content,
    ...(images.length > 0 && { images }),
    ...(parts && { parts }),
    ...(playedUpTo !== undefined && { playedUpTo }),
  };
}
