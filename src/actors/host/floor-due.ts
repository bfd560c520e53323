/** What is due next on a floor. */

import type { Catalog } from "../../config/catalog/catalog.ts";
import { type FloorTime, later } from "../../shared/floor-time.ts";
import type { DeadlineSources } from "../facts.ts";
import { type ArbiterContext, givesWayWhenIdle } from "../floor/arbiter-step.ts";
import { deadlineOf } from "../session/session-deadlines.ts";
import type { DueEvent } from "../session/session-step.ts";
import type { SessionActor } from "./session-actor.ts";

/** A deadline of the floor: of a session, of its reservation, or of the hours of its restrictions. */
export interface Due {
  at: FloorTime;
  isHours?: true;
  session?: SessionActor;
  what?: DueEvent["what"];
}

/**
 * The earliest deadline. An idle holder gives way at the moment at which a session waits for it, before anything else
 * is due. Deadlines at the same time are carried out in the order in which their sessions asked, so that it does not
 * depend on their ids.
 */
export function findDue(
  context: ArbiterContext,
  sessions: readonly SessionActor[],
  sources: DeadlineSources,
): Due | undefined {
  const idle = findIdle(context, sessions, sources.catalog);
  if (idle) return idle;
  const { reserved } = context.floor;
  let first: Due | undefined = dueOfFloor(context, sources.catalog);
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
function dueOfFloor({ floor, hours }: ArbiterContext, catalog: Catalog): Due | undefined {
  const { reserved } = floor;
  const all: (Due | undefined)[] = [
    reserved && { at: later(reserved.since, catalog.policy.resumeDelayMs) },
    hours && { at: hours.dueAt, isHours: true },
  ];
  return all.reduce((first, each) => (each && (!first || each.at < first.at) ? each : first), undefined);
}

/** A holder that gives way because nothing runs in it and a session waits: due since it became idle. */
function findIdle(context: ArbiterContext, sessions: readonly SessionActor[], catalog: Catalog): Due | undefined {
  const { holder } = context.floor;
  if (!holder || !givesWayWhenIdle(context, catalog)) return undefined;
  const session = sessions.find(({ id }) => id === holder.sessionId);
  const at = session?.machineState.context.idleSince;
  return session && at !== undefined ? { at, what: "idle_yields", session } : undefined;
}

/** Of two sessions for which something is due at the same time, the one that asked first. Ids decide nothing else. */
function comesFirst(one: SessionActor, other: SessionActor): boolean {
  const [own, others] = [one.machineState.context.numbers.askedAt, other.machineState.context.numbers.askedAt];
  return own === others ? one.id < other.id : own < others;
}

/** The first session that waits for its time. Of several at the same time, the one that is older. */
export function findRing(sessions: readonly SessionActor[]): SessionActor | undefined {
  let first: SessionActor | undefined;
  for (const session of sessions) {
    const { context } = session.machineState;
    if (session.isGone || !context.schedule) continue;
    const known = first?.machineState.context;
    const ahead = known ? context.schedule.at - known.schedule!.at || context.createdAt - known.createdAt : -1;
    if (ahead < 0 || (ahead === 0 && session.id < first!.id)) first = session;
  }
  return first;
}
