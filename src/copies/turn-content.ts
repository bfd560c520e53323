// Rule C22 of docs/inside/correctness.md.
import { createHash } from "node:crypto";
import type { IdempotentCommands, Identity } from "../gateway/idempotent-commands.ts";
import { type ImageInput, MAX_CONTENT, MAX_IMAGE } from "../protocol/client-message.ts";
import { AppError } from "../protocol/errors.ts";
import type { MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { TurnInput } from "../protocol/internal/command.ts";
import type { ImageRef } from "../protocol/message.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { BlobStore } from "../store/store.ts";

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
