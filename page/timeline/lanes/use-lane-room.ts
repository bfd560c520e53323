import { type RefObject, useEffect, useRef, useState } from "react";
import { useHere } from "../../moment/here.tsx";
import type { Kind } from "../kinds.ts";

/**
 * The number of lanes that the region of the lanes has room for. Each lane more would move the log beneath: while the
 * pointer or the focus is in the view, new lanes are reached by scrolling, and the region grows when it is left.
 * @returns also a function for when the view is left
 */
export function useLaneRoom(view: RefObject<HTMLElement | null>, lanes: number, kind: Kind) {
  const { hasOlder, isReading, revision } = useHere().log;
  const [{ room, roomOf }, setRoom] = useState({ room: lanes, roomOf: kind });
  const wasOpening = useRef(true);
  const fitRoom = () => setRoom({ room: lanes, roomOf: kind });
  const isOpening = lanes === 0 || (hasOlder && isReading);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lanes grow in place; the revision says so.
  useEffect(() => {
    // The log is read for the first time, or the reader chose another filter.
    if (isOpening || wasOpening.current || roomOf !== kind || !isInUse(view.current!)) fitRoom();
    wasOpening.current = isOpening;
  }, [revision, kind, isOpening]);
  return { room, fitRoom };
}

const isInUse = (element: HTMLElement): boolean => element.matches(":hover, :focus-within");
