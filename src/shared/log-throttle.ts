/** The shortest interval between two lines of the log about a state that lasts, in ms. */
const EVERY_MS = 60_000;

/** Limits how often a state that lasts is written to the log: once a minute. */
export class LogThrottle {
  #saidAt = Number.NEGATIVE_INFINITY;

  /**
   * True at most once a minute. Write the line if it is.
   * @param now in ms of the caller's clock, which may go back
   */
  isDue(now: number): boolean {
    if (Math.abs(now - this.#saidAt) < EVERY_MS) return false;
    this.#saidAt = now;
    return true;
  }
}
