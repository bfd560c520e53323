/** Time as an argument: the real one in `app.ts`, a virtual one in tests. */
export interface Clock {
  /** ms since 1970; never goes back while the process lives. */
  now(): number;
  /** Calls back once, after at least `delayMs`. The timer keeps no process alive. */
  after(delayMs: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** A promise for the time after `delayMs`. */
export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
