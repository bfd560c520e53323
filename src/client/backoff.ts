/** Resolves after this many ms, or at once when the signal is aborted. */
export type Delay = (ms: number, signal?: AbortSignal) => Promise<void>;

/** A delay by the system's timers. */
export const delay: Delay = (ms, signal) =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal?.addEventListener("abort", finish);
  });

/**
 * The delay before the next attempt, in ms. It doubles with each failed attempt up to `maxMs`, and is random within its
 * upper half, so that clients that failed together do not return together.
 *
 * @param failed failed attempts so far, from 1
 */
export function backoffMs(failed: number, bounds: { firstMs: number; maxMs: number }, random: () => number): number {
  const fullMs = Math.min(bounds.maxMs, bounds.firstMs * 2 ** (failed - 1));
  return Math.round(fullMs * (0.5 + random() / 2));
}
