/** Bytes that are read in one turn of the event loop. */
const TURN_BYTES = 1_048_576;

/**
 * Limits what is read in one turn of the event loop, because each read blocks it for a moment. Beyond the limit,
 * readers of pages wait for the next turn, so that other work is never starved.
 */
export class TurnBudget {
  #left = TURN_BYTES;
  #turn: Promise<void> | undefined;

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
        this.#left = TURN_BYTES;
        this.#turn = undefined;
        resolve();
      });
    });
  }
}
