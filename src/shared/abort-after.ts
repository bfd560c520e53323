import type { Clock } from "./ports/clock.ts";

/**
 * A signal that aborts with what `reason` makes after `delayMs`, or as `outer` does. Disposing it ends both.
 * @param delayMs undefined: never
 */
export function abortAfter(
  clock: Pick<Clock, "after">,
  delayMs: number | undefined,
  reason: () => Error,
  outer?: AbortSignal,
): Disposable & { readonly signal: AbortSignal } {
  const end = new AbortController();
  const onAbort = () => end.abort(outer!.reason);
  outer?.addEventListener("abort", onAbort, { once: true });
  if (outer?.aborted) onAbort();
  const timer = delayMs === undefined ? undefined : clock.after(delayMs, () => end.abort(reason()));
  return {
    signal: end.signal,
    [Symbol.dispose]() {
      timer?.cancel();
      outer?.removeEventListener("abort", onAbort);
    },
  };
}
