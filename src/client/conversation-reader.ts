import type { LiveType } from "../protocol/event.ts";
import type { Message } from "../protocol/message.ts";
import { reasoningOf } from "../protocol/reasoning.ts";
import { type MessageText, MessageTexts } from "./message-texts.ts";
import type { ServerEvent, ServerEventOf } from "./server-event.ts";

/** A message, as far as its text is known. `isStreaming`: more may follow. */
export interface SessionMessage extends Message {
  isStreaming: boolean;
  /** The agent's reasoning, as far as it is published. */
  reasoning: string;
}

/** A question of the agent that a person has to answer. */
export type PendingInteraction = (
  | ServerEventOf<"tool_confirmation_request">
  | ServerEventOf<"user_question_request">
) & { requestId: string };

export type ToolUse = ServerEventOf<"tool_call"> & { result?: ServerEventOf<"tool_result">["data"] };

/** A session's conversation, as its view shows it. */
export interface ConversationView {
  /** Oldest first, including those that are being written. */
  messages: readonly SessionMessage[];
  /** Oldest first. */
  toolUses: readonly ToolUse[];
  interactions: readonly PendingInteraction[];
  /** The latest failure, until a run ends successfully. */
  error: ServerEventOf<"error">["data"] | undefined;
}

/**
 * Reads a session's conversation from its events: those of a stream or of a log, in order, from any moment on. Repeated
 * events change nothing.
 */
export class ConversationReader {
  readonly #messages = new ListedMap<SessionMessage>();
  readonly #toolUses = new ListedMap<ToolUse>();
  /** Calls without a result, by their own ids, which a later run may use again. */
  readonly #openCalls = new Map<string, string>();
  readonly #pending = new ListedMap<PendingInteraction>();
  readonly #texts = new MessageTexts();
  readonly #maxToolUses: number;
  #error: ConversationView["error"];

  /** @param maxToolUses beyond them the oldest is dropped */
  constructor(messages: readonly Message[] = [], error?: ConversationView["error"], maxToolUses = Infinity) {
    for (const message of messages) this.#messages.set(message.id, shownMessage(message));
    this.#error = error;
    this.#maxToolUses = maxToolUses;
  }

  /** A list that has not changed is the same object as before. */
  get view(): ConversationView {
    return {
      messages: this.#messages.list,
      toolUses: this.#toolUses.list,
      interactions: this.#pending.list,
      error: this.#error,
    };
  }

  take(event: ServerEvent): void {
    const text = this.#texts.take(event);
    if (text) this.#write(text, event);
    switch (event.type) {
      case "session_transition":
        if (event.data.event === "turn") this.#setStatus(this.#waiting(event.data.runId), "success");
        return;
      case "session_updated":
        return this.#play(event.data);
      case "tool_call":
        return this.#addCall(event);
      case "tool_result":
        return this.#addResult(event.data);
      case "tool_confirmation_request":
      case "user_question_request":
        if (event.requestId !== undefined) this.#pending.set(event.requestId, event as PendingInteraction);
        return;
      case "interaction_resolved":
        if (event.requestId !== undefined) this.#pending.delete(event.requestId);
        return;
      case "log": {
        // A program may print before it says anything.
        const { messageId, runId } = event.data;
        if (!this.#messages.has(messageId)) this.#begin(event, messageId, { runId });
        return;
      }
      case "error":
        this.#error = event.data;
        return;
      case "complete":
        return this.#complete(event.data);
      default:
        event.type satisfies
          | LiveType
          | "session_created"
          | "arbitration"
          | "routed"
          | "agent_switched"
          | "message"
          | "usage"
          | "data"
          | "floor_updated";
    }
  }

  #write({ messageId, text, reasoning, isStreaming, runId, agent }: MessageText, event: ServerEvent): void {
    const known =
      event.type === "message"
        ? shownMessage(event.data)
        : (this.#messages.get(messageId) ??
          this.#begin(event, messageId, { ...(agent && { agent }), ...(runId && { runId: runId as never }) }));
    this.#messages.set(messageId, { ...known, content: text, reasoning, isStreaming });
  }

  /** A message of the agent, without further fields. */
  #begin(event: ServerEvent, id: string, known: Partial<SessionMessage>): SessionMessage {
    const about = { id, sessionId: event.sessionId, createdAt: Date.parse(event.timestamp), ...known };
    const begun = { ...about, role: "assistant", status: "running", content: "", reasoning: "", isStreaming: true };
    this.#messages.set(id, begun as SessionMessage);
    return begun as SessionMessage;
  }

  #play({ played }: ServerEventOf<"session_updated">["data"]): void {
    const reply = played && this.#messages.get(played.messageId);
    if (reply) this.#messages.set(reply.id, { ...reply, playedUpTo: played.upTo });
  }

  #addCall(event: ServerEventOf<"tool_call">): void {
    const key = toolKeyOf(event);
    // The result that follows a repeated call is a repeat too, and belongs to that call.
    this.#openCalls.set(event.data.toolCallId, key);
    if (this.#toolUses.has(key)) return;
    this.#toolUses.set(key, event);
    if (this.#toolUses.size > this.#maxToolUses) this.#toolUses.delete(this.#toolUses.keys().next().value!);
  }

  #addResult(result: ServerEventOf<"tool_result">["data"]): void {
    const key = this.#openCalls.get(result.toolCallId) ?? "";
    const use = this.#toolUses.get(key);
    if (use) this.#toolUses.set(key, { ...use, result });
    this.#openCalls.delete(result.toolCallId);
  }

  #complete({ runId, withdrawn }: ServerEventOf<"complete">["data"]): void {
    const waiting = this.#waiting(runId);
    const isFailure = this.#error?.runId === runId;
    // A turn that has not begun asks nothing: what the current run asks stays.
    if (!waiting) this.#pending.clear();
    else if (withdrawn) this.#messages.delete(waiting.id);
    else this.#setStatus(waiting, isFailure ? "error" : "interrupted");
    for (const message of this.#messages.list) {
      if (message.runId === runId && message.isStreaming) {
        this.#messages.set(message.id, { ...message, isStreaming: false });
      }
    }
    if (!isFailure) this.#error = undefined;
  }

  /** The user's message of a turn that has not begun. */
  #waiting(runId: string | undefined): SessionMessage | undefined {
    return this.#messages.list.find((message) => message.status === "queued" && message.runId === runId);
  }

  #setStatus(message: SessionMessage | undefined, status: SessionMessage["status"]): void {
    if (message) this.#messages.set(message.id, { ...message, status });
  }
}

/** A map whose values are read as a list, which is another one after each change. */
class ListedMap<V> extends Map<string, V> {
  #list: readonly V[] | undefined;

  get list(): readonly V[] {
    this.#list ??= [...this.values()];
    return this.#list;
  }

  override set(key: string, value: V): this {
    this.#list = undefined;
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    this.#list = undefined;
    return super.delete(key);
  }

  override clear(): void {
    this.#list = undefined;
    super.clear();
  }
}

/** What identifies a tool call in its session: the call's own id is unique within a run only. */
export const toolKeyOf = ({ seq, timestamp, data }: ServerEventOf<"tool_call">): string =>
  `${seq ?? timestamp} ${data.toolCallId}`;

/** A logged or stored message, as views show it. */
function shownMessage(message: Message & { streaming?: boolean }): SessionMessage {
  const { streaming, ...rest } = message;
  return { ...rest, reasoning: reasoningOf(rest.parts), isStreaming: streaming ?? message.status === "running" };
}
