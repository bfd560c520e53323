import type { ErrorCode } from "../../protocol/errors.ts";
import { dataFrame } from "../../protocol/frames.ts";
import type { ToolCall } from "../../protocol/interaction.ts";
import type { RunAddress } from "../live-runs.ts";
import type { Piece, RunEvent } from "../run-reader.ts";
import type { RunTranslator } from "../run-stream.ts";
import { isMaster, type ReadOutcome, type RunFault, RunSummary } from "../run-summary.ts";
import { ABORTED, metadataOf } from "./openai-run.ts";
import {
  callItem,
  interactionItem,
  itemOf,
  messageItem,
  type OutputItem,
  reasoningItem,
  summaryPart,
  textPart,
} from "./response-items.ts";

/** The fields of the request that its response repeats. */
export interface ResponseHead {
  readonly model: string;
  readonly createdAt: number;
  readonly previousId: string | null;
}

/** The id of a response. It contains the session's id, so that the next request can continue the session. */
const responseId = ({ sessionId, runId }: Pick<RunAddress, "sessionId" | "runId">): string =>
  `resp_${sessionId}.${runId}`;

type Status = "in_progress" | "completed" | "incomplete" | "failed";

/** Convert a run to a response, with its output so far. */
export function responseOf(
  address: RunAddress,
  { model, createdAt, previousId }: ResponseHead,
  summary: RunSummary,
  { status, failure }: { status?: Status; failure?: RunFault | undefined } = {},
): { id: string; object: string; model: string } & Record<string, unknown> {
  const { openInteraction, finishReason, usage } = summary;
  const isCut = finishReason !== undefined && finishReason !== "empty";
  const reason = finishReason === "length" ? "max_output_tokens" : finishReason;
  const output = summary.items.map(itemOf);
  if (openInteraction) output.push(interactionItem(address.sessionId, openInteraction));
  return {
    id: responseId(address),
    object: "response",
    created_at: createdAt,
    status: status ?? (failure ? "failed" : isCut ? "incomplete" : "completed"),
    error: failure ? { code: failure.code, message: failure.message } : null,
    incomplete_details: isCut && !failure ? { reason } : null,
    instructions: null,
    metadata: metadataOf(address),
    model,
    output: status === "in_progress" ? [] : output,
    parallel_tool_calls: true,
    previous_response_id: previousId,
    temperature: null,
    tool_choice: "auto",
    tools: [],
    top_p: null,
    usage: usage
      ? {
          input_tokens: usage.prompt_tokens,
          input_tokens_details: { cached_tokens: usage.cache_read_input_tokens ?? 0 },
          output_tokens: usage.completion_tokens,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: usage.total_tokens,
        }
      : null,
    ...(address.decision && { interlock: { type: "arbitration", data: address.decision } }),
  };
}

/** The unfinished item: a message, or the reasoning before it. */
interface OpenItem {
  readonly kind: Piece["kind"];
  readonly id: string;
  readonly index: number;
  text: string;
}

/** Translates a run to the events of a response. */
export class ResponseTranslator implements RunTranslator {
  readonly #address: RunAddress;
  readonly #head: ResponseHead;
  readonly #summary: RunSummary;
  readonly #calls = new Map<string, { call: ToolCall; index: number }>();
  #open: OpenItem | undefined;
  #count = 0;
  #sequence = 0;

  constructor(address: RunAddress, head: ResponseHead) {
    this.#address = address;
    this.#summary = new RunSummary(address.resolved);
    this.#head = head;
  }

  get outcome(): ReadOutcome | undefined {
    return this.#summary.outcome;
  }

