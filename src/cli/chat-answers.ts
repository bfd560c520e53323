import type { OutgoingMessage } from "../client/client.ts";
import type { PendingInteraction } from "../client/live/live-session.ts";

type Response = Extract<OutgoingMessage, { requestId: string }>["response"];

const APPROVALS: Readonly<Record<string, Response>> = {
  y: "approve",
  yes: "approve",
  a: "approve_always",
  always: "approve_always",
  n: "reject",
  no: "reject",
};

/** The lines that show what an agent asks, with the ways to answer. */
export function questionLines(interaction: PendingInteraction): string[] {
  if (interaction.type === "tool_confirmation_request") {
    const { name, arguments: argumentText } = interaction.data.toolCall.function;
    return [
      `? may it call ${name} ${argumentText}${interaction.data.isSensitive ? " (sensitive)" : ""}`,
      "  y: yes · a: always in this session · n: no · or say why not",
    ];
  }
  const { question, options, multiSelect } = interaction.data;
  const numbered = options.map((option, index) => `  ${index + 1}: ${option}`);
  const how = options.length === 0 ? [] : [multiSelect ? "  numbers, or other words" : "  a number, or other words"];
  return [`? ${question}`, ...numbered, ...how];
}

/** The message that answers what an agent asked, by the line that was typed. */
export function answerTo(interaction: PendingInteraction, sessionId: string, line: string): OutgoingMessage {
  const { requestId } = interaction;
  if (interaction.type === "tool_confirmation_request") {
    const response = APPROVALS[line.toLowerCase()] ?? { type: "reject_with_reply" as const, reason: line };
    return { type: "tool_confirmation_response", sessionId, requestId, response } as OutgoingMessage;
  }
  const { options, multiSelect } = interaction.data;
  const numbers = /^\d{1,3}([ ,]+\d{1,3})*$/.test(line) ? line.split(/[ ,]+/).map(Number) : [];
  const selected = numbers.flatMap((number) => options[number - 1] ?? []);
  const isChoice = selected.length > 0 && selected.length === numbers.length && (multiSelect || selected.length === 1);
  const response = isChoice ? { selected } : options.length > 0 ? { customInput: line } : line;
  return { type: "user_question_response", sessionId, requestId, response } as OutgoingMessage;
}
