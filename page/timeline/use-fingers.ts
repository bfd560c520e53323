import { type PointerEvent, useRef } from "react";

/** One or two pointers that are down on an element: fingers, or a mouse with its main button pressed. */
export interface Fingers {
  /** Where each is, in px from the element's left, in the order in which they came down. */
  at: readonly number[];
  /** Where each was when the last of them came down. */
  began: readonly number[];
  /** Of the element, in px. */
  width: number;
}

interface Told {
  onDown?: (fingers: Fingers) => void;
  onMove: (fingers: Fingers) => void;
}

/**
 * Follows one or two pointers on an element, by the handlers that it gives. A third one is not followed; when one of two
 * is lifted, the other is not followed either: a pinch never ends as a drag.
 */
export function useFingers({ onDown, onMove }: Told) {
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
      onDown?.(fingers(width));
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
