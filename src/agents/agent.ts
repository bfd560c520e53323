import type { AgentId, RunId, SessionId } from "../protocol/ids.ts";
import type { Answer, Interaction, ToolCall } from "../protocol/interaction.ts";
import type { AgentRef, ImageRef, Message, Usage } from "../protocol/message.ts";

/**
 * A mind: whatever can answer a turn. It knows nothing of floors, stores or streams. One contract suite for all
 * adapters.
 */
export interface Agent {
  readonly id: AgentId;
  /** What a pause does to a run: keep it and stop pulling, or cancel it and start again on resume. */
  readonly yields: "hold" | "abort";
  /** May an attempt that has already said something be started again? */
  readonly restartable: boolean;
  /**
   * Answer a turn, part by part. The caller may stop pulling for as long as it likes, and may return early. Ends soon
   * after `control.signal` aborts, by returning or by throwing. A failure the user should hear of is thrown as an
   * `AppError` with a `provider_*` code (`facts.retryAfterMs` where the provider says when to come back); anything else
   * that is thrown is a fault of ours.
   */
  run(turn: Turn, control: RunControl): AsyncIterable<Part>;
}

/** The work of one run. */
export interface Turn {
  readonly runId: RunId;
  /** From 1: the floor counts. */
  readonly attempt: number;
  readonly sessionId: SessionId;
  readonly workspaceId?: string | undefined;
  /** The user's message. */
  readonly input: Message;
  /** What was said before, the oldest first; also what earlier attempts of this run said. */
  readonly history: readonly Message[];
  /** The provider's own name for this conversation, if it gave one before. */
  readonly providerSessionId?: string | undefined;
  /** Tools that need no confirmation in this session any more. */
  readonly approvedTools: readonly string[];
}

export interface RunControl {
  readonly signal: AbortSignal;
  /** Ask the user; resolves with the answer, rejects when the run ends before there is one. */
  ask(interaction: NewInteraction): Promise<Answer>;
  /** Wait; rejects when the run is aborted. */
  sleep(delayMs: number): Promise<void>;
  /** The bytes of an image of the conversation. */
  loadImage(image: ImageRef): Promise<Uint8Array>;
}

type WithoutId<T> = T extends unknown ? Omit<T, "requestId"> : never;
/** An interaction before the worker gave it an id. */
export type NewInteraction = WithoutId<Interaction>;

/**
 * A piece of what an agent does. `agent` is left out where the session's own agent speaks. Text and reasoning go into
 * the message that is being written; a tool call, a tool result, a whole message or another speaker ends that message.
 */
export type Part = { readonly agent?: AgentRef | undefined } & (
  | { readonly type: "text" | "reasoning"; readonly text: string }
  /** A whole message, not streamed. */
  | { readonly type: "message"; readonly content: string; readonly output?: string }
  | { readonly type: "tool-call"; readonly call: ToolCall }
  | {
      readonly type: "tool-result";
      readonly toolCallId: string;
      readonly toolName: string;
      readonly content: string;
      readonly status: "success" | "error";
    }
  | { readonly type: "usage"; readonly usage: Usage }
  | { readonly type: "provider-session"; readonly id: string }
  | { readonly type: "log"; readonly stream: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "data"; readonly name: string; readonly data: unknown }
);
