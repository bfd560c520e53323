/** Resolves after so many ms, or at once when the signal is aborted. */
export type Delay = (ms: number, signal?: AbortSignal) => Promise<void>;

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
 * How long to wait before the next try, in ms: doubled with each that failed, up to `maxMs`, and spread over the upper
 * half of that, so that clients that failed together do not come back together.
 *
 * @param failed tries so far, from 1
 */
export function backoffMs(failed: number, bounds: { firstMs: number; maxMs: number }, random: () => number): number {
  const fullMs = Math.min(bounds.maxMs, bounds.firstMs * 2 ** (failed - 1));
  return Math.round(fullMs * (0.5 + random() / 2));
}
