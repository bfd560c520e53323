import type { Command, TurnInput } from "../protocol/command.ts";
import type { Decision } from "../protocol/decision.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import type { AgentId, EffectId, RequestId, SessionId } from "../protocol/ids.ts";
import type { Interaction } from "../protocol/interaction.ts";
import type { Accepted } from "../protocol/reply.ts";
import type { Claim } from "./arbitration.ts";
import { accept, effectId, type Fact, type Given } from "./facts.ts";
import type { Run, SessionContext } from "./session-context.ts";

type Timely<T> = T & { given: Given };

/** Commands a session settles itself, as the arbiter passes them on. */
export type SessionCommand = Timely<
  | Exclude<
      Extract<Command, { type: `session.${string}` | `run.${string}` | "timer" }>,
      { type: "session.switch_agent" }
    >
  /** With the numbers the new agent would compete with, if there is such an agent. */
  | { type: "session.switch_agent"; sessionId: SessionId; agentId: string; claim?: Claim }
>;

/** What happens to a session: the verbs of its transitions, from the arbiter or from itself. */
export type SessionVerb = Timely<
  /** `bringsTurn`: a turn follows, so what waits here is not begun yet. */
  | { type: "activate" | "resume"; claim: Claim; reason: string; bringsTurn?: boolean | undefined }
  | { type: "preempt"; by: { sessionId: SessionId; agentId: AgentId }; reason: string }
  | { type: "queue"; claim: Claim; decision: Decision; turn?: TurnInput | undefined }
  | { type: "unqueue"; decision: Decision }
  | {
      type: "turn";
      turn: Pick<TurnInput, "messageId" | "runId">;
      /** There when the message is new; a queued turn's message is stored already. */
      input?: TurnInput | undefined;
      decision?: Decision | undefined;
    }
  | { type: "ask"; interactions: Interaction[] }
  | { type: "done"; summary?: string | undefined }
  | {
      type: "fail";
      code: ErrorCode;
      message: string;
      reason: string;
      retryAfterMs?: number | undefined;
      /** The interaction that ran out. */
      expired?: RequestId | undefined;
    }
  | { type: "abort"; reason: string }
  | { type: "yield" | "archive" | "expire"; reason: string }
  /** It has lost the floor or left it, and the arbiter is to hear of it. */
  | { type: "leave" }
>;

export type SessionEvent = SessionCommand | SessionVerb;

/** What a session tells its arbiter. */
export type SessionWord = Timely<
  /** It wants the floor. `mayQueue`: whether it would wait for it. */
  | {
      type: "request";
      sessionId: SessionId;
      as: "activate" | "resume";
      mayQueue: boolean;
      turn?: TurnInput | undefined;
    }
  /** It no longer competes. */
  | { type: "left"; sessionId: SessionId }
  /** It competes with other numbers now. */
  | { type: "claim"; claim: Claim }
>;

/** What one event makes of a session, before any of it is so. Steps edit it; the machine carries it out. */
export interface SessionStep {
  readonly given: Given;
  context: SessionContext;
  readonly facts: Fact[];
  /** Verbs for the session itself; each is a transition of its own. */
  readonly verbs: SessionVerb[];
  readonly words: SessionWord[];
}

export function beginStep(context: SessionContext, given: Given): SessionStep {
  return { given, context: { ...context }, facts: [], verbs: [], words: [] };
}

/** What the session remembers after a step: the very same when the step left it alone. */
export function endStep(before: SessionContext, { context, given }: SessionStep): SessionContext {
  const keys = Object.keys(context) as (keyof SessionContext)[];
  const isSame = keys.every((key) => context[key] === before[key]);
  return isSame ? before : { ...context, updatedAt: given.now };
}

/** The run, to be edited: what the machine holds stays as it is. */
export function editRun(step: SessionStep): Run {
  const run = step.context.run!;
  const copy = { ...run, drafts: [...run.drafts], interactions: [...run.interactions], answers: [...run.answers] };
  step.context.run = copy;
  return copy;
}

export function answer(step: SessionStep, reply: Omit<Accepted, "ok">, show = false): void {
  step.facts.push(accept({ sessionId: step.context.id, ...reply }, show));
}

export function refuse(step: SessionStep, code: ErrorCode, message?: string, facts?: Record<string, unknown>): void {
  step.facts.push({
    type: "reply",
    reply: { ok: false, code, ...(message !== undefined && { message }), ...(facts && { facts }) },
  });
}

/** Ask for a timer; `kind` must be used once per session and event. */
export function startTimer(step: SessionStep, kind: string, delayMs: number): EffectId {
  const { given, context } = step;
  const id = effectId(given, kind, context.id);
  const dueAt = given.now + delayMs;
  step.facts.push({
    type: "effect.add",
    effect: { kind: "timer", id, floorId: context.floorId, sessionId: context.id, dueAt },
  });
  return id;
}

export function dropEffect(step: SessionStep, id: EffectId | undefined): void {
  if (id !== undefined) step.facts.push({ type: "effect.remove", id });
}
