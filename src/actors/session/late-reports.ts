import type { MessageId } from "../../protocol/ids.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { Message } from "../../protocol/message.ts";
import type { SessionStep } from "./session-step.ts";

/** The text that the last reports of an attempt add to one message. */
interface Gain {
  /** The offset of `text`, in UTF-16 units. */
  offset: number;
  text: string;
  parts?: Message["parts"];
  /** Set for a message that these reports open. */
  opened?: Pick<Message, "agent">;
}

/**
 * Apply the reports that were in flight when an attempt was stopped (rule C12). Readers have seen their text already, so
 * the unfinished messages get it too. Each report is applied once and in order, until the attempt confirms its end. The
 * other parts of these reports have no effect.
 */
export function takeLateReport(step: SessionStep, { n, runId, parts }: CommandOf<"run.report">): void {
  const { stopping } = step.context;
  if (stopping?.reported === undefined || n !== stopping.reported + 1) return;
  const messages = stopping.messages ?? [];
  const gains = gainsOf(parts, messages);
  step.context.stopping = { ...stopping, reported: n, messages: [...new Set([...messages, ...gains.keys()])] };
  for (const [messageId, gain] of gains) keep(step, runId, messageId, gain);
}

function gainsOf(parts: CommandOf<"run.report">["parts"], messages: readonly MessageId[]): Map<MessageId, Gain> {
  const gains = new Map<MessageId, Gain>();
  for (const part of parts) {
    if (part.kind === "open") {
      if (!messages.includes(part.messageId))
        gains.set(part.messageId, { offset: 0, text: "", opened: { agent: part.agent } });
    } else if (part.kind === "append" || part.kind === "close") {
      if (!gains.has(part.messageId) && !messages.includes(part.messageId)) continue;
      const gain = gains.get(part.messageId) ?? { offset: "offset" in part ? part.offset : 0, text: "" };
      gains.set(part.messageId, gain);
      if (part.kind === "close") gain.parts = part.parts;
      else gain.text += part.text;
    }
  }
  for (const [id, { text, parts: thoughts }] of gains) if (text === "" && !thoughts?.length) gains.delete(id);
  return gains;
}

function keep({ context, facts, given }: SessionStep, runId: Message["runId"], id: MessageId, gain: Gain): void {
  const { offset, text, parts, opened } = gain;
  const sessionId = context.id;
  // The log of an archived session has ended. Its stored messages still get the text.
  const over = context.archivedAt === undefined ? {} : { isLogOver: true };
  if (!opened) {
    facts.push({ type: "message.extend", sessionId, messageId: id, offset, text, ...(parts && { parts }), ...over });
    return;
  }
  const { now } = given;
  const times = { createdAt: now, startedAt: now, finishedAt: now };
  context.messageCount += 1;
  facts.push({
    type: "message.add",
    ...over,
    message: {
      id,
      sessionId,
      role: "assistant",
      content: text,
      ...(parts && { parts }),
      status: "interrupted",
      ...opened,
      runId,
      ...times,
    },
  });
}
