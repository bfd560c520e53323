import type { Catalog } from "../config/catalog/catalog.ts";
import type { SpentBudget } from "../protocol/budget.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import type { LoggedData, LoggedType } from "../protocol/event.ts";
import type { AgentId, MessageId, RequestId, RunId, RunRequestId, SessionId } from "../protocol/ids.ts";
import type { Accepted, Reply } from "../protocol/internal/reply.ts";
import type { RunSignal } from "../protocol/internal/run.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import type { FinishReason, LogLine, Message, MessageStatus, Played, Usage } from "../protocol/message.ts";
import type { FloorTime } from "../shared/floor-time.ts";

/** What deadlines follow from beside the state. */
export interface DeadlineSources {
  readonly catalog: Catalog;
  readonly interactionTimeoutMs: number;
}

/** What the host passes to the machines with every command: they have no clock, randomness or files of their own. */
export interface Given extends DeadlineSources {
  /** In ms since 1970. Never goes back on a floor. */
  readonly now: number;
  readonly time: FloorTime;
  /** What the wall clock reads, in ms since 1970. It may go back. Schedules go by it (rule C37). */
  readonly wall: number;
  /** While a deadline is carried out: how long ago it was, in ms. The step itself is at the deadline. */
  readonly lateMs?: number;
  /** Turns that may not begin, because their commit would exceed a budget; absent if there are none. */
  readonly refused?: ReadonlyMap<RunId, BudgetRefusal> | undefined;
  /** Unique per applied command. Ids of run requests are made from it, so that each is used once (rule C7). */
  readonly stamp: string;
}

/** What the machines are given with each event. */
export type Timely<T> = T & { given: Given };

/** Why a turn does not begin: in words, and for how long that lasts. */
export interface BudgetRefusal {
  readonly message: string;
  readonly retryAfterMs: number;
  readonly spent: SpentBudget;
}

/** A turn that begins: it counts towards budgets, once for all attempts of its run. */
export interface BegunTurn {
  readonly runId: RunId;
  readonly agentId: AgentId;
  /** The session's owner, or else the user of its floor; empty if it has neither. */
  readonly ownerId: string;
  /** The language of a sentence that refuses it. */
  readonly locale?: string | undefined;
}

/** Tokens that a provider reported for a turn or a summary, of its sub-agents too. */
export interface UsedTokens extends Pick<BegunTurn, "ownerId" | "agentId"> {
  readonly usage: Usage;
}

/** What a change counts. */
export interface CountedTurns {
  /** In the order in which they began. */
  readonly begun: readonly BegunTurn[];
  readonly used: readonly UsedTokens[];
}

export type LoggedEvent = {
  [T in LoggedType]: { type: T; data: LoggedData<T>; sessionId?: SessionId; requestId?: RequestId };
}[LoggedType];

/** A change that a machine asks for. The host makes all changes of a command in one commit, or none. */
export type Fact =
  /** The facts after this one happened at this time, in ms since 1970. */
  | { type: "at"; now: number }
  | { type: "event"; event: LoggedEvent }
  /** A new session begins with the messages of a staged one. */
  | { type: "history.staged"; sessionId: SessionId; stagedAs: `~${string}` }
  /** Add a finished message: its row and its event. `isLogOver`: its session's log has ended, so its row alone. */
  | { type: "message.add"; message: Message; isLogOver?: boolean }
  /** Extend a finished message at `offset` (UTF-16 units): its row, and its event again unless the log has ended. */
  | {
      type: "message.extend";
      sessionId: SessionId;
      messageId: MessageId;
      offset: number;
      text: string;
      parts?: Message["parts"];
      isLogOver?: boolean;
    }
  /** Change the status in a message's row, without an event. */
  | { type: "message.status"; sessionId: SessionId; messageId: MessageId; status: MessageStatus }
  /** A spoken reply, finished or not, was heard up to here. */
  | ({ type: "message.played"; sessionId: SessionId } & Played)
  /** Remove the message of a queued turn that was withdrawn. */
  | { type: "message.remove"; sessionId: SessionId; messageId: MessageId }
  /** An unfinished message: opened, continued at `offset` (UTF-16 units), closed with its event. */
  | { type: "draft.open"; message: Message }
  | { type: "draft.append"; sessionId: SessionId; messageId: MessageId; offset: number; text: string }
  | { type: "draft.close"; sessionId: SessionId; messageId: MessageId; close: DraftClose }
  | { type: "log"; sessionId: SessionId; messageId: MessageId; runId: RunId; line: LogLine }
  | { type: "run_request.add"; request: RunRequest }
  | { type: "run_request.remove"; id: RunRequestId }
  | { type: "signal"; runId: RunId; signal: RunSignal }
  /** A session's lease ran out. */
  | { type: "lease.lapsed" }
  | { type: "turn.begun"; turn: BegunTurn }
  | { type: "tokens.used"; used: UsedTokens }
  /** Exactly one per command. `showsSession`: the reply includes the session as it is after the command. */
  | { type: "reply"; reply: Reply; showsSession?: true };

/** The one event that machines emit when XState runs them: all facts of a step. */
export interface Emitted {
  type: "facts";
  facts: readonly Fact[];
}

export interface DraftClose {
  status: MessageStatus;
  finishedAt: number;
  parts?: Message["parts"];
  output?: string | undefined;
  finishReason?: FinishReason | undefined;
  nativeFinishReason?: string | undefined;
  errorCode?: ErrorCode | undefined;
  errorMessage?: string | undefined;
  usage?: Usage | undefined;
}

/** The id of a run request of this command; `about` distinguishes several of one kind. */
export function runRequestId(given: Given, kind: string, about: string): RunRequestId {
  return `${given.stamp}.${kind}.${about}` as RunRequestId;
}

export function accept(reply: Omit<Accepted, "ok">): Fact {
  return { type: "reply", reply: { ok: true, ...reply } };
}

/** The same, with the session that `reply` names, as it is after the command. */
export function acceptWithSession(reply: Omit<Accepted, "ok">): Fact {
  return { type: "reply", reply: { ok: true, ...reply }, showsSession: true };
}

/** What a refusal says besides its code: a sentence in place of the code's own, and further fields of the answer. */
export interface RefusalDetails {
  readonly message?: string | undefined;
  readonly facts?: Record<string, unknown> | undefined;
}

/** The reply to a command that is refused. */
export function refusal(code: ErrorCode, { message, facts }: RefusalDetails = {}): Fact {
  return {
    type: "reply",
    reply: { ok: false, code, ...(message !== undefined && { message }), ...(facts && { facts }) },
  };
}