  begin(): string {
    const response = responseOf(this.#address, this.#head, this.#summary, { status: "in_progress" });
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  piece(piece: Piece): string {
    if (!isMaster(piece.agent)) return "";
    this.#summary.addPiece(piece);
    const { messageId, kind, text } = piece;
    const begun =
      this.#open?.kind === kind && this.#open.id === messageId ? "" : this.#close() + this.#begin(messageId, kind);
    const open = this.#open!;
    open.text += text;
    const [type, about] = PIECE_EVENTS[kind];
    return begun + this.#event(`${type}.delta`, { ...this.#about(open), ...about, delta: text });
  }

  event(event: RunEvent): string {
    const summary = this.#summary;
    summary.addEvent(event);
    if (event.type === "message") {
      const isMine = event.data.agent && isMaster(event.data.agent) && event.data.id === this.#open?.id;
      return isMine ? this.#close() : "";
    }
    if (event.type === "tool_call" && isMaster(event.data.agent)) return this.#close() + this.#beginCall(event.data);
    if (event.type === "tool_result") return this.#endCall(event.data.toolCallId);
    if (!summary.outcome) return "";
    return this.#close() + this.#endCalls() + this.#end();
  }

  fail(code: ErrorCode, message: string): string {
    const response = responseOf(this.#address, this.#head, this.#summary, { failure: { code, message } });
    return this.#event("response.failed", { response });
  }

  #end(): string {
    const { openInteraction, failure, isCancelled } = this.#summary;
    if (isCancelled && !failure) return this.fail("session_archived", ABORTED);
    const shown = openInteraction ? this.#add(interactionItem(this.#address.sessionId, openInteraction)) : "";
    const response = responseOf(this.#address, this.#head, this.#summary, { failure });
    return shown + this.#event(`response.${response["status"]}`, { response });
  }

  #begin(id: string, kind: Piece["kind"]): string {
    const open: OpenItem = { kind, id, index: this.#count++, text: "" };
    this.#open = open;
    const item = kind === "text" ? messageItem(id, undefined, "in_progress") : reasoningItem(id, undefined);
    const added = this.#event("response.output_item.added", { output_index: open.index, item });
    return (
      added +
      this.#event(`${PART_EVENTS[kind]}.added`, { ...this.#about(open), ...PIECE_EVENTS[kind][1], part: partOf(open) })
    );
  }

  /** Complete the unfinished item. */
  #close(): string {
    const open = this.#open;
    if (!open) return "";
    this.#open = undefined;
    const { kind, id, index, text } = open;
    const [type, about] = PIECE_EVENTS[kind];
    const item = kind === "text" ? messageItem(id, text) : reasoningItem(id, text);
    return (
      this.#event(`${type}.done`, { ...this.#about(open), ...about, text }) +
      this.#event(`${PART_EVENTS[kind]}.done`, { ...this.#about(open), ...about, part: partOf(open) }) +
      this.#event("response.output_item.done", { output_index: index, item })
    );
  }

  #beginCall(call: ToolCall): string {
    const index = this.#count++;
    this.#calls.set(call.toolCallId, { call, index });
    const about = { output_index: index, item_id: call.toolCallId };
    const item = callItem(call, undefined, "in_progress");
    return (
      this.#event("response.output_item.added", { output_index: index, item }) +
      this.#event("response.mcp_call_arguments.done", { ...about, arguments: call.function.arguments }) +
      this.#event("response.mcp_call.in_progress", about)
    );
  }

  #endCall(toolCallId: string): string {
    const begun = this.#calls.get(toolCallId);
    if (!begun) return "";
    this.#calls.delete(toolCallId);
    const { call, index } = begun;
    const found = this.#summary.items.find((item) => item.kind === "call" && item.call.toolCallId === toolCallId);
    const result = found?.kind === "call" ? found.result : undefined;
    const item = callItem(call, result);
    const about = { output_index: index, item_id: toolCallId };
    const ended = result ? this.#event(`response.mcp_call.${item["status"]}`, about) : "";
    return ended + this.#event("response.output_item.done", { output_index: index, item });
  }

  /** Calls without a result in this response. */
  #endCalls(): string {
    return [...this.#calls.keys()].map((id) => this.#endCall(id)).join("");
  }

  #add(item: OutputItem): string {
    const index = this.#count++;
    const added = this.#event("response.output_item.added", { output_index: index, item });
    const { type, id: item_id, arguments: text } = item;
    const done =
      type === "function_call"
        ? this.#event("response.function_call_arguments.done", {
            output_index: index,
            item_id,
            arguments: text,
            name: item["name"],
          })
        : "";
    return added + done + this.#event("response.output_item.done", { output_index: index, item });
  }

  #about({ kind, id, index }: OpenItem) {
    return { item_id: `${kind === "text" ? "msg" : "rs"}_${id}`, output_index: index };
  }

  #event(type: string, data: object): string {
    return `event: ${type}\n${dataFrame(JSON.stringify({ type, sequence_number: this.#sequence++, ...data }))}`;
  }
}

const partOf = ({ kind, text }: OpenItem) => (kind === "text" ? textPart(text) : summaryPart(text));

const PART_EVENTS = { text: "response.content_part", reasoning: "response.reasoning_summary_part" } as const;

/** The event types of a growing text, and the location of the text in its item. */
const PIECE_EVENTS = {
  text: ["response.output_text", { content_index: 0, logprobs: [] }],
  reasoning: ["response.reasoning_summary_text", { summary_index: 0 }],
} as const;
