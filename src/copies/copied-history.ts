import type { VisibleSessions } from "../gateway/access/visible-sessions.ts";
import { AppError } from "../protocol/errors.ts";
import type { MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { ImageRef, Message } from "../protocol/message.ts";
import { TurnOrder } from "../protocol/turn-order.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { BlobStore } from "../store/store.ts";
import type { StagedHistory } from "./staged-history.ts";

/** Messages per read. A page ends earlier with the message that reaches its size limit. */
const PAGE = 100;

/** Where a copy ends, in the order of turns: with a message, before one, or with the newest one. */
export type CopyEnd = { upTo: MessageId } | { before: MessageId } | "newest";

/** Whether a message is complete, so that a copy may include it. */
export const isFinished = ({ status }: Message): boolean => status !== "queued" && status !== "running";

/**
 * Read the finished messages of a session in the order of its turns, page by page. Leaves out unfinished messages, and
 * turns that wait.
 * @throws AppError `session_not_found`, also if the session is deleted during the read; `not_found` for an unknown
 *   message
 */
export async function* finishedMessages(
  sessions: VisibleSessions,
  id: SessionId,
  end: CopyEnd = "newest",
): AsyncGenerator<Message> {
  const { upTo, before } = limitsOf(end);
  const waiting = new Set<RunId | undefined>();
  for await (const message of orderedMessages(sessions, id)) {
    if (message.id === before) return;
    if (isIncluded(message, waiting)) yield message;
    else if (message.id === upTo) throw new AppError("illegal_command", "This message is not finished yet.");
    if (message.id === upTo) return;
  }
  if (end !== "newest") throw new AppError("not_found", "The message was withdrawn meanwhile.");
}

/**
 * Whether a copy has the message.
 * @param waiting runs whose turns waited when they were read, to which this adds: what they have said since then is
 *   left out with their questions
 */
function isIncluded(message: Message, waiting: Set<RunId | undefined>): boolean {
  const isOfUser = message.role === "user";
  if (isFinished(message)) return isOfUser || !waiting.has(message.runId);
  if (isOfUser) waiting.add(message.runId);
  return false;
}

const limitsOf = (end: CopyEnd): { upTo?: MessageId; before?: MessageId } => (end === "newest" ? {} : end);

/** All messages in the order of their turns. An unfinished message of an agent may come twice. */
async function* orderedMessages(sessions: VisibleSessions, id: SessionId): AsyncGenerator<Message> {
  const order = new TurnOrder();
  let after: MessageId | undefined;
  for (;;) {
    const range = after === undefined ? { fromStart: true } : { after };
    const { messages, hasMore } = await sessions.messages(id, { ...range, limit: PAGE });
    for (const message of messages) yield* order.take(message);
    // A queued turn may be withdrawn, so the next page begins after a finished message if the page has one.
    const last = messages.findLast(isFinished) ?? messages.at(-1);
    if (!hasMore || !last) break;
    after = last.id;
  }
  yield* order.rest();
}

export interface CopyOptions {
  store: BlobStore;
  clock: Clock;
  /** The sessions that the caller may see. */
  sessions: VisibleSessions;
  /** The session whose messages are copied. */
  source: SessionId;
  into: StagedHistory;
}

/**
 * Copy a session's finished messages with their images. Does not copy agents' logs and providers' sessions.
 * @returns the last message of the source that was copied
 */
export async function copyHistory(options: CopyOptions, end: CopyEnd): Promise<MessageId | undefined> {
  const { sessions, source, into } = options;
  const { upTo, before = upTo } = limitsOf(end);
  // An unknown message is refused before anything is copied.
  if (before !== undefined) await sessions.messages(source, { before, limit: 1 });
  let last: MessageId | undefined;
  for await (const message of finishedMessages(sessions, source, end)) {
    await copyImages(options, message.images ?? []);
    await into.add(message);
    last = message.id;
  }
  return last;
}

/** @throws AppError `not_found` if an image was deleted with its session */
export async function copyImages(
  { store, clock, source, into }: Omit<CopyOptions, "sessions">,
  images: readonly ImageRef[],
): Promise<void> {
  for (const { hash, bytes } of images) {
    into.weigh(bytes);
    const isCopied = await store.copyBlob(source, into.sessionId, hash, clock.now());
    if (!isCopied) throw new AppError("not_found", "An image of this session no longer exists.");
  }
}
