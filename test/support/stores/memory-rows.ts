import type { LogEntry } from "../../../src/protocol/event.ts";
import type { MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { LOG_BYTES, readPage, rowsWithin, weightOfEvent } from "../../../src/store/row-page.ts";
import type { MessageWrite, ReceiptKey } from "../../../src/store/store.ts";

/** Keys and orders of a store in maps. */

export const receiptKey = ({ caller, commandId }: ReceiptKey): string => `${caller}\n${commandId}`;
export const sessionOf = (write: MessageWrite): SessionId =>
  "message" in write ? write.message.sessionId : write.sessionId;
export const idOf = (write: MessageWrite): MessageId => ("message" in write ? write.message.id : write.id);
export const keyOf = (write: MessageWrite): string => `${sessionOf(write)}/${idOf(write)}`;

interface Dated {
  id: string;
  dueAt: number;
}

export function byTime(one: Dated, other: Dated): number {
  if (one.dueAt !== other.dueAt) return one.dueAt - other.dueAt;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

/** The last rows up to a number and a page's size, oldest first. */
export function newest(messages: Message[], limit: number): { messages: Message[]; hasMore: boolean } {
  if (limit === 0) return { messages: [], hasMore: messages.length > 0 };
  const page = firstOf(messages.toReversed(), limit);
  return { messages: page.messages.reverse(), hasMore: page.hasMore };
}

/** The first rows up to a number and a page's size. */
export function firstOf(messages: readonly Message[], limit: number): { messages: Message[]; hasMore: boolean } {
  const { page, hasMore } = readPage(messages, limit, ({ content }) => Buffer.byteLength(content));
  return { messages: page.map((message) => ({ ...message })), hasMore };
}

/** The first entries of a log up to a page's size. */
export function logPage(entries: readonly LogEntry[], limit: number): LogEntry[] {
  return rowsWithin(entries.slice(0, limit), LOG_BYTES, weightOfEvent).map((entry) => ({ ...entry }));
}
