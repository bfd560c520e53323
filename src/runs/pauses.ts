import type { Clock } from "../protocol/ports/clock.ts";

/**
 * Pauses that can be ended early. (In a `Promise.race` with one promise for the end, that promise would keep a reaction
 * for each pause.)
 */
export class Pauses {
  readonly #clock: Clock;
  readonly #ends = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves after `delayMs`, or when the pauses are ended. */
  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        timer.cancel();
        this.#ends.delete(end);
        resolve();
      };
      const timer = this.#clock.after(delayMs, end);
      this.#ends.add(end);
    });
  }

  /** End the pauses that are under way. */
  end(): void {
    for (const end of this.#ends) end();
  }
}
