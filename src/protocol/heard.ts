/**
 * What was heard of spoken replies. A turn may have several messages: before and after a tool call, and one for each
 * attempt. They are spoken one after another, so a turn has one position: that of its last message that has one.
 */

import type { Message } from "./message.ts";

/** Whether the message is a reply of the session's own agent, which may be spoken. */
export const isReply = ({ role, agent, summary }: Pick<Message, "role" | "agent" | "summary">): boolean =>
  role === "assistant" && agent?.kind !== "sub" && summary === undefined;

/** Whether there is something to hear in the text. */
const WORD = /[\p{L}\p{N}]/u;

type Heard = Pick<Message, "role" | "agent" | "summary" | "runId" | "content" | "playedUpTo">;

/**
 * How much of each message was heard, in UTF-16 units. Before its turn's position everything was heard, and after it
 * nothing, unless only punctuation and spaces follow in that message.
 * @param messages in their order
 */
export function heardUnits(messages: readonly Heard[]): number[] {
  /** By the run: the place of its last message with a position. */
  const positions = new Map<string | undefined, number>();
  for (const [index, message] of messages.entries()) {
    if (message.playedUpTo !== undefined && isReply(message)) positions.set(message.runId, index);
  }
  return messages.map((message, index) => {
    const { runId, content, playedUpTo } = message;
    const whole = content.length;
    // An imported message may have no run: it is a turn of its own.
    const last = !isReply(message) ? undefined : runId === undefined ? index : positions.get(runId);
    const position = last === undefined ? undefined : messages[last]!;
    if (position?.playedUpTo === undefined || index < last!) return whole;
    if (!WORD.test(position.content.slice(position.playedUpTo))) return whole;
    return index === last ? playedUpTo! : 0;
  });
}
