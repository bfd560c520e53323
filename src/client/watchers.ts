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

  /** Calls the functions of this moment: also one that another of them removes. */
  notify(): void {
    for (const watching of [...this.#watching]) watching();
  }
}
