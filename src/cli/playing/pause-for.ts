/** Resolves after so many ms, or at once when the signal is aborted. Does not keep the process running. */
export const pauseFor = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms).unref();
    signal?.addEventListener("abort", finish);
  });
