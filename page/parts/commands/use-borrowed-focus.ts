import { type KeyboardEvent, useEffect, useRef } from "react";
import { isLeaveKey } from "./field-keys.ts";

/** Moves the focus to a new element, and with `giveBack` back to where it was. Escape in its form leaves the form. */
export function useBorrowedFocus<T extends HTMLElement>(onLeave: () => void) {
  const borrower = useRef<T>(null);
  const before = useRef<Element>(null);
  useEffect(() => {
    before.current = document.activeElement;
    borrower.current?.focus();
  }, []);
  const giveBack = () => {
    if (before.current instanceof HTMLElement) before.current.focus();
  };
  const leave = () => {
    onLeave();
    giveBack();
  };
  const leaveOnEscape = (event: KeyboardEvent) => {
    if (!isLeaveKey(event)) return;
    // Otherwise it closes the session too.
    event.stopPropagation();
    leave();
  };
  return { borrower, giveBack, leave, leaveOnEscape };
}
