import type { Decision } from "../protocol/decision.ts";
import type { EventType, Transition } from "../protocol/event.ts";
import type { FloorEventType } from "../protocol/event-logs.ts";
import type { Reservation } from "../protocol/floor.ts";
import type { PausedBy, Session } from "../protocol/session.ts";
import { isContinued, readState } from "../protocol/written-state.ts";
import type { ServerEvent } from "./server-event.ts";

/** Who has a floor and who waits, by the ids of sessions. */
export interface FollowedFloor {
  readonly holder: string | undefined;
  /** Sessions that are audible beneath the holder. */
  readonly ducked: readonly string[];
  /** The session that was paused last is the first. */
  readonly paused: readonly string[];
  /** The session that has waited longest is the first. */
  readonly queued: readonly string[];
  readonly reserved: Reservation | undefined;
  readonly flags: Readonly<Record<string, boolean>>;
  /** The restrictions in force. */
  readonly restrictedBy: readonly string[];
  /** The newest 50, the newest last. */
  readonly decisions: readonly Decision[];
}

const MAX_DECISIONS = 50;

/** The sessions on a floor, those that are heard first. */
export const sessionsOn = ({
  holder,
  ducked = [],
  paused,
  queued,
}: {
  readonly holder: Session | null;
  readonly ducked?: readonly Session[] | undefined;
  readonly paused: readonly Session[];
  readonly queued: readonly Session[];
}): Session[] => [...(holder ? [holder] : []), ...ducked, ...paused, ...queued];

/** The state of the machine of a floor's arbiter. `holder`: the session, or its id. */
export const arbiterState = ({ holder, reserved }: { holder: unknown; reserved?: Reservation | undefined }) =>
  holder ? "held" : reserved ? "reserved" : "free";

/** A floor on which nothing has happened. */
export const UNUSED_FLOOR: FollowedFloor = {
  holder: undefined,
  ducked: [],
  paused: [],
  queued: [],
  reserved: undefined,
  flags: {},
  restrictedBy: [],
  decisions: [],
};

/** A floor after an event of its log, or the same object if the event changes none of it. */
export function floorAfter(floor: FollowedFloor, event: ServerEvent): FollowedFloor {
  const { sessionId: id } = event;
  switch (event.type) {
    case "session_transition":
      return id === undefined ? floor : afterTransition(floor, id, event.data);
    case "arbitration": {
      const decisions = [...floor.decisions.slice(1 - MAX_DECISIONS), event.data];
      return { ...floor, decisions, queued: queuedAfter(floor, id, event.data) };
    }
    case "floor_updated":
      return {
        ...floor,
        flags: event.data.flags,
        restrictedBy: event.data.restrictedBy ?? [],
        reserved: event.data.reserved,
      };
    case "session_created":
    case "agent_switched":
    case "routed":
      return floor;
    default:
      event.type satisfies Exclude<EventType, FloorEventType>;
      return floor;
  }
}

function afterTransition(floor: FollowedFloor, id: string, { to }: Transition): FollowedFloor {
  const [state] = readState(to);
  switch (state) {
    case "created":
      // It waits no more.
      return floor.queued.includes(id) ? { ...floor, queued: dropped(floor.queued, id) } : floor;
    case "active":
      return floor.holder === id ? floor : { ...without(floor, id), holder: id };
    case "ducked":
      return floor.ducked.includes(id) ? floor : { ...without(floor, id), ducked: [...floor.ducked, id] };
    case "paused":
      return floor.paused.includes(id) ? floor : { ...without(floor, id), paused: [id, ...floor.paused] };
    case "archived":
    case "deleted":
      return without(floor, id);
  }
}

/** A paused session whose resume waits is not queued: it comes back by itself. */
function queuedAfter(
  { queued, paused }: FollowedFloor,
  id: string | undefined,
  decision: Decision,
): FollowedFloor["queued"] {
  if (id === undefined) return queued;
  if (endsWait(decision)) return dropped(queued, id);
  return decision.outcome !== "queued" || queued.includes(id) || paused.includes(id) ? queued : [...queued, id];
}

const without = (floor: FollowedFloor, id: string): FollowedFloor => ({
  ...floor,
  holder: floor.holder === id ? undefined : floor.holder,
  ducked: dropped(floor.ducked, id),
  paused: dropped(floor.paused, id),
  queued: dropped(floor.queued, id),
});

