import { startTransition, useEffect, useRef, useState } from "react";

/** The value, at most `ms` old: for content that is slow to render and need not follow each step of the moment. */
export function usePaced<T>(value: T, everyMs: number): T {
  const [shown, setShown] = useState(value);
  const latest = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const shownAt = useRef(0);
  useEffect(() => {
    latest.current = value;
    if (Object.is(value, shown)) return;
    const show = () => {
      timer.current = undefined;
      shownAt.current = performance.now();
      startTransition(() => setShown(() => latest.current));
    };
    timer.current ??= setTimeout(show, Math.max(0, shownAt.current + everyMs - performance.now()));
  }, [value, shown, everyMs]);
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  return shown;
}
