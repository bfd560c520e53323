import type { Clock, Timer } from "../../../src/protocol/ports/clock.ts";
import { NOON } from "../stores/floor-writer.ts";

interface Waiting {
  /** In time that has passed, which knows no jumps. */
  at: number;
  callback: () => void;
}

/** Time that passes when it is told to, and whoever waits for it wakes in order. */
export class VirtualClock implements Clock {
  readonly #settle: () => Promise<unknown>;
  readonly #waiting = new Set<Waiting>();
  #passed = 0;
  #base: number;

  /** @param settle resolves when what a timer began has come as far as it can; default: one turn of the event loop */
  constructor({ now = NOON, settle = turn }: { now?: number; settle?: () => Promise<unknown> } = {}) {
    this.#base = now;
    this.#settle = settle;
  }

  now(): number {
    return this.#base + this.#passed;
  }

  after(delayMs: number, callback: () => void): Timer {
    const waiting = { at: this.#passed + Math.max(0, delayMs), callback };
    this.#waiting.add(waiting);
    return { cancel: () => void this.#waiting.delete(waiting) };
  }

  /** How many wait. */
  get timerCount(): number {
    return this.#waiting.size;
  }

  /** Let so much time pass: timers in the order in which they are due, and after each what it began. */
  async advance(ms: number): Promise<void> {
    const until = this.#passed + ms;
    await this.#settle();
    for (;;) {
      const next = this.#next();
      if (!next || next.at > until) break;
      this.#passed = next.at;
      this.#waiting.delete(next);
      next.callback();
      await this.#settle();
    }
    this.#passed = until;
    await this.#settle();
  }

  /** The wall clock is set: whoever waits waits as long as before. */
  jump(byMs: number): void {
    this.#base += byMs;
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting) if (!next || waiting.at < next.at) next = waiting;
    return next;
  }
}

/** One turn of the event loop: every promise that can be settled is. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
