/**
 * Limits what is read in one iteration of the event loop, because each read blocks it for a moment. Beyond the limit,
 * readers wait for the next iteration, in order, so that other work is never starved.
 */
export class LoopBudget {
  readonly #loopBytes: number;
  #left: number;
  #nextLoop: Promise<void> | undefined;

  /** @param loopBytes after so many bytes, readers wait for the next iteration */
  constructor(loopBytes: number) {
    this.#loopBytes = loopBytes;
    this.#left = loopBytes;
  }

  /**
   * Read in an iteration of the event loop that has budget left. The read follows its check at once: readers that wait
   * for the same iteration would otherwise all pass the check before the first of them spends anything.
   */
  async read<T>(read: () => T): Promise<T> {
    while (this.#left <= 0) await this.#nextLoop;
    return read();
  }

  spend(bytes: number): void {
    this.#left -= bytes;
    this.#nextLoop ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#left = this.#loopBytes;
        this.#nextLoop = undefined;
        resolve();
      });
    });
  }
}
