import { useMemo, useState } from "react";
import { useHere } from "../moment/here.tsx";
import { type Axis, foldedAxis, gapIndex, PLAIN_AXIS, type ShownGap } from "./folding.ts";
import type { LaneSpan } from "./lanes/lanes.ts";

/** The time after the last event that is visible, as a part of the whole log. */
const AFTER = 0.03;

export interface ShownAxis {
  axis: Axis;
  /** The visible folded gaps. */
  gaps: readonly ShownGap[];
  /** The whole log, the visible part, and the chosen part; undefined: all of it. On the axis. */
  whole: LaneSpan;
  span: LaneSpan;
  chosen: LaneSpan | undefined;
  setChosen: (span: LaneSpan | undefined) => void;
}

/** The time axis: the visible part of the log, with its gaps folded or not. The address contains it as times. */
export function useAxis({ from, to }: LaneSpan): ShownAxis {
  const { log, span: chosen, setSpan, isFolded } = useHere();
  const { events, revision } = log;
  const [index] = useState(gapIndex);
  // biome-ignore lint/correctness/useExhaustiveDependencies: gaps are added in place; the revision says so.
  const axis = useMemo(
    () => (isFolded ? foldedAxis(index.of(events)) : PLAIN_AXIS),
    [index, events, revision, isFolded],
  );
  const shown = useMemo(() => {
    const [first, last] = [axis.pointOf(from), axis.pointOf(to)];
    const whole = { from: first, to: last + (last - first) * AFTER };
    const part = chosen && { from: axis.pointOf(chosen.from), to: axis.pointOf(chosen.to) };
    const span = part && part.from < part.to ? part : whole;
    return { axis, gaps: axis.gapsIn(span), whole, span, chosen: part };
  }, [axis, from, to, chosen]);
  // Not memoised: `setSpan` is new at each moment, and the lanes are painted again for another `span`.
  const setChosen = (next: LaneSpan | undefined) =>
    setSpan(next && { from: axis.timeAt(next.from), to: axis.timeAt(next.to) });
  return { ...shown, setChosen };
}
