import { useSyncExternalStore } from "react";

let announced = "";
const watchers = new Set<() => void>();

/** Announces the outcome of a command to screen readers. The same sentence is announced again. */
export function announce(sentence: string): void {
  // A live region is read when its text changes, and a space at the end is not heard.
  announced = announced === sentence ? `${sentence}\u00a0` : sentence;
  for (const watcher of [...watchers]) watcher();
}

function subscribe(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** The outcome that was announced last. */
export const useAnnounced = (): string => useSyncExternalStore(subscribe, () => announced);
