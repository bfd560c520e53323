import { type RefObject, useEffect, useRef } from "react";

/** Moves the focus to a new element, and with `giveBack` back to where it was. */
export function useBorrowedFocus<T extends HTMLElement>(): { taker: RefObject<T | null>; giveBack: () => void } {
  const taker = useRef<T>(null);
  const before = useRef<Element>(null);
  useEffect(() => {
    before.current = document.activeElement;
    taker.current?.focus();
  }, []);
  const giveBack = () => {
    if (before.current instanceof HTMLElement) before.current.focus();
  };
  return { taker, giveBack };
}
