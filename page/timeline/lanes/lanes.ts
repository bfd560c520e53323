import { addToLanes, type Lane, type Lanes, unusedLanes } from "../../../src/client/lanes.ts";
import { countLeading } from "../../log/count-leading.ts";
import { LogIndex } from "../../log/log-index.ts";

/** The sessions of a log over time. */
export const laneIndex = () =>
  new LogIndex<Lanes>(unusedLanes, (lanes, event, index) => void addToLanes(lanes, event, index));

/** The lanes of the sessions that existed at some time of a span. */
export const lanesWithin = (lanes: readonly Lane[], { from, to }: LaneSpan): Lane[] =>
  lanes.filter(({ starts, endsAt = to }) => starts.length > 0 && starts[0]! <= to && endsAt >= from);

/** The first index whose value is above `value`; the values ascend. */
export function firstAbove(values: ArrayLike<number>, value: number): number {
  return countLeading(values.length, (index) => values[index]! <= value);
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
