import type { ErrorCode } from "../protocol/errors.ts";
import type { AgentId, MessageId, RunId, SessionId } from "../protocol/ids.ts";
import type { Answer, Interaction, ToolCall } from "../protocol/interaction.ts";
import type { AgentRef, FinishReason, ImageRef, Message, Usage } from "../protocol/message.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { TreeBudget } from "./tree-budget.ts";

/** Answers turns. An agent knows nothing of floors, stores or streams. All adapters pass one contract suite. */
export interface Agent {
  readonly id: AgentId;
  /** What a pause does to a run: `hold` keeps it and stops pulling; `abort` cancels it and starts again on resume. */
  readonly yields: "hold" | "abort";
  /** Whether a run may be started again after an attempt that has already produced parts. */
  readonly restartable: boolean;
  /**
   * Answer a turn, part by part. The caller may pause between pulls for any time, and may return early. The iteration
   * ends soon after `control.signal` aborts, by returning or by throwing.
   * @throws AppError `provider_*` for a failure to show to the user, with `facts.retryAfterMs` if the provider names a
   *   delay; any other error counts as a fault of Interlock
   */
  run(turn: Turn, control: RunControl): AsyncIterable<Part>;
  /**
   * Summarise a conversation: text and usage alone. Ends and fails like `run`. Absent: the agent writes no summaries.
   */
  summarize?(request: SummaryRequest, control: RunControl): AsyncIterable<Part>;
}

/** The work of one run. */
export interface Turn {
  readonly runId: RunId;
  /** From 1, counted by the floor. */
  readonly attempt: number;
  readonly sessionId: SessionId;
  readonly workspaceId?: string | undefined;
  /** The user's message. */
  readonly input: Message;
  /** The conversation so far, oldest first, including messages of earlier attempts of this run. */
  readonly history: readonly Message[];
  /** The mode of the session's agent; absent: its first. Sub-agents that have a mode of this name use it too. */
  readonly mode?: string | undefined;
  /** What stands for the oldest of the history, and for what was said before it. */
  readonly summary?: Summary | undefined;
  /** The provider's id of this conversation, if an earlier run reported one. */
  readonly providerSessionId?: string | undefined;
  /** The last user message in that conversation: the provider does not know later messages of the history. */
  readonly heardUpTo?: MessageId | undefined;
  /** Tools approved for this session: they need no confirmation. */
  readonly approvedTools: readonly string[];
  /** The agent's node in the run's tree of calls; absent: at the root. */
  readonly tree?: CallTree | undefined;
}

/** A summary of a conversation's beginning. `upTo`: the last message that it covers; the history may begin after it. */
export interface Summary {
  readonly text: string;
  readonly upTo: MessageId;
}

/** A conversation that an agent summarises. */
export interface SummaryRequest {
  /** Names the work as a run's id names a run. */
  readonly runId: RunId;
  readonly attempt: number;
  readonly sessionId: SessionId;
  /** The summary of everything before `messages`; absent: they are the beginning. */
  readonly previous?: string | undefined;
  /** What was said since, oldest first; at least one. */
  readonly messages: readonly Message[];
}

/** The path from the session's agent to a sub-agent. */
export interface CallTree {
  /** Agent ids from the session's agent to the running one. */
  readonly path: readonly AgentId[];
  /** The tool calls between them: one fewer than ids. */
  readonly calls: readonly string[];
  /** `max_depth` of the session's agent: how deep its sub-agents may be nested. */
  readonly maxDepth: number;
  /** The user's approvals in this run, for the whole tree. */
  readonly approvals: Approvals;
  /** What the turn may use, with all of its sub-agents. */
  readonly budget: TreeBudget;
}

/** Asks the user to confirm tool calls, and remembers approvals for the session. */
export interface Approvals {
  /** Whether the user approved the tool of this name for the rest of the session. */
  has(name: string): boolean;
  /** Resolves with the user's verdict on the call; rejects if the run ends first. */
  askUser(confirmation: Confirmation, control: Pick<RunControl, "askUser" | "signal">): Promise<Verdict>;
}

/** What the user is asked about a tool call. */
export type Confirmation = Omit<Extract<NewInteraction, { kind: "confirmation" }>, "kind">;

export type Verdict =
  /** `choice`: the value of the agent's own option that the user chose. */
  | { readonly isApproved: true; readonly choice?: string | undefined }
  | { readonly isApproved: false; readonly reason: string | undefined };

/** An MCP server over streamable HTTP. Its headers contain a secret token that is valid for one run. */
export interface ToolServer {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface RunControl {
  readonly signal: AbortSignal;
  /**
   * Resolves when the run may continue: waits until the parts pulled so far are recorded and while the run is held,
   * rejects when it is aborted. For actions that cannot be undone.
   */
  untilMayAct(): Promise<void>;
  /**
   * Put a question to the user. Resolves with the answer; rejects if the run ends first.
   * @param withdrawn withdraws the question: the user sees that it is gone, and the promise rejects with the reason
   */
  askUser(interaction: NewInteraction, withdrawn?: AbortSignal): Promise<Answer>;
  /** Wait; rejects if the run is aborted. @param failure after which the agent tries again: lists of runs show it */
  sleep(delayMs: number, failure?: ErrorCode): Promise<void>;
  /** Call back once, unless the timer is cancelled. The caller cancels timers that it no longer needs. */
  readonly after: Clock["after"];
  /** Load the bytes of an image of the conversation. */
  loadImage(image: ImageRef): Promise<Uint8Array>;
}

type WithoutId<T> = T extends unknown ? Omit<T, "requestId"> : never;
/** An interaction before the worker gave it an id. */
export type NewInteraction = WithoutId<Interaction>;

/**
 * A piece of an agent's output. `agent` names the author; absent: the session's own agent. Text and reasoning extend
 * the open message. A tool call, a tool result, a whole message or another author ends it.
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
  /** The reply is incomplete. A complete reply ends without this part. */
  | {
      readonly type: "finish";
      readonly reason: FinishReason;
      /** The provider's own word. */
      readonly word?: string | undefined;
    }
  | { readonly type: "usage"; readonly usage: Usage }
  /**
   * The provider's id of this conversation, for later turns. Without an id: the provider lost it, and the next turn
   * begins another conversation. `isLocal`: it is stored on this machine, so later turns must run here.
   */
  | { readonly type: "provider-session"; readonly id: string | undefined; readonly isLocal?: boolean }
  | { readonly type: "log"; readonly stream: "stdout" | "stderr"; readonly text: string }
  | { readonly type: "data"; readonly name: string; readonly data: unknown }
  /** A program is about to start: the file and its arguments as its entry names them, and its folder. */
  | { readonly type: "start"; readonly command: readonly string[]; readonly cwd: string }
  /** A program ended; reported once per started program. `code` is null if a signal ended it. */
  | {
      readonly type: "exit";
      readonly code: number | null;
      readonly signal: string | null;
      readonly durationMs: number;
    }
);
