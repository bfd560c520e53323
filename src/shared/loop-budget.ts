/**
 * Limits what is read in one iteration of the event loop, because each read blocks it for a moment. Beyond the limit,
 * readers wait for the next iteration, in order, so that other work is never starved. What is counted is up to the
 * owner of the budget: bytes, or events.
 */
export class LoopBudget {
  readonly #perLoop: number;
  #left: number;
  #nextLoop: Promise<void> | undefined;

  /** @param perLoop after so much, readers wait for the next iteration */
  constructor(perLoop: number) {
    this.#perLoop = perLoop;
    this.#left = perLoop;
  }

  /**
   * Read in an iteration of the event loop that has budget left. The read follows its check at once: readers that wait
   * for the same iteration would otherwise all pass the check before the first of them spends anything.
   */
  async read<T>(read: () => T): Promise<T> {
    while (this.#left <= 0) await this.#nextLoop;
    return read();
  }

  /** @param amount how much was read, in the unit of `perLoop` */
  spend(amount: number): void {
    this.#left -= amount;
    this.#nextLoop ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#left = this.#perLoop;
        this.#nextLoop = undefined;
        resolve();
      });
    });
  }
}
