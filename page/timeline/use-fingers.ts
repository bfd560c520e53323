import { type PointerEvent, useRef } from "react";

/** One or two pressed pointers on an element: fingers, or a mouse with its main button pressed. */
export interface Fingers {
  /** The current positions, in px from the left edge of the element, in the order of the presses. */
  at: readonly number[];
  /** The positions at the time of the latest press. */
  began: readonly number[];
  /** The width of the element, in px. */
  width: number;
}

interface FingerListeners {
  onDown: (fingers: Fingers) => void;
  onMove: (fingers: Fingers) => void;
}

/**
 * Handlers that follow one or two pointers on an element. A third pointer is ignored. When one of two is lifted, the
 * other is ignored too, so that a pinch does not end as a drag.
 */
export function useFingers({ onDown, onMove }: FingerListeners) {
  const now = useRef(new Map<number, number>());
  const began = useRef<readonly number[]>([]);
  const read = (event: PointerEvent<HTMLElement>): Omit<Fingers, "at" | "began"> & { x: number } => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - left, width };
  };
  const fingers = (width: number): Fingers => ({ at: [...now.current.values()], began: began.current, width });
  const lift = ({ pointerId }: PointerEvent<HTMLElement>) => {
    if (now.current.has(pointerId)) now.current.clear();
  };
  return {
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      if (event.button !== 0 || now.current.size === 2) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      const { x, width } = read(event);
      now.current.set(event.pointerId, x);
      began.current = [...now.current.values()];
      onDown(fingers(width));
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      if (!now.current.has(event.pointerId)) return;
      const { x, width } = read(event);
      now.current.set(event.pointerId, x);
      onMove(fingers(width));
    },
    onPointerUp: lift,
    onPointerCancel: lift,
  };
}
