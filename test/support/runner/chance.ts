/** Pseudo-random numbers from a seed: a failure can be repeated with its seed. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    this.next();
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    // The low bits of this generator repeat after a short period.
    return (this.#state >>> 8) / 16_777_216;
  }

  /** An integer from 0 up to, but not including, `below`. */
  below(below: number): number {
    return Math.floor(this.next() * below);
  }

  /** True in this many of a hundred calls. */
  percent(share: number): boolean {
    return this.next() * 100 < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
}
