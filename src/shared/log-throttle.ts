/** How often the log says that something fails which is tried every second, or by every client, in ms. */
export const FAULT_NOTE_MS = 60_000;

/** Limits how often a state that lasts is written to the log. */
export class LogThrottle {
  readonly #everyMs: number;
  #saidAt = Number.NEGATIVE_INFINITY;

  /** @param everyMs the shortest interval between two lines of the log, in ms */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /**
   * Whether it is time for a line, which then counts as written.
   * @param now in ms of the caller's clock
   */
  isDue(now: number): boolean {
    if (now - this.#saidAt < this.#everyMs) return false;
    this.#saidAt = now;
    return true;
  }
}
