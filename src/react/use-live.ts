import { useSyncExternalStore } from "react";
import type { Live, LiveState } from "../client/live/live.ts";

/** The state of a live view; renders again when it changes. Its stream is open while the component is mounted. */
export function useLive<T extends LiveState>(live: Live<T>): T {
  const view = () => live.view;
  return useSyncExternalStore(live.subscribe, view, view);
}
