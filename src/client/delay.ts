/** Resolves after this many ms, or at once when the signal is aborted. */
export type Delay = (ms: number, signal?: AbortSignal) => Promise<void>;

/** A delay by the system's timers. */
export const delay: Delay = (ms, signal) => wait(ms, signal);

/** A delay that does not keep the process running: for programs on Node alone. */
export const pauseFor: Delay = (ms, signal) => wait(ms, signal, (timer) => (timer as { unref(): void }).unref());

function wait(ms: number, signal?: AbortSignal, onStart?: (timer: unknown) => void): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    onStart?.(timer);
    signal?.addEventListener("abort", finish);
  });
}
