import { useMemo, useState } from "react";
import { useHere } from "../moment/here.tsx";
import { type Axis, foldedAxis, gapIndex, PLAIN_AXIS, type ShownGap } from "./folding.ts";
import type { Span } from "./lanes.ts";

/** What the last event led to is seen for this part of the whole log. */
const AFTER = 0.03;

export interface ShownAxis {
  axis: Axis;
  /** The folded gaps that are seen. */
  gaps: readonly ShownGap[];
  /** The whole log, the part that is shown, and the part that was chosen; undefined: all of it. On the axis. */
  whole: Span;
  span: Span;
  chosen: Span | undefined;
  setChosen: (span: Span | undefined) => void;
}

/** The time axis: which part of the log is shown, with its quiet gaps folded or not. The address has it as times. */
export function useAxis({ from, to }: Span): ShownAxis {
  const { log, span: chosen, setSpan, isFolded } = useHere();
  const { events, revision } = log;
  const [index] = useState(gapIndex);
  // biome-ignore lint/correctness/useExhaustiveDependencies: gaps are added in place; the revision says so.
  const axis = useMemo(
    () => (isFolded ? foldedAxis(index.of(events)) : PLAIN_AXIS),
    [index, events, revision, isFolded],
  );
  const shown = useMemo(() => {
    const [first, last] = [axis.placeOf(from), axis.placeOf(to)];
    const whole = { from: first, to: last + (last - first) * AFTER };
    const part = chosen && { from: axis.placeOf(chosen.from), to: axis.placeOf(chosen.to) };
    const span = part && part.from < part.to ? part : whole;
    return { axis, gaps: axis.gapsIn(span), whole, span, chosen: part };
  }, [axis, from, to, chosen]);
  // Not memoised: `setSpan` is another one at each moment, and the lanes are painted anew for another `span`.
  const setChosen = (next: Span | undefined) =>
    setSpan(next && { from: axis.timeAt(next.from), to: axis.timeAt(next.to) });
  return { ...shown, setChosen };
}
