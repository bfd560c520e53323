// Rule C12 of docs/inside/correctness.md.
import type { MessageId } from "../../protocol/ids.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { Message } from "../../protocol/message.ts";
import { countTokens } from "./runs.ts";
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
 * Apply the reports that were in flight when an attempt was stopped (rule C12). Readers have seen their text already,
 * so the unfinished messages get it too, and their tokens were used. Each report is applied once and in order, until
 * the attempt confirms its end. The other parts of these reports have no effect.
 */
export function applyLateReport(step: SessionStep, { n, runId, parts }: CommandOf<"run.report">): void {
  const { stopping } = step.context;
  if (!stopping || n !== stopping.reported + 1) return;
  const { messages } = stopping;
  const gains = gainsOf(parts, messages);
  step.context.stopping = { ...stopping, reported: n, messages: [...new Set([...messages, ...gains.keys()])] };
  for (const [messageId, gain] of gains) keep(step, runId, messageId, gain);
  const { agentId } = stopping;
  if (agentId === undefined) return;
  for (const part of parts) if (part.kind === "usage") countTokens(step, agentId, part.usage);
}

type ReportPart = CommandOf<"run.report">["parts"][number];

/**
 * What the parts add to each message. `messages` were unfinished when the attempt was stopped; other ones need an
 * `open`.
 */
function gainsOf(parts: readonly ReportPart[], messages: readonly MessageId[]): Map<MessageId, Gain> {
  const gains = new Map<MessageId, Gain>();
  for (const part of parts) {
    if (part.kind === "open" && !messages.includes(part.messageId)) {
      gains.set(part.messageId, { offset: 0, text: "", opened: { agent: part.agent } });
    } else if (part.kind === "append" || part.kind === "close") {
      extend(gains, part, messages);
    }
  }
  for (const [id, { text, parts: thoughts }] of gains) if (text === "" && !thoughts?.length) gains.delete(id);
  return gains;
}

function extend(
  gains: Map<MessageId, Gain>,
  part: Extract<ReportPart, { kind: "append" | "close" }>,
  messages: readonly MessageId[],
): void {
  const { messageId } = part;
  if (!gains.has(messageId) && !messages.includes(messageId)) return;
  const gain = gains.get(messageId) ?? { offset: "offset" in part ? part.offset : 0, text: "" };
  gains.set(messageId, gain);
  if (part.kind === "close") gain.parts = part.parts;
  else gain.text += part.text;
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
