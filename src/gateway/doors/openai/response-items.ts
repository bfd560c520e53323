import type { SessionId } from "../../../protocol/ids.ts";
import type { ToolCall } from "../../../protocol/interaction.ts";
import type { Asked, RunItem } from "../run-summary.ts";
import { argumentsOf, askedId, FUNCTION_OF } from "./openai-request.ts";

/** The parts of a response, as OpenAI's responses list them in `output`. */

/** What the tools of agents belong to, in the words of that API: they run here, not with the client. */
const SERVER = "interlock";

type Status = "in_progress" | "completed" | "incomplete";

export interface OutputItem {
  readonly type: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

export const textPart = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });
export const summaryPart = (text: string) => ({ type: "summary_text", text });

export function messageItem(id: string, text: string | undefined, status: Status = "completed"): OutputItem {
  const content = text === undefined ? [] : [textPart(text)];
  return { type: "message", id: `msg_${id}`, role: "assistant", status, content };
}

export function reasoningItem(id: string, text: string | undefined): OutputItem {
  return { type: "reasoning", id: `rs_${id}`, summary: text === undefined ? [] : [summaryPart(text)] };
}

/** A call that an agent made. It is over, so a client has nothing to carry out. */
export function callItem(
  { toolCallId, function: { name, arguments: text } }: ToolCall,
  result: Extract<RunItem, { kind: "call" }>["result"],
  status: Status | "failed" = result ? (result.status === "error" ? "failed" : "completed") : "incomplete",
): OutputItem {
  return {
    type: "mcp_call",
    id: toolCallId,
    server_label: SERVER,
    name,
    arguments: text,
    status,
    output: result?.status === "success" ? result.content : null,
    error: result?.status === "error" ? result.content : null,
    approval_request_id: null,
  };
}

/** What the run waits for: a function that the client carries out, or an approval that it asks its user for. */
export function askedItem(sessionId: SessionId, asked: Asked): OutputItem {
  const id = askedId(sessionId, asked);
  if (asked.kind === "confirmation") {
    const { name, arguments: text } = asked.data.toolCall.function;
    return { type: "mcp_approval_request", id, server_label: SERVER, name, arguments: text };
  }
  const name = FUNCTION_OF.question;
  return { type: "function_call", id, call_id: id, name, arguments: argumentsOf(asked), status: "completed" };
}

export function itemOf(item: RunItem): OutputItem {
  switch (item.kind) {
    case "text":
      return messageItem(item.id, item.text);
    case "reasoning":
      return reasoningItem(item.id, item.text);
    case "call":
      return callItem(item.call, item.result);
  }
}
