/** Functions that are called when something changes. */
export class Watchers {
  readonly #watching = new Set<() => void>();

  get isEmpty(): boolean {
    return this.#watching.size === 0;
  }

  /**
   * Adds a function, which may be added several times. Bound, so that it can be passed to React directly.
   * @returns the function that removes it
   */
  readonly subscribe = (watcher: () => void): (() => void) => {
    const watching = () => watcher();
    this.#watching.add(watching);
    return () => void this.#watching.delete(watching);
  };

  /** Calls all functions that are registered now, even a function that another one removes meanwhile. */
  notify(): void {
    for (const watching of [...this.#watching]) watching();
  }
}
