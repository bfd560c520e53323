import type { Effect } from "../../src/protocol/effect.ts";
import type { MessageId, SessionId } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { MessageWrite, ReceiptKey } from "../../src/store/store.ts";

/** Keys and orders of a store of plain maps. */

export const receiptKey = ({ caller, commandId }: ReceiptKey): string => `${caller}\n${commandId}`;
export const sessionOf = (write: MessageWrite): SessionId =>
  "message" in write ? write.message.sessionId : write.sessionId;
export const idOf = (write: MessageWrite): MessageId => ("message" in write ? write.message.id : write.id);
export const keyOf = (write: MessageWrite): string => `${sessionOf(write)}/${idOf(write)}`;

export function byTime(one: Pick<Effect, "id" | "dueAt">, other: Pick<Effect, "id" | "dueAt">): number {
  if (one.dueAt !== other.dueAt) return one.dueAt - other.dueAt;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

/** The last so many, oldest first. */
export function newest(messages: Message[], limit: number): { messages: Message[]; hasMore: boolean } {
  const page = limit === 0 ? [] : messages.slice(-limit);
  return { messages: page.map((message) => ({ ...message })), hasMore: messages.length > limit };
}
