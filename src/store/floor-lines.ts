import type { FloorId } from "../protocol/ids.ts";

/**
 * Lets what is asked for one floor happen in the order in which it was asked, while floors do not wait for each other.
 * A floor that nothing waits for leaves nothing behind.
 */
export class FloorLines {
  /** Settles, and never rejects, when the last one in a floor's line is done. */
  readonly #ends = new Map<FloorId, Promise<unknown>>();

  async inLine<T>(id: FloorId, act: () => Promise<T>): Promise<T> {
    const before = this.#ends.get(id);
    const own = before ? before.then(act) : act();
    const end = own.catch(() => {});
    this.#ends.set(id, end);
    try {
      return await own;
    } finally {
      if (this.#ends.get(id) === end) this.#ends.delete(id);
    }
  }

  /** Resolves when every line is empty. */
  async emptied(): Promise<void> {
    while (this.#ends.size > 0) await Promise.all(this.#ends.values());
  }
}
