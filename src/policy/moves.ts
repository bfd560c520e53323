import { isAudible } from "../actors/session/session-context.ts";
import type { LoggedData, Transition } from "../protocol/event.ts";
import type { SessionId } from "../protocol/ids.ts";
import type { SeenEvent, SeenStep } from "./seen-step.ts";
import { withEnabled } from "./simulation.ts";
import type { SteppedFloor, TimedFact } from "./stepped-floor.ts";

/** What can happen to a floor next. */
export type ExploredMove =
  | { readonly does: "asks" | "disable" | "enable"; readonly agentId: string; readonly sessionId?: string }
  | { readonly does: "resumes" | "pauses" | "ends" | "dies"; readonly sessionId: string }
  | { readonly does: "set" | "clear"; readonly flag: string }
  | { readonly does: "clock"; readonly now: number; readonly text: string }
  | { readonly does: "wait" };

/** Which moves an exploration tries, beside requests, ends, pauses, deaths and deadlines. */
export interface Variations {
  readonly flags: readonly string[];
  /** Readings of the wall clock at which other rules apply. */
  readonly hours: readonly { now: number; text: string }[];
  /** Agents that are disabled and enabled, one at a time. */
  readonly disables: readonly string[];
}

/** The agents whose sessions may be created; of agents that nothing tells apart only the first unused one. */
export type Newcomers = (floor: SteppedFloor) => readonly string[];

/** Everything that can happen next on the floor, with at most this many sessions. */
export function* movesFrom(
  floor: SteppedFloor,
  size: number,
  newcomers: Newcomers,
  { flags, hours, disables }: Variations,
): Generator<ExploredMove> {
  const { sessions } = floor;
  if (sessions.length < size) {
    for (const agentId of newcomers(floor)) yield { does: "asks", agentId, sessionId: newIdOf(floor, agentId) };
  }
  for (const session of sessions) yield* movesOf(floor, session);
  if (floor.nextDue() !== undefined) yield { does: "wait" };
  for (const flag of flags) yield { does: floor.context.flags[flag] ? "clear" : "set", flag };
  for (const hour of hours) yield { does: "clock", ...hour };
  const off = disables.find((id) => floor.catalog.agents.get(id)?.enabled === false);
  if (off !== undefined) yield { does: "enable", agentId: off };
  else for (const agentId of disables) yield { does: "disable", agentId };
}

function* movesOf(floor: SteppedFloor, { context, value }: SteppedFloor["sessions"][number]): Generator<ExploredMove> {
  const { id: sessionId, lease } = context;
  yield { does: "ends", sessionId };
  if (value.lifecycle !== "active") yield { does: "resumes", sessionId };
  if (isAudible(context) || context.pausedBy === "preemption") yield { does: "pauses", sessionId };
  if (lease && !floor.isDead(sessionId)) yield { does: "dies", sessionId };
}

function newIdOf(floor: SteppedFloor, agentId: string): string {
  for (let count = 1; ; count++) {
    const id = count === 1 ? agentId : `${agentId}-${count}`;
    if (!floor.session(id)) return id;
  }
}

/** Make a move on a copy of the floor. */
export function makeMove(before: SteppedFloor, move: ExploredMove): SeenStep {
  const after = before.copy();
  const facts = carryOut(after, move);
  const events = facts.flatMap(({ fact }): SeenEvent[] => {
    if (fact.type !== "event") return [];
    const { type, data, sessionId } = fact.event;
    if (type === "arbitration") return [{ type: "decision", decision: data as LoggedData<"arbitration"> }];
    if (type !== "session_transition") return [];
    return [{ type: "transition", transition: { ...(data as Transition), sessionId: sessionId! } }];
  });
  return {
    before,
    after,
    events,
    transitions: events.flatMap((event) => (event.type === "transition" ? event.transition : [])),
    decisions: events.flatMap((event) => (event.type === "decision" ? event.decision : [])),
    subject: "sessionId" in move ? move.sessionId : undefined,
    isRequest: move.does === "asks" || move.does === "resumes",
    isRenumbered: move.does === "disable" || move.does === "enable",
  };
}

function carryOut(floor: SteppedFloor, move: ExploredMove): TimedFact[] {
  switch (move.does) {
    case "asks":
      return floor.create(move.sessionId!, move.agentId).facts;
    case "resumes": {
      floor.revive(move.sessionId);
      const isNew = floor.session(move.sessionId)?.value.lifecycle === "created";
      const sessionId = move.sessionId as SessionId;
      return floor.send({ type: isNew ? "session.activate" : "session.resume", sessionId }).facts;
    }
    case "pauses":
      return floor.send({ type: "session.pause", sessionId: move.sessionId as SessionId }).facts;
    case "ends":
      return floor.send({ type: "session.archive", sessionId: move.sessionId as SessionId }).facts;
    case "dies":
      return [...floor.die(move.sessionId), ...floor.passTo(floor.time + lapseMs(floor, move.sessionId))];
    case "set":
    case "clear":
      return floor.send({ type: "floor.patch_flags", flags: { [move.flag]: move.does === "set" } }).facts;
    case "clock":
      return floor.setClock(nextTime(move, floor.now));
    case "disable":
    case "enable":
      return floor.use(withEnabled(floor.catalog, move.agentId, move.does === "enable"));
    case "wait":
      return floor.passTo(floor.nextDue()!);
  }
}

const DAY_MS = 86_400_000;

/** When the clock next shows the time of a move: on a day of the week, if its text names one, or on any. */
function nextTime({ now, text }: Extract<ExploredMove, { does: "clock" }>, from: number): number {
  const everyMs = text.includes(" ") ? 7 * DAY_MS : DAY_MS;
  return now + Math.max(0, Math.ceil((from - now) / everyMs)) * everyMs;
}

/** After this time a session whose program died has lapsed: one and a half leases. */
const lapseMs = (floor: SteppedFloor, id: string): number =>
  Math.ceil((floor.session(id)?.context.lease?.lengthMs ?? 0) * 1.5);

/**
 * The moves as the steps of a script.
 * @param from the floor before the first move
 */
export function stepsOf(from: SteppedFloor, moves: readonly ExploredMove[]): string[] {
  const lines: string[] = [];
  let floor = from;
  for (const move of moves) {
    lines.push(...linesOf(floor, move));
    floor = makeMove(floor, move).after;
  }
  return lines;
}

function linesOf(floor: SteppedFloor, move: ExploredMove): string[] {
  switch (move.does) {
    case "asks": {
      const name = move.sessionId === move.agentId ? "" : `, as: ${move.sessionId}`;
      return [`{ asks: ${move.agentId}${name} }`];
    }
    case "resumes":
    case "pauses":
    case "ends":
      return [`{ ${move.does}: ${move.sessionId} }`];
    case "dies":
      return [`{ dies: ${move.sessionId} }`, `{ after: ${lapseMs(floor, move.sessionId)}ms, expect: {} }`];
    case "set":
    case "clear":
      return [`{ ${move.does}: ${move.flag} }`];
    case "clock":
      return [`{ clock: "${move.text}" }`];
    case "disable":
    case "enable":
      return [`{ ${move.does}: ${move.agentId} }`];
    case "wait":
      return [`{ after: ${floor.nextDue()! - floor.time}ms, expect: {} }`];
  }
}
