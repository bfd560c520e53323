import { useEffect, useEffectEvent, useRef } from "react";

/**
 * Reads at once and then again and again, while the page is visible; never twice at a time.
 * @param read reports its failures itself, unless its signal is aborted: then its reader has gone
 */
export function usePolled(read: (signal: AbortSignal) => Promise<void>, everyMs: number, source: unknown): void {
  const isPolling = useRef(false);
  const poll = useEffectEvent(async (signal: AbortSignal) => {
    if (isPolling.current || document.hidden) return;
    isPolling.current = true;
    try {
      await read(signal);
    } finally {
      isPolling.current = false;
    }
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another source is read at once.
  useEffect(() => {
    const leaving = new AbortController();
    void poll(leaving.signal);
    const timer = setInterval(() => void poll(leaving.signal), everyMs);
    return () => {
      clearInterval(timer);
      leaving.abort();
    };
  }, [source, everyMs]);
}
