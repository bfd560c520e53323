import type { ErrorCode } from "../protocol/errors.ts";
import type { LoggedData } from "../protocol/event.ts";
import type { MessageId, RequestId } from "../protocol/ids.ts";
import type { ToolCall } from "../protocol/interaction.ts";
import type { AgentRef, FinishReason, Usage } from "../protocol/message.ts";
import type { Piece, RunEvent } from "./run-reader.ts";

/** A part of an answer, in order. */
export type RunItem =
  | { readonly kind: "text" | "reasoning"; readonly id: MessageId; text: string }
  | {
      readonly kind: "call";
      readonly call: ToolCall;
      result?: Pick<LoggedData<"tool_result">, "content" | "status"> | undefined;
    };

/** A question or confirmation that a run waits for. */
export type RunInteraction = { readonly requestId: RequestId } & (
  | { readonly kind: "question"; readonly data: LoggedData<"user_question_request"> }
  | { readonly kind: "confirmation"; readonly data: LoggedData<"tool_confirmation_request"> }
);

export interface RunFault {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
}

/** How an answer ends: with the run, or with a question to the client. */
export type ReadOutcome = "ended" | "asks";

/** Whether the output is from the session's own agent. Other protocols have no sub-agents. */
export const isMaster = ({ kind }: AgentRef): boolean => kind === "master";

/** Collects a run: its text, its tool calls, and its end. */
export class RunSummary {
  readonly items: RunItem[] = [];
  usage: Usage | undefined;
  finishReason: FinishReason | undefined;
  nativeFinishReason: string | undefined;
  failure: RunFault | undefined;
  isCancelled = false;
  openInteraction: RunInteraction | undefined;
  readonly #resolved: ReadonlySet<RequestId>;
  #outcome: ReadOutcome | undefined;

  /** @param resolved questions that are answered already: the answer does not end with them */
  constructor(resolved: ReadonlySet<RequestId>) {
    this.#resolved = resolved;
  }

  get outcome(): ReadOutcome | undefined {
    return this.#outcome;
  }

  /** All text of the agent. */
  get text(): string {
    return this.items.map((item) => (item.kind === "text" ? item.text : "")).join("");
  }

  addPiece({ messageId: id, agent, kind, text }: Piece): void {
    if (!isMaster(agent)) return;
    const last = this.items.at(-1);
    if (last?.kind === kind && last.id === id) last.text += text;
    else this.items.push({ kind, id, text });
  }

  addEvent({ type, data, requestId }: RunEvent): void {
    switch (type) {
      case "message":
        if (data.agent && isMaster(data.agent)) {
          this.finishReason = data.finishReason;
          this.nativeFinishReason = data.nativeFinishReason;
        }
        return;
      case "tool_call": {
        const { agent, ...call } = data;
        if (isMaster(agent)) this.items.push({ kind: "call", call });
        return;
      }
      case "tool_result": {
        const { toolCallId, content, status } = data;
        const item = this.items.find((each) => each.kind === "call" && each.call.toolCallId === toolCallId);
        if (item?.kind === "call") item.result = { content, status };
        return;
      }
      case "user_question_request":
        return this.#ask({ kind: "question", requestId: requestId!, data });
      case "tool_confirmation_request":
        return this.#ask({ kind: "confirmation", requestId: requestId!, data });
      case "error": {
        const { errorCode: code, message, retryAfterMs } = data;
        this.failure = { code, message, retryAfterMs };
        return;
      }
      case "complete":
        this.usage = data.usage;
        this.isCancelled = data.cancelled === true;
        this.#outcome = "ended";
    }
  }

  #ask(interaction: RunInteraction): void {
    if (this.#resolved.has(interaction.requestId)) return;
    this.openInteraction = interaction;
    this.#outcome = "asks";
  }
}
