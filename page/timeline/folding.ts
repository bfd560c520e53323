import { timeOf } from "../log/log-event.ts";
import { LogIndex } from "../log/log-index.ts";
import { firstAbove, type LaneSpan } from "./lanes/lanes.ts";

/** A longer gap without events is folded, in ms. */
const QUIET_MS = 10_000;
/** The width of a folded gap: this part of the time with events, within bounds in ms. */
const FOLDED_PART = 1 / 20;
const MIN_FOLDED_MS = 20;
const MAX_FOLDED_MS = 1_000;

/** The gaps of a log, in ms since 1970, ascending. */
export interface Gaps {
  starts: number[];
  ends: number[];
  /** The total length of all gaps up to the end of each, in ms. */
  quiet: number[];
  firstAt: number | undefined;
  lastAt: number | undefined;
}

export const gapIndex = () =>
  new LogIndex<Gaps>(
    () => ({ starts: [], ends: [], quiet: [], firstAt: undefined, lastAt: undefined }),
    (gaps, event) => {
      const at = timeOf(event);
      const { lastAt = at, quiet } = gaps;
      gaps.firstAt ??= at;
      gaps.lastAt = Math.max(lastAt, at);
      if (at - lastAt <= QUIET_MS) return;
      gaps.starts.push(lastAt);
      gaps.ends.push(at);
      quiet.push((quiet.at(-1) ?? 0) + at - lastAt);
    },
  );

/** A folded gap: its position and width on the axis, and its real length, in ms. */
export interface ShownGap {
  point: number;
  width: number;
  ms: number;
}

/** Converts between time and points of an axis. Both are in ms and ascend together. */
export interface Axis {
  pointOf: (at: number) => number;
  timeAt: (point: number) => number;
  /** The folded gaps in a part of the axis; none if there are too many. */
  gapsIn: (part: LaneSpan) => readonly ShownGap[];
}

const NO_GAPS: readonly ShownGap[] = [];

export const PLAIN_AXIS: Axis = { pointOf: (at) => at, timeAt: (point) => point, gapsIn: () => NO_GAPS };

/** With more gaps than this none is marked, because there is no room for their lengths. */
const MAX_SHOWN = 40;

/** An axis on which every gap has the same small width. */
export function foldedAxis({ starts, ends, quiet, firstAt = 0, lastAt = 0 }: Gaps): Axis {
  const busy = lastAt - firstAt - (quiet.at(-1) ?? 0);
  const width = Math.min(MAX_FOLDED_MS, Math.max(MIN_FOLDED_MS, busy * FOLDED_PART));
  /** The folded time up to the end of each gap, and the start of each on the axis. */
  const saved = quiet.map((ms, gap) => ms - (gap + 1) * width);
  const points = starts.map((start, gap) => start - (saved[gap - 1] ?? 0));
  return {
    pointOf(at) {
      const gap = firstAbove(starts, at) - 1;
      if (gap < 0) return at;
      const [start, end] = [starts[gap]!, ends[gap]!];
      if (at >= end) return at - saved[gap]!;
      return points[gap]! + ((at - start) / (end - start)) * width;
    },
    timeAt(point) {
      const gap = firstAbove(points, point) - 1;
      if (gap < 0) return point;
      const within = point - points[gap]!;
      if (within >= width) return point + saved[gap]!;
      return starts[gap]! + (within / width) * (ends[gap]! - starts[gap]!);
    },
    gapsIn({ from, to }) {
      const first = firstAbove(points, from - width);
      const end = firstAbove(points, to);
      if (end - first > MAX_SHOWN) return NO_GAPS;
      return points
        .slice(first, end)
        .map((point, nth) => ({ point, width, ms: ends[first + nth]! - starts[first + nth]! }));
    },
  };
}
