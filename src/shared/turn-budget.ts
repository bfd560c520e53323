/**
 * Limits what is read in one turn of the event loop, because each read blocks it for a moment. Beyond the limit,
 * readers wait for the next turn, in order, so that other work is never starved.
 */
export class TurnBudget {
  readonly #turnBytes: number;
  #left: number;
  #turn: Promise<void> | undefined;

  /** @param turnBytes after so many bytes, readers wait for the next turn */
  constructor(turnBytes: number) {
    this.#turnBytes = turnBytes;
    this.#left = turnBytes;
  }

  /**
   * Read in a turn of the event loop that has budget left. The read follows its check at once: readers that wait for the
   * same turn would otherwise all pass the check before the first of them spends anything.
   */
  async read<T>(read: () => T): Promise<T> {
    while (this.#left <= 0) await this.#turn;
    return read();
  }

  spend(bytes: number): void {
    this.#left -= bytes;
    this.#turn ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#left = this.#turnBytes;
        this.#turn = undefined;
        resolve();
      });
    });
  }
}
