/** Time as an argument: `app.ts` passes the real clock, tests pass a virtual one. */
export interface Clock {
  /** ms since 1970. Goes back only if several nodes share the database's clock and that clock was wrong. */
  now(): number;
  /** Call `callback` once, after at least `delayMs`. The timer does not keep the process alive. */
  after(delayMs: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}
