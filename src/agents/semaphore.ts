import { unlessAborted } from "../shared/waiting.ts";

/** Slots that all runs of a node share. A run that finds none free waits, first come first served. */
export class Semaphore {
  readonly #total: number;
  readonly #waiting = new Set<() => void>();
  #inUse = 0;

  constructor(total: number) {
    this.#total = total;
  }

  /** A permit, if one is free. @returns its release, which may be called twice */
  tryAcquire(): (() => void) | undefined {
    if (this.#inUse >= this.#total) return undefined;
    return this.#grant();
  }

  /** Wait for a permit. Rejects with the signal's reason when it aborts first. @returns as `tryAcquire` */
  async acquire(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#inUse < this.#total) return this.#grant();
    await unlessAborted<void>(signal, (resolve) => {
      const onRelease = () => resolve();
      this.#waiting.add(onRelease);
      return () => this.#waiting.delete(onRelease);
    });
    // The permit was handed over, so it is counted already.
    return this.#release();
  }

  #grant(): () => void {
    this.#inUse += 1;
    return this.#release();
  }

  #release(): () => void {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      const [next] = this.#waiting;
      if (!next) {
        this.#inUse -= 1;
        return;
      }
      this.#waiting.delete(next);
      next();
    };
  }
}
