import type { SummaryRequest } from "../agents/agent.ts";
import type { MessageId, SessionId } from "../protocol/ids.ts";
import type { SummaryTask } from "../protocol/internal/run.ts";
import { isForModel, type Message } from "../protocol/message.ts";
import { TurnOrder } from "../protocol/turn-order.ts";
import type { MessageStore } from "../store/store.ts";

/** Messages of one read. */
const PAGE = 100;
/** What one summary covers at most, in messages and in bytes of their text: it fits the window of common models. */
const MAX_COVERED_MESSAGES = 1_000;
const MAX_COVERED_BYTES = 262_144;

/** The work on a summary: what it is to cover. */
export interface SummaryWork {
  purpose: "summary";
  request: SummaryRequest;
  /** The last message that it covers. */
  upTo: MessageId;
  /** Whether finished messages remain that did not fit. */
  hasMore: boolean;
}

/**
 * Read what the summary before does not cover, in the order of turns, up to the first message that is not finished or
 * belongs to the turn under way. A covered message never changes.
 * @returns undefined if nothing was said, or the session is gone
 */
export async function readSummaryWork(
  store: MessageStore,
  sessionId: SessionId,
  { purpose, runId, attempt, summaryId, before }: SummaryTask,
): Promise<SummaryWork | undefined> {
  const previous = summaryId && (await store.findMessage(sessionId, summaryId));
  const covered = previous?.summary?.upTo;
  const portion = new Portion();
  let isNew = covered === undefined;
  for await (const message of orderedMessages(store, sessionId, covered)) {
    if (message.id === before) break;
    if (isNew) portion.add(message);
    else isNew = message.id === covered;
    if (portion.end !== undefined) break;
  }
  const { messages, upTo, end } = portion;
  if (upTo === undefined || messages.length === 0) return undefined;
  const request = { runId, attempt, sessionId, previous: previous?.content, messages };
  return { purpose, request, upTo, hasMore: end === "full" };
}

/**
 * The messages of a session in the order of its turns, from some message before this one on: turns that waited may be
 * listed before it although they came after it.
 */
async function* orderedMessages(
  store: MessageStore,
  sessionId: SessionId,
  from: MessageId | undefined,
): AsyncGenerator<Message> {
  const order = new TurnOrder();
  const earlier = from && (await store.listMessages(sessionId, { before: from, limit: PAGE }));
  for (const message of earlier?.messages ?? []) yield* order.take(message);
  let after = earlier?.messages.at(-1)?.id;
  for (let hasMore = true; hasMore; ) {
    const range = after === undefined ? { fromStart: true } : { after };
    const page = await store.listMessages(sessionId, { ...range, limit: PAGE });
    for (const message of page?.messages ?? []) yield* order.take(message);
    after = page?.messages.at(-1)?.id;
    hasMore = page?.hasMore === true && after !== undefined;
  }
  yield* order.rest();
}

/** The messages of one summary, oldest first. */
class Portion {
  readonly messages: Message[] = [];
  /** The last message that it covers; messages that models do not receive count. */
  upTo: MessageId | undefined;
  /** Why it takes no more messages: no further one is finished, or the next one does not fit. */
  end: "complete" | "full" | undefined;
  #bytes = 0;

  /** Take the next message, or end. */
  add(message: Message): void {
    if (message.status === "queued" || message.status === "running") {
      this.end = "complete";
      return;
    }
    if (isForModel(message)) {
      this.#bytes += Buffer.byteLength(message.content);
      const { length } = this.messages;
      if (length === MAX_COVERED_MESSAGES || (length > 0 && this.#bytes > MAX_COVERED_BYTES)) {
        this.end = "full";
        return;
      }
      this.messages.push(message);
    }
    this.upTo = message.id;
  }
}
