import { useEffect } from "react";
import { useLiveViews } from "../../src/react/hooks.ts";

/**
 * A tab that was hidden for this long closes its streams, in ms, because browsers have six per server for all tabs
 * together.
 */
const HIDDEN_MS = 10_000;

/** Closes the streams of a hidden tab, and opens them again, each at its position, when it is visible. */
export function useHiddenTab(): void {
  const views = useLiveViews();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => views.suspend(), HIDDEN_MS);
      else views.restart();
    };
    document.addEventListener("visibilitychange", look);
    // A tab that is opened in the background gets no event.
    if (document.hidden) look();
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [views]);
}
