import { endsWait } from "../../../src/client/floor-after.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import type { WrittenState } from "../../../src/protocol/event.ts";
import { readState } from "../../../src/protocol/written-state.ts";
import { countLeading } from "../../log/count-leading.ts";
import { type LogEvent, timeOf } from "../../log/log-event.ts";
import { LogIndex } from "../../log/log-index.ts";
import type { Look } from "../../parts/look.ts";

/** A session over time. */
export interface Lane {
  sessionId: string;
  title: string;
  agentId: string;
  /**
   * The starts of its states, in ms since 1970, ascending; the last one lasts until the end of the log, or `endsAt`.
   */
  starts: number[];
  looks: Look[];
  endsAt?: number | undefined;
}

/** A decision, on the lane of the session that asked, or above all lanes if it has none. */
export interface Mark {
  at: number;
  /** The number of the log's events before it. */
  index: number;
  sessionId: string | undefined;
  outcome: "granted" | "rejected" | "queued" | "failed";
}

export interface Lanes {
  /** In the order in which sessions were created. */
  lanes: Lane[];
  marks: Mark[];
  byId: Map<string, Lane>;
  /** By session; those without one under "". */
  marksOf: Map<string, Mark[]>;
  from: number;
  to: number;
}

/** The sessions of a log over time. */
export const laneIndex = () =>
  new LogIndex<Lanes>(() => ({ lanes: [], marks: [], marksOf: new Map(), byId: new Map(), from: 0, to: 1 }), add);

function add(index: Lanes, event: LogEvent, eventIndex: number): void {
  const { sessionId } = event;
  const at = timeOf(event);
  if (eventIndex === 0) index.from = at;
  index.to = Math.max(index.from + 1, at);
  switch (event.type) {
    case "session_created": {
      const lane = laneOf(index, event.data.id);
      lane.title = event.data.title;
      lane.agentId = event.data.agentId;
      return change(lane, "created", at);
    }
    case "session_updated":
      if (sessionId !== undefined && event.data.title !== undefined) laneOf(index, sessionId).title = event.data.title;
      return;
    case "agent_switched":
      if (sessionId !== undefined) laneOf(index, sessionId).agentId = event.data.currentAgentId;
      return;
    case "session_transition":
      return sessionId === undefined ? undefined : move(laneOf(index, sessionId), event.data.to, at);
    case "arbitration": {
      const lane = index.byId.get(event.data.challenger.sessionId ?? "");
      // A refused creation names the session that it would have made.
      mark(index, { at, index: eventIndex, sessionId: lane?.sessionId ?? sessionId, outcome: event.data.outcome });
      return lane && decide(lane, event.data, at);
    }
    case "error":
      return mark(index, { at, index: eventIndex, sessionId, outcome: "failed" });
    default:
      return;
  }
}

/** A session's lane, which is added if there is none. */
function laneOf({ lanes, byId }: Lanes, sessionId: string): Lane {
  let lane = byId.get(sessionId);
  if (!lane) {
    lane = { sessionId, title: sessionId, agentId: "", starts: [], looks: [] };
    byId.set(sessionId, lane);
    lanes.push(lane);
  }
  return lane;
}

function mark({ marks, marksOf }: Lanes, made: Mark): void {
  marks.push(made);
  const key = made.sessionId ?? "";
  const same = marksOf.get(key);
  if (same) same.push(made);
  else marksOf.set(key, [made]);
}

function decide(lane: Lane, decision: Decision, at: number): void {
  if (decision.outcome === "queued") change(lane, "queued", at);
  if (endsWait(decision)) change(lane, "created", at);
}

function move(lane: Lane, to: WrittenState, at: number): void {
  const isOver = to === "archived" || to === "deleted";
  change(lane, isOver ? "archived" : lookAfter(to), at);
  if (isOver) lane.endsAt = at;
}

function change(lane: Lane, look: Look, at: number): void {
  if (lane.looks.at(-1) === look) return;
  lane.starts.push(at);
  lane.looks.push(look);
}

/** The lanes of the sessions that existed at some time of a span. */
export const lanesWithin = (lanes: readonly Lane[], { from, to }: LaneSpan): Lane[] =>
  lanes.filter(({ starts, endsAt = to }) => starts.length > 0 && starts[0]! <= to && endsAt >= from);

/** The first index whose value is above `value`; the values ascend. */
export function firstAbove(values: ArrayLike<number>, value: number): number {
  return countLeading(values.length, (index) => values[index]! <= value);
}

function lookAfter(state: WrittenState): Look {
  const [shown, activity] = readState(state);
  return (shown === "active" ? activity : shown) as Look;
}

/** The visible part of the log, in ms since 1970. */
export interface LaneSpan {
  from: number;
  to: number;
}

/** The shortest visible span, in ms. */
const MIN_SPAN = 10;

/** The span after zooming by a factor around a moment, or moving by a part of it; it stays within the log. */
export function zoomed({ from, to }: LaneSpan, factor: number, around: number, whole: LaneSpan): LaneSpan {
  const length = Math.min(whole.to - whole.from, Math.max(MIN_SPAN, (to - from) * factor));
  const part = to === from ? 0.5 : (around - from) / (to - from);
  return within({ from: around - length * part, to: around + length * (1 - part) }, whole);
}

export function moved({ from, to }: LaneSpan, part: number, whole: LaneSpan): LaneSpan {
  const by = (to - from) * part;
  return within({ from: from + by, to: to + by }, whole);
}

/** The span in which two points are at two fractions of its length. It stays within the log. */
export function pinched(points: readonly number[], parts: readonly number[], whole: LaneSpan): LaneSpan {
  const [first, last] = points.toSorted(ascending) as [number, number];
  const [left, right] = parts.toSorted(ascending) as [number, number];
  const length = Math.min(
    whole.to - whole.from,
    Math.max(MIN_SPAN, (last - first) / Math.max(Number.EPSILON, right - left)),
  );
  return within({ from: first - left * length, to: first + (1 - left) * length }, whole);
}

const ascending = (one: number, other: number): number => one - other;

function within({ from, to }: LaneSpan, whole: LaneSpan): LaneSpan {
  const length = to - from;
  const start = Math.max(whole.from, Math.min(from, whole.to - length));
  return { from: start, to: Math.min(whole.to, start + length) };
}
