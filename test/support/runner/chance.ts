/** Numbers that look like chance and are the same each time: a failure can be played again by its seed. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    this.next();
  }

  /** From 0 to below 1. */
  next(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    // The low bits of such a row of numbers repeat soon.
    return (this.#state >>> 8) / 16_777_216;
  }

  /** A whole number from 0 to below `below`. */
  below(below: number): number {
    return Math.floor(this.next() * below);
  }

  /** True so often out of a hundred times. */
  percent(share: number): boolean {
    return this.next() * 100 < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
}
