/** What is due next on a floor. */

import type { Catalog } from "../../config/catalog/catalog.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { type FloorTime, later } from "../../shared/floor-time.ts";
import type { DeadlineSources } from "../facts.ts";
import { type ArbiterContext, givesWayWhenIdle } from "../floor/arbiter-step.ts";
import { deadlineOf } from "../session/session-deadlines.ts";
import type { DueEvent } from "../session/session-step.ts";
import type { SessionMachineState } from "./session-machine-state.ts";

/** A session in the floor's memory. */
interface TimedSession {
  readonly id: SessionId;
  readonly machineState: SessionMachineState;
  /** Whether it is deleted. */
  readonly isGone: boolean;
}

/** A deadline of the floor: of a session, of its reservation, or of the hours of its restrictions. */
export interface Due<Session extends TimedSession> {
  at: FloorTime;
  isHours?: true;
  session?: Session;
  what?: DueEvent["what"];
}

/**
 * The earliest deadline. An idle holder gives way at the moment at which a session waits for it, before anything else
 * is due. Deadlines at the same time are carried out in the order in which their sessions asked, so that it does not
 * depend on their ids.
 */
export function findDue<Session extends TimedSession>(
  context: ArbiterContext,
  sessions: readonly Session[],
  sources: DeadlineSources,
): Due<Session> | undefined {
  const idle = findIdle(context, sessions, sources.catalog);
  if (idle) return idle;
  const { reserved } = context.floor;
  let first: Due<Session> | undefined = dueOfFloor(context, sources.catalog);
  for (const session of sessions) {
    const { id, machineState } = session;
    const isReserved = reserved?.sessionId === id;
    const deadline = isReserved ? deadlineOf(machineState.context, sources, true) : machineState.deadline(sources);
    if (!deadline || (first && deadline.at > first.at)) continue;
    const isEarlier = !first || deadline.at < first.at || (first.session && comesFirst(session, first.session));
    if (isEarlier) first = { ...deadline, session };
  }
  return first;
}

/** The earliest of the floor's own deadlines: of its reservation, and of its hours. */
function dueOfFloor({ floor, hours }: ArbiterContext, catalog: Catalog): Due<never> | undefined {
  const { reserved } = floor;
  const all: (Due<never> | undefined)[] = [
    reserved && { at: later(reserved.since, catalog.policy.resumeDelayMs) },
    hours && { at: hours.dueAt, isHours: true },
  ];
  return all.reduce((first, each) => (each && (!first || each.at < first.at) ? each : first), undefined);
}

/** A holder that gives way because nothing runs in it and a session waits: due since it became idle. */
function findIdle<Session extends TimedSession>(
  context: ArbiterContext,
  sessions: readonly Session[],
  catalog: Catalog,
): Due<Session> | undefined {
  const { holder } = context.floor;
  if (!holder || !givesWayWhenIdle(context, catalog)) return undefined;
  const session = sessions.find(({ id }) => id === holder.sessionId);
  const at = session?.machineState.context.idleSince;
  return session && at !== undefined ? { at, what: "idle_yields", session } : undefined;
}

/** Of two sessions for which something is due at the same time, the one that asked first. Ids decide nothing else. */
function comesFirst(one: TimedSession, other: TimedSession): boolean {
  const [own, others] = [one.machineState.context.numbers.askedAt, other.machineState.context.numbers.askedAt];
  return own === others ? one.id < other.id : own < others;
}

/** The first session that waits for its time. Of several at the same time, the one that is older. */
export function findRing<Session extends TimedSession>(sessions: readonly Session[]): Session | undefined {
  let first: Session | undefined;
  for (const session of sessions) {
    const { context } = session.machineState;
    if (session.isGone || !context.schedule) continue;
    const known = first?.machineState.context;
    const ahead = known ? context.schedule.at - known.schedule!.at || context.createdAt - known.createdAt : -1;
    if (ahead < 0 || (ahead === 0 && session.id < first!.id)) first = session;
  }
  return first;
}
