/** The parts of a response in OpenAI's `output` format. */

import type { SessionId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/interaction.ts";
import type { RunInteraction, RunItem } from "../run-summary.ts";
import { argumentsOf, FUNCTION_OF, interactionId } from "./openai-request.ts";

/** The server label of agents' tools in that API: they run in Interlock, not in the client. */
const SERVER = "interlock";

type Status = "in_progress" | "completed" | "incomplete";

export interface OutputItem {
  readonly type: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

export const textPart = (text: string) => ({ type: "output_text", text, annotations: [], logprobs: [] });
export const summaryPart = (text: string) => ({ type: "summary_text", text });

/** A message of the agent; without a text while none has arrived. */
export function messageItem(id: string, text: string | undefined, status: Status = "completed"): OutputItem {
  const content = text === undefined ? [] : [textPart(text)];
  return { type: "message", id: `msg_${id}`, role: "assistant", status, content };
}

/** The agent's reasoning, as a summary; without a text while none has arrived. */
export function reasoningItem(id: string, text: string | undefined): OutputItem {
  return { type: "reasoning", id: `rs_${id}`, summary: text === undefined ? [] : [summaryPart(text)] };
}

/** A finished tool call of an agent, which the client need not execute. */
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

/** The question that the run waits for, as a function call of the client or as a request for approval. */
export function interactionItem(sessionId: SessionId, openInteraction: RunInteraction): OutputItem {
  const id = interactionId(sessionId, openInteraction);
  if (openInteraction.kind === "confirmation") {
    const { name, arguments: text } = openInteraction.data.toolCall.function;
    return { type: "mcp_approval_request", id, server_label: SERVER, name, arguments: text };
  }
  const name = FUNCTION_OF.question;
  return { type: "function_call", id, call_id: id, name, arguments: argumentsOf(openInteraction), status: "completed" };
}

/** A finished part of a run as an item of the output. */
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
