import type { Catalog } from "../config/catalog.ts";
import type { Effect } from "../protocol/effect.ts";
import type { LoggedData, LoggedType } from "../protocol/event.ts";
import type { EffectId, MessageId, RequestId, RunId, SessionId } from "../protocol/ids.ts";
import type { LogLine, Message, MessageStatus, Usage } from "../protocol/message.ts";
import type { Accepted, Reply } from "../protocol/reply.ts";
import type { RunSignal } from "../protocol/run.ts";

/**
 * What the host gives the machines with every command, since they have no clock, no randomness and no files of their
 * own.
 */
export interface Given {
  /** ms since 1970; never goes back on a floor. */
  readonly now: number;
  /** Unique per delivery: ids of effects are made from it, so none is ever used twice (rule C7). */
  readonly stamp: string;
  readonly catalog: Catalog;
  readonly interactionTimeoutMs: number;
}

type LoggedEvent = {
  [T in LoggedType]: { type: T; data: LoggedData<T>; sessionId?: SessionId; requestId?: RequestId };
}[LoggedType];

/** What a machine wants done. The host does it, all in one commit or not at all. */
export type Fact =
  | { type: "event"; event: LoggedEvent }
  /** A whole message: its row, and its event. */
  | { type: "message.add"; message: Message }
  /** A message whose row changes without an event. */
  | { type: "message.status"; sessionId: SessionId; messageId: MessageId; status: MessageStatus }
  /** A queued turn that was withdrawn. */
  | { type: "message.remove"; sessionId: SessionId; messageId: MessageId }
  /** A message that is being written: opened, continued at `offset`, closed with its event. */
  | { type: "draft.open"; message: Message }
  | { type: "draft.append"; sessionId: SessionId; messageId: MessageId; offset: number; text: string }
  | { type: "draft.close"; sessionId: SessionId; messageId: MessageId; close: DraftClose }
  | { type: "log"; sessionId: SessionId; messageId: MessageId; runId: RunId; line: LogLine }
  | { type: "effect.add"; effect: Effect }
  | { type: "effect.remove"; id: EffectId }
  | { type: "signal"; runId: RunId; signal: RunSignal }
  /** Exactly one per command. `show`: with the session as it is after the command. */
  | { type: "reply"; reply: Reply; show?: boolean };

/** What machines emit: the facts of one step together, since each emission costs. */
export interface Emitted {
  type: "facts";
  facts: readonly Fact[];
}

export interface DraftClose {
  status: MessageStatus;
  finishedAt: number;
  parts?: Message["parts"];
  output?: string | undefined;
  errorMessage?: string | undefined;
  usage?: Usage | undefined;
}

/** The id of an effect of this delivery; `about` keeps several of one kind apart. */
export function effectId(given: Given, kind: string, about: string): EffectId {
  return `${given.stamp}.${kind}.${about}` as EffectId;
}

export function accept(reply: Omit<Accepted, "ok">, show = false): Fact {
  return { type: "reply", reply: { ok: true, ...reply }, ...(show && { show }) };
}
