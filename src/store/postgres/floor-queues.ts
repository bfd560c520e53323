import type { FloorId } from "../../protocol/ids.ts";
import { TransientMap } from "../../shared/transient-map.ts";

/**
 * Runs the requests of one floor in their order, while different floors run independently. A floor without pending
 * requests takes no memory.
 */
export class FloorQueues {
  /** Settles when the floor's last pending request is done. Never rejects. */
  readonly #ends = new TransientMap<FloorId, Promise<unknown>>();

  async run<T>(id: FloorId, act: () => Promise<T>): Promise<T> {
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

  /** Resolves when no request is pending. */
  async emptied(): Promise<void> {
    while (this.#ends.size > 0) await Promise.all(this.#ends.values());
  }
}
