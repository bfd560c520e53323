import { type RefObject, useEffect, useRef } from "react";

/** Moves the focus to a new element, and with `giveBack` back to where it was. */
export function useBorrowedFocus<T extends HTMLElement>(): { borrower: RefObject<T | null>; giveBack: () => void } {
  const borrower = useRef<T>(null);
  const before = useRef<Element>(null);
  useEffect(() => {
    before.current = document.activeElement;
    borrower.current?.focus();
  }, []);
  const giveBack = () => {
    if (before.current instanceof HTMLElement) before.current.focus();
  };
  return { borrower, giveBack };
}
