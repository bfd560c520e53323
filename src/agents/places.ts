import { unlessAborted } from "../shared/waiting.ts";

/** A number of places that all runs of a node share. A run that finds none free waits, first come first served. */
export class Places {
  readonly #total: number;
  readonly #waiting = new Set<() => void>();
  #taken = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** A place, if one is free. @returns its release, which may be called twice */
  tryTake(): (() => void) | undefined {
    if (this.#taken >= this.#total) return undefined;
    return this.#take();
  }

  /** Wait for a place. Rejects with the signal's reason when it aborts first. @returns as `tryTake` */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#taken < this.#total) return this.#take();
    await unlessAborted<void>(signal, (resolve) => {
      const onPlace = () => resolve();
      this.#waiting.add(onPlace);
      return () => this.#waiting.delete(onPlace);
    });
    // The place was handed over, so it is counted already.
    return this.#release();
  }

  #take(): () => void {
    this.#taken += 1;
    return this.#release();
  }

  #release(): () => void {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const [next] = this.#waiting;
      if (!next) {
        this.#taken -= 1;
        return;
      }
      this.#waiting.delete(next);
      next();
    };
  }
}