const dropped = (ids: readonly string[], id: string): readonly string[] =>
  ids.includes(id) ? ids.filter((each) => each !== id) : ids;

/** Whether a session leaves the queue by a decision without getting the floor. */
export const endsWait = ({ reason }: Decision): boolean => reason === "queue_timeout" || reason === "lease_expired";

const PAUSED_BY: Partial<Record<Transition["event"], PausedBy>> = {
  preempt: "preemption",
  pause: "user",
  yield: "yield",
};

/**
 * A session after an event of its log: undefined if that deletes it, the same object if it changes none of its fields.
 * Events do not contain its counters, its lease, and the priority of another agent.
 */
export function sessionAfter(session: Session, event: ServerEvent): Session | undefined {
  const at = Date.parse(event.timestamp);
  switch (event.type) {
    case "session_created":
      return event.data;
    case "session_transition":
      return movedBy(session, event.data, at);
    case "session_updated": {
      const { summaryFailure: _, summaryContinues: __, played: ___, fired, ...change } = event.data;
      // A time that has come is over, unless it was one of a series.
      return { ...session, ...(fired && { schedule: undefined }), ...(change as Partial<Session>) };
    }
    case "agent_switched":
      return { ...session, agentId: event.data.currentAgentId, mode: undefined };
    case "arbitration":
      return decidedBy(session, event.data, at);
    case "message":
      return { ...session, lastActivityAt: at };
    case "error": {
      const { runId, errorCode, message } = event.data;
      return runId === undefined ? session : { ...session, failure: { runId, errorCode, message } };
    }
    default:
      return session;
  }
}

function movedBy(session: Session, transition: Transition, at: number): Session | undefined {
  const { event, level, reason, by } = transition;
  const moved = stateAfter(session, transition);
  return (
    moved && {
      ...moved,
      lastActivityAt: at,
      failure: event === "turn" ? undefined : session.failure,
      pausedBy: moved.state === "paused" ? (PAUSED_BY[event] ?? session.pausedBy) : undefined,
      level: moved.state === "ducked" ? level : undefined,
      queuedAt: undefined,
      schedule: undefined,
      archivedAt: session.archivedAt ?? (moved.state === "archived" ? at : undefined),
      replacedBy: isContinued(reason) ? by?.sessionId : session.replacedBy,
    }
  );
}

/**
 * A session with the state and the activity of a transition, which alone a live view needs. Undefined: it is deleted.
 */
export function stateAfter(session: Session, { to, activity }: Transition): Session | undefined {
  const [state, shown] = readState(to);
  if (state === "deleted") return undefined;
  const known = shown ?? activity?.to ?? session.activity;
  // The work of an archived session has ended. That it failed stays.
  return { ...session, state, activity: state === "archived" && known !== "failed" ? "idle" : known };
}

function decidedBy(session: Session, decision: Decision, at: number): Session {
  const { outcome, challenger, rule } = decision;
  if (endsWait(decision)) return { ...session, queuedAt: undefined };
  const { priority } = challenger;
  // A refused session goes on with the numbers of its request, unless its agent does not answer (rule 1).
  if (outcome === "rejected") return rule === 1 ? session : { ...session, priority };
  if (outcome !== "queued") return { ...session, priority };
  return session.state === "paused"
    ? { ...session, priority, pausedBy: "preemption" }
    : { ...session, priority, queuedAt: session.queuedAt ?? at };
}

/** The session as one event shows it, if its earlier events are missing. */
export function sessionBefore(id: string, event: ServerEvent): Session {
  const at = Date.parse(event.timestamp);
  const [state, activity = "idle"] = event.type === "session_transition" ? readState(event.data.from) : ["created"];
  return {
    id,
    title: id,
    agentId: "",
    floorId: "",
    state,
    activity,
    priority: 0,
    interruptible: true,
    createdAt: at,
    updatedAt: at,
    lastActivityAt: at,
    messageCount: 0,
    tokenUsage: { used: 0, breakdown: { input: 0, output: 0, cacheRead: 0, cacheCreation: 0 } },
    agentSessions: {},
  } as unknown as Session;
}
