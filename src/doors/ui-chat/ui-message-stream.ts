import type { InterlockDataParts } from "../../protocol/chat-data.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { AppError, ErrorCode } from "../../protocol/errors.ts";
import type { LoggedData } from "../../protocol/event.ts";
import { dataFrame } from "../../protocol/frames.ts";
import type { RequestId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/interaction.ts";
import type { AgentRef, FinishReason } from "../../protocol/message.ts";
import { parseJson } from "../../shared/json.ts";
import type { RunAddress } from "../live-runs.ts";
import type { Piece, RunEvent } from "../run-reader.ts";
import type { RunTranslator } from "../run-stream.ts";
import { isMaster, type ReadOutcome } from "../run-summary.ts";
import { QUESTION_TOOL } from "./ui-request.ts";

/** The step of parts from earlier streams of the reply. */
const EARLIER = 0;

/** The marker that ends a stream in this protocol. */
const DONE = "data: [DONE]\n\n";

const chunk = (type: string, fields: object = {}): string => dataFrame(JSON.stringify({ type, ...fields }));

const dataChunk = <Name extends keyof InterlockDataParts>(name: Name, data: InterlockDataParts[Name], id?: string) =>
  chunk(`data-${name}`, { ...(id !== undefined && { id }), data });

/**
 * The reply to a turn that was refused: why as data, with the arbiter's decision if it refused, and a sentence as the
 * error.
 */
export function refusedReply(messageId: string, { code: errorCode, message, facts }: AppError): string {
  const decision = facts["decision"] as Decision | undefined;
  const text = decision?.say ?? message;
  return [
    chunk("start", { messageId }),
    decision ? dataChunk("arbitration", decision) : dataChunk("error", { errorCode, message: text }),
    chunk("error", { errorText: text }),
    DONE,
  ].join("");
}

/** Translates a run to the UI message stream of the AI SDK. One run is one message of the page. */
export class UiTranslator implements RunTranslator {
  readonly #address: RunAddress;
  /** The page appends the parts to those that it has. */
  readonly #isContinued: boolean;
  /** The unfinished part. */
  #open: { kind: Piece["kind"]; messageId: string; id: string } | undefined;
  #parts = 0;
  #step = EARLIER + 1;
  /** The steps of the tool parts without an output, by their ids: the id of the call, or of the request for consent. */
  readonly #openParts: Map<string, number>;
  /** The newest request for consent to a call. */
  readonly #confirmations: Map<string, RequestId>;
  readonly #calledBySubs = new Map<string, ToolCall & { agent: AgentRef }>();
  readonly #questions = new Set<RequestId>();
  #finishReason: FinishReason | undefined;
  #failure: InterlockDataParts["error"] | undefined;
  #outcome: ReadOutcome | undefined;

  /**
   * @param openParts the ids of the tool parts without an output that the page has, in a continued reply; absent: the
   * reply is shown from its beginning
   */
  constructor(address: RunAddress, openParts?: ReadonlySet<string>) {
    this.#address = address;
    this.#isContinued = openParts !== undefined;
    this.#openParts = new Map([...(openParts ?? [])].map((id) => [id, EARLIER]));
    this.#confirmations = new Map(address.earlier?.confirmations);
    for (const [id, call] of address.earlier?.open ?? []) if (!isMaster(call.agent)) this.#calledBySubs.set(id, call);
  }

  get outcome(): ReadOutcome | undefined {
    return this.#outcome;
  }

  begin(): string {
    const { runId, sessionId, decision, playedUpTo: played } = this.#address;
    const messageMetadata = { sessionId, runId, ...(played !== undefined && { played }) };
    const begun = chunk("start", { messageId: runId, messageMetadata });
    const shown = decision && !this.#isContinued ? dataChunk("arbitration", decision) : "";
    return begun + shown + chunk("start-step");
  }

  piece({ messageId, agent, kind, text }: Piece): string {
    if (!isMaster(agent)) return "";
    const goesOn = this.#open?.kind === kind && this.#open.messageId === messageId;
    const begun = goesOn ? "" : this.#close() + this.#begin(messageId, kind);
    return begun + chunk(`${kind}-delta`, { id: this.#open!.id, delta: text });
  }

  event({ type, data, requestId }: RunEvent): string {
    switch (type) {
      case "message": {
        const { agent, id, content, status, finishReason } = data;
        if (!agent || isMaster(agent)) {
          this.#finishReason = finishReason;
          return this.#close();
        }
        return dataChunk("message", { id, content, status, agent }, id);
      }
      case "tool_call":
        return this.#call(data);
      case "tool_result":
        return this.#result(data);
      case "tool_confirmation_request":
        return this.#confirm(requestId!, data.toolCall);
      case "user_question_request":
        return this.#question(requestId!, data);
      case "interaction_resolved": {
        if (!this.#questions.delete(requestId!)) return "";
        // In a step of its own, because the page sends the answers of a reply's last step.
        return (
          chunk("tool-output-available", { toolCallId: requestId, output: data, dynamic: true }) + this.#nextStep()
        );
      }
      case "arbitration":
        return dataChunk("arbitration", data);
      case "session_transition":
        return dataChunk("session", data, `session-${this.#address.runId}`);
      case "data":
        return dataChunk("agent", data);
      case "error": {
        const { errorCode, message, retryAfterMs } = data;
        this.#failure = { errorCode, message, ...(retryAfterMs !== undefined && { retryAfterMs }) };
        return "";
      }
      case "complete":
        return this.#complete(data);
      case "session_created":
      case "session_updated":
      case "routed":
      case "agent_switched":
      case "usage":
      case "floor_updated":
        return "";
      default:
        void (type satisfies never);
        return "";
    }
  }

  fail(_code: ErrorCode, message: string): string {
    return this.#close() + chunk("error", { errorText: message }) + DONE;
  }

  #begin(messageId: string, kind: Piece["kind"]): string {
    const id = `${messageId}.${this.#parts++}`;
    this.#open = { kind, messageId, id };
    return chunk(`${kind}-start`, { id });
  }

  #close(): string {
    if (!this.#open) return "";
    const { kind, id } = this.#open;
    this.#open = undefined;
    return chunk(`${kind}-end`, { id });
  }

  #call({ agent, ...call }: LoggedData<"tool_call">): string {
    if (isMaster(agent)) return this.#close() + this.#showCall(call);
    const { toolCallId } = call;
    this.#calledBySubs.set(toolCallId, { ...call, agent });
    return dataChunk("tool-call", { ...call, agent }, toolCallId);
  }

  /** The tool runs in Interlock: the page shows the call and must not send a result. */
  #showCall(
    { toolCallId, function: { name: toolName, arguments: text } }: ToolCall,
    partId: string = toolCallId,
  ): string {
    this.#openParts.set(partId, this.#step);
    const about = { toolName, input: inputOf(text), providerExecuted: true, dynamic: true };
    return chunk("tool-input-available", { toolCallId: partId, ...about });
  }

  #result({ toolCallId, content, status }: LoggedData<"tool_result">): string {
    const called = this.#calledBySubs.get(toolCallId);
    this.#calledBySubs.delete(toolCallId);
    const shown = called ? dataChunk("tool-call", { ...called, content, status }, toolCallId) : "";
    const confirmation = this.#confirmations.get(toolCallId);
    const ids = confirmation === undefined ? [toolCallId] : [toolCallId, confirmation];
    return shown + ids.map((partId) => this.#output(partId, content, status)).join("");
  }

  /** The output of a tool part, if the page has that part without one. */
  #output(partId: string, content: string, status: LoggedData<"tool_result">["status"]): string {
    if (!this.#openParts.delete(partId)) return "";
    const about = { toolCallId: partId, providerExecuted: true, dynamic: true };
    return status === "error"
      ? chunk("tool-output-error", { ...about, errorText: content })
      : chunk("tool-output-available", { ...about, output: content });
  }

  /**
   * Ask for consent in the last step of the reply. The page sends the answer once all tool parts of that step have an
   * output or an answer, so that no other call may be unfinished in it. A call that an earlier step has gets another
   * part.
   */
  #confirm(requestId: RequestId, call: ToolCall): string {
    this.#confirmations.set(call.toolCallId, requestId);
    if (this.#address.resolved.has(requestId)) return "";
    const step = this.#openParts.get(call.toolCallId);
    const openInStep = [...this.#openParts.values()].filter((each) => each === this.#step).length;
    const isAlone = step === this.#step && openInStep === 1;
    const toolCallId = step === undefined || isAlone ? call.toolCallId : requestId;
    const parted = !isAlone && openInStep > 0 ? this.#nextStep() : "";
    const shown = isAlone ? "" : this.#showCall(call, toolCallId);
    return parted + shown + chunk("tool-approval-request", { approvalId: requestId, toolCallId }) + this.#wait();
  }

  #nextStep(): string {
    this.#step += 1;
    return this.#close() + chunk("finish-step") + chunk("start-step");
  }

  #question(requestId: RequestId, data: LoggedData<"user_question_request">): string {
    const shown = chunk("tool-input-available", {
      toolCallId: requestId,
      toolName: QUESTION_TOOL,
      input: data,
      dynamic: true,
    });
    this.#questions.add(requestId);
    return this.#close() + shown + (this.#address.resolved.has(requestId) ? "" : this.#wait());
  }

  /** The page answers after the stream has ended; the run waits for the answer. */
  #wait(): string {
    this.#outcome = "asks";
    return chunk("finish-step") + chunk("finish", { finishReason: "tool-calls" }) + DONE;
  }

  #complete({ usage, cancelled }: LoggedData<"complete">): string {
    this.#outcome = "ended";
    const closed = this.#close();
    const failure = this.#failure;
    if (failure) return closed + dataChunk("error", failure) + chunk("error", { errorText: failure.message }) + DONE;
    if (cancelled) return closed + chunk("abort", { reason: "The reply was aborted." }) + DONE;
    const finishReason = REASONS[this.#finishReason ?? "empty"];
    return closed + chunk("finish-step") + chunk("finish", { finishReason, messageMetadata: { usage } }) + DONE;
  }
}

const REASONS: { readonly [reason in FinishReason]: string } = {
  length: "length",
  content_filter: "content-filter",
  empty: "stop",
  incomplete: "other",
};

/** A model may have written arguments that are not JSON. */
function inputOf(text: string): unknown {
  const input = parseJson(text);
  return input === undefined ? text : input;
}
