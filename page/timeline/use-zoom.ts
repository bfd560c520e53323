import { type KeyboardEvent, type RefObject, useEffect, useEffectEvent } from "react";
import { type LaneSpan, moved, zoomed } from "./lanes/lanes.ts";

const ZOOM = 1.25;
const STEP = 0.1;

interface Zoomed {
  /** The visible part and the whole log, on the axis. */
  span: LaneSpan;
  whole: LaneSpan;
  /** The point that zooming keeps where it is. */
  middle: number;
  onZoom: (span: LaneSpan) => void;
}

export interface Zoom {
  nearer: () => void;
  farther: () => void;
  earlier: () => void;
  later: () => void;
  /** The same with W S, + − and A D. */
  onKeyDown: (event: KeyboardEvent) => void;
}

/** Zooms and moves the visible part of the log. */
export function useZoom({ span, whole, middle, onZoom }: Zoomed): Zoom {
  const zoom = (factor: number) => onZoom(zoomed(span, factor, middle, whole));
  const move = (step: number) => onZoom(moved(span, step, whole));
  const ways = {
    nearer: () => zoom(1 / ZOOM),
    farther: () => zoom(ZOOM),
    earlier: () => move(-STEP),
    later: () => move(STEP),
  };
  const onKeyDown = ({ code }: KeyboardEvent) => {
    if (code === "KeyW" || code === "Equal") ways.nearer();
    else if (code === "KeyS" || code === "Minus") ways.farther();
    else if (code === "KeyA") ways.earlier();
    else if (code === "KeyD") ways.later();
  };
  return { ...ways, onKeyDown };
}

/** The wheel zooms with Ctrl and moves with Shift, or if it turns sideways. Otherwise it scrolls the lanes. */
export function useZoomWheel(box: RefObject<HTMLElement | null>, { nearer, farther, earlier, later }: Zoom): void {
  const turn = useEffectEvent((event: WheelEvent) => {
    if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const isForward = (event.deltaY || event.deltaX) > 0;
    if (event.ctrlKey) (isForward ? farther : nearer)();
    else (isForward ? later : earlier)();
  });
  useEffect(() => {
    const element = box.current!;
    const listen = (event: WheelEvent) => turn(event);
    // React's handlers of the wheel cannot prevent that the page scrolls.
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, [box]);
}
