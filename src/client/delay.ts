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
