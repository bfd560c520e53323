import { useRef } from "react";
import { useHere } from "../../moment/here.tsx";
import { useFingers } from "../use-fingers.ts";
import { type LaneSpan, pinched } from "./lanes.ts";

/** The shortest horizontal distance at the beginning of a pinch, in px. Below it the fingers are above one another. */
const MIN_PINCH_PX = 24;

interface Lanes {
  /** The visible part and the whole log, on the axis. */
  span: LaneSpan;
  whole: LaneSpan;
  /** Called with the point of the axis below a single pointer. */
  onPress: (point: number) => void;
  onZoom: (span: LaneSpan) => void;
}

/** One pointer on the lanes chooses a moment. Two pointers move and zoom the lanes, and do not change the moment. */
export function useLaneFingers({ span, whole, onPress, onZoom }: Lanes) {
  const { at: moment, lookAt } = useHere();
  const before = useRef({ moment, span });
  const pointIn = ({ from, to }: LaneSpan, part: number) => from + part * (to - from);
  return useFingers({
    onDown: ({ at, width }) => {
      if (at.length === 2) return lookAt(before.current.moment);
      before.current = { moment, span };
      onPress(pointIn(span, at[0]! / width));
    },
    onMove: ({ at, began, width }) => {
      if (at.length === 1) return onPress(pointIn(span, at[0]! / width));
      if (Math.abs(began[0]! - began[1]!) < MIN_PINCH_PX) return;
      const points = began.map((x) => pointIn(before.current.span, x / width));
      onZoom(
        pinched(
          points,
          at.map((x) => x / width),
          whole,
        ),
      );
    },
  });
}
