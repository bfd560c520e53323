import type { OutgoingMessage } from "../client/client.ts";
import type { PendingInteraction } from "../client/conversation-reader.ts";
import type { ChatWords } from "./chat-words.ts";

type Response = Extract<OutgoingMessage, { requestId: string }>["response"];

/** Words for each answer, in both languages whatever the chat's own. Other words are the reason of a rejection. */
const APPROVALS = answersOf({
  approve: "y yes ok okay yep sure 是 好 好的 可以 行",
  approve_always: "a always 总是",
  reject: "n no nope 否 不 不行 不可以",
});

function answersOf(words: Record<"approve" | "approve_always" | "reject", string>): ReadonlyMap<string, Response> {
  return new Map(
    Object.entries(words).flatMap(([response, said]) => said.split(" ").map((word) => [word, response as Response])),
  );
}

/** The lines that show what an agent asks, with the ways to answer. */
export function questionLines(interaction: PendingInteraction, words: ChatWords): string[] {
  if (interaction.type === "tool_confirmation_request") {
    const { name, arguments: argumentText } = interaction.data.toolCall.function;
    return [
      `? ${words.mayItCall(`${name} ${argumentText}`, interaction.data.isSensitive === true)}`,
      `  ${words.approvals}`,
    ];
  }
  const { question, options, multiSelect } = interaction.data;
  const numbered = options.map((option, index) => `  ${index + 1}: ${option}`);
  const how = options.length === 0 ? [] : [`  ${multiSelect ? words.choices : words.choice}`];
  return [`? ${question}`, ...numbered, ...how];
}

/** The message that answers what an agent asked, by the line that was typed. */
export function answerTo(interaction: PendingInteraction, sessionId: string, line: string): OutgoingMessage {
  const { requestId } = interaction;
  if (interaction.type === "tool_confirmation_request") {
    const response = APPROVALS.get(line.toLowerCase().replace(/[.!。！]+$/u, "")) ?? {
      type: "reject_with_reply" as const,
      reason: line,
    };
    return { type: "tool_confirmation_response", sessionId, requestId, response } as OutgoingMessage;
  }
  const { options, multiSelect } = interaction.data;
  const numbers = /^\d{1,3}([ ,]+\d{1,3})*$/.test(line) ? line.split(/[ ,]+/).map(Number) : [];
  const selected = numbers.flatMap((number) => options[number - 1] ?? []);
  const isChoice = selected.length > 0 && selected.length === numbers.length && (multiSelect || selected.length === 1);
  const response = isChoice ? { selected } : options.length > 0 ? { customInput: line } : line;
  return { type: "user_question_response", sessionId, requestId, response } as OutgoingMessage;
}
