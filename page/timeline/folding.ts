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

/** A folded gap: its place and width on the axis, and its real length, in ms. */
export interface ShownGap {
  place: number;
  takes: number;
  ms: number;
}

/** Converts between time and places on an axis. Both are in ms and ascend together. */
export interface Axis {
  placeOf: (at: number) => number;
  timeAt: (place: number) => number;
  /** The folded gaps in a part of the axis; none if there are too many. */
  gapsIn: (part: LaneSpan) => readonly ShownGap[];
}

const NO_GAPS: readonly ShownGap[] = [];

export const PLAIN_AXIS: Axis = { placeOf: (at) => at, timeAt: (place) => place, gapsIn: () => NO_GAPS };

/** With more gaps than this none is marked, because there is no room for their lengths. */
const MAX_SHOWN = 40;

/** An axis on which every gap has the same small width. */
export function foldedAxis({ starts, ends, quiet, firstAt = 0, lastAt = 0 }: Gaps): Axis {
  const busy = lastAt - firstAt - (quiet.at(-1) ?? 0);
  const takes = Math.min(MAX_FOLDED_MS, Math.max(MIN_FOLDED_MS, busy * FOLDED_PART));
  /** The folded time up to the end of each gap, and the start of each on the axis. */
  const saved = quiet.map((ms, gap) => ms - (gap + 1) * takes);
  const places = starts.map((start, gap) => start - (saved[gap - 1] ?? 0));
  return {
    placeOf(at) {
      const gap = firstAbove(starts, at) - 1;
      if (gap < 0) return at;
      const [start, end] = [starts[gap]!, ends[gap]!];
      if (at >= end) return at - saved[gap]!;
      return places[gap]! + ((at - start) / (end - start)) * takes;
    },
    timeAt(place) {
      const gap = firstAbove(places, place) - 1;
      if (gap < 0) return place;
      const within = place - places[gap]!;
      if (within >= takes) return place + saved[gap]!;
      return starts[gap]! + (within / takes) * (ends[gap]! - starts[gap]!);
    },
    gapsIn({ from, to }) {
      const first = firstAbove(places, from - takes);
      const end = firstAbove(places, to);
      if (end - first > MAX_SHOWN) return NO_GAPS;
      return places
        .slice(first, end)
        .map((place, nth) => ({ place, takes, ms: ends[first + nth]! - starts[first + nth]! }));
    },
  };
}
