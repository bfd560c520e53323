import type { AgentEntry } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { LoggedData, LoggedType } from "../../protocol/event.ts";
import type { AgentId, FloorId, RequestId, RunRequestId, SessionId } from "../../protocol/ids.ts";
import type { Interaction } from "../../protocol/interaction.ts";
import type { Command, TurnInput } from "../../protocol/internal/command.ts";
import type { Accepted } from "../../protocol/internal/reply.ts";
import {
  accept,
  acceptWithSession,
  type Fact,
  type Given,
  type LoggedEvent,
  type RefusalDetails,
  refusal,
  type Timely,
} from "../facts.ts";
import type { Waits } from "../floor/arbitration.ts";
import type { Contender } from "../floor/contender.ts";
import type { LIMITS, QueuedTurn, Run, SessionContext } from "./session-context.ts";

/** Commands that the arbiter passes on to a session. */
export type SessionCommand = Timely<
  | Exclude<Extract<Command, { type: `session.${string}` | `run.${string}` }>, { type: "session.switch_agent" }>
  /** With the new agent's numbers, if the agent exists. */
  | { type: "session.switch_agent"; sessionId: SessionId; agentId: string; contender?: Contender }
>;

/** The session whose grant caused the event. */
interface By {
  sessionId: SessionId;
  agentId: AgentId;
}

/** Why a session leaves the floor, and in whose favour. */
interface Leaving {
  reason: string;
  by?: By | undefined;
  movedTo?: FloorId | undefined;
}

/** Events that change a session's state, from the arbiter or from the session itself. */
export type InternalEvent = Timely<
  /** `turnFollows`: a turn follows, and the session does not begin a queued turn yet. */
  | { type: "activate" | "resume"; contender: Contender; reason: string; turnFollows?: boolean | undefined }
  /** The session is ducked, or its level changes. */
  | {
      type: "duck";
      contender: Contender;
      level: number;
      by?: By | undefined;
      reason: string;
      turnFollows?: boolean | undefined;
    }
  | { type: "preempt"; by?: By | undefined; reason: string }
  | { type: "queue"; contender: Contender; decision: Decision; turn?: TurnInput | undefined }
  | { type: "unqueue"; decision: Decision }
  /** The session has other numbers: by a new catalogue, or by a request that leaves it where it is. */
  | { type: "renumber"; contender: Contender; isRequest?: true }
  | {
      type: "turn";
      turn: QueuedTurn;
      /** Present for a new message; the message of a queued turn is stored already. */
      input?: TurnInput | undefined;
      decision?: Decision | undefined;
    }
  /** The session was refused at its time. */
  | { type: "miss"; turn: TurnInput | undefined }
  | { type: "ask"; interactions: Interaction[] }
  | { type: "withdraw"; requestId: RequestId }
  | { type: "done"; summary?: string | undefined }
  | {
      type: "fail";
      code: ErrorCode;
      message: string;
      reason: string;
      retryAfterMs?: number | undefined;
      /** The interaction that timed out. */
      expired?: RequestId | undefined;
    }
  | { type: "abort"; reason: string }
  | ({ type: "yield" } & Leaving)
  | ({ type: "archive" } & Leaving)
  | ({ type: "expire" } & Leaving)
  /** The session has stopped competing with the step before: it tells the arbiter now (`left`). */
  | { type: "leave" }
  | DueEvent
>;

/** A deadline of the session has passed: a key of its agent, its lease, or the grace of a stopped attempt. */
export interface DueEvent {
  type: "due";
  what: keyof typeof LIMITS | "idle_yields" | "lease" | "stop_grace" | "scheduled";
}

export type SessionEvent = SessionCommand | InternalEvent;

/** Events from a session to its arbiter. */
export type EventForArbiter = Timely<
  /** The session requests the floor. `waits`: where it waits if it is blocked. */
  | {
      type: "request";
      sessionId: SessionId;
      waits: Waits;
      turn?: TurnInput | undefined;
      /** Its time has come. */
      isScheduled?: boolean;
    }
  /** A series makes a session, whose time has come. */
  | { type: "occurs"; occurrence: SessionContext }
  /** The session no longer competes. */
  | { type: "left"; sessionId: SessionId }
  /** A session's request has waited for too long, or the lease of a queued one ran out. */
  | { type: "wait_over"; sessionId: SessionId; reason: "queue_timeout" | "lease_expired" }
  /** The session has switched its agent, and competes with its numbers. */
  | { type: "switched"; contender: Contender }
>;

/** What one event does to a session, while it is being decided. Steps edit it; the machine carries it out. */
export interface SessionStep {
  readonly given: Given;
  context: SessionContext;
  readonly facts: Fact[];
  /** Events for the session itself; each causes a transition of its own. */
  readonly toSelf: InternalEvent[];
  readonly toArbiter: EventForArbiter[];
}

/** Begin a step with a copy of the context, so that the machine's own stays unchanged. */
export function beginStep(context: SessionContext, given: Given): SessionStep {
  return { given, context: { ...context }, facts: [], toSelf: [], toArbiter: [] };
}

/** A heartbeat, and a request of the holder that changes nothing else, do not count as activity of the session. */
const QUIET: ReadonlySet<string> = new Set(["lease", "idleSince"] satisfies (keyof SessionContext)[]);

/** The context after a step; the same object if the step did not change it. */
export function endStep(before: SessionContext, { context, given }: SessionStep): SessionContext {
  let after = before;
  for (const key in context) {
    if (context[key as keyof SessionContext] === before[key as keyof SessionContext]) continue;
    after = context;
    if (QUIET.has(key)) continue;
    context.updatedAt = given.now;
    break;
  }
  return after;
}

/** A copy of the run to edit; the machine's own stays unchanged. */
export function editRun(step: SessionStep): Run {
  const run = step.context.run!;
  const copy = { ...run, drafts: [...run.drafts], interactions: [...run.interactions], answers: [...run.answers] };
  step.context.run = copy;
  return copy;
}

/** The catalogue's entry of the session's agent; undefined when the agent has left the catalogue. */
export function agentOf({ context, given }: SessionStep): AgentEntry | undefined {
  return given.catalog.agents.get(context.numbers.agentId);
}

/** Accept the command. */
export function answer(step: SessionStep, reply: Omit<Accepted, "ok">): void {
  step.facts.push(accept({ sessionId: step.context.id, ...reply }));
}

/** Accept the command, and answer with the session as it is afterwards. */
export function answerWithSession(step: SessionStep, reply: Omit<Accepted, "ok"> = {}): void {
  step.facts.push(acceptWithSession({ sessionId: step.context.id, ...reply }));
}

export function refuseCommand(step: SessionStep, code: ErrorCode, details?: RefusalDetails): void {
  step.facts.push(refusal(code, details));
}

/** Log an event of the session. `requestId`: the interaction that it is about. */
export function logEvent<T extends LoggedType>(
  { context, facts }: SessionStep,
  type: T,
  data: LoggedData<T>,
  requestId?: RequestId,
): void {
  const { id: sessionId } = context;
  const event = requestId === undefined ? { type, sessionId, data } : { type, sessionId, data, requestId };
  facts.push({ type: "event", event: event as LoggedEvent });
}

/** Withdraw a run request, if there is one. */
export function dropRunRequest(step: SessionStep, id: RunRequestId | undefined): void {
  if (id !== undefined) step.facts.push({ type: "run_request.remove", id });
}
