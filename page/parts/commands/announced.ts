import { useSyncExternalStore } from "react";
import { Watchers } from "../../../src/client/watchers.ts";

let announced = "";
const watchers = new Watchers();

/** Announces the outcome of a command to screen readers. The same sentence is announced again. */
export function announce(sentence: string): void {
  // A live region is read when its text changes, and a space at the end is not heard.
  announced = announced === sentence ? `${sentence}\u00a0` : sentence;
  watchers.notify();
}

/** The outcome that was announced last. */
export const useAnnounced = (): string => useSyncExternalStore(watchers.subscribe, () => announced);
