import type { Clock, Timer } from "../../../src/shared/ports/clock.ts";
import { NOON } from "../stores/floor-writer.ts";

interface Waiting {
  /** In monotonic time. */
  at: number;
  callback: () => void;
}

/** A clock that moves only when the test moves it; waits end in order. */
export class VirtualClock implements Clock {
  readonly #settle: () => Promise<unknown>;
  readonly #waiting = new Set<Waiting>();
  #passed = 0;
  #base: number;

  /**
   * @param settle resolves when the work that a timer started has done all it can; default: one iteration of the event
   *   loop
   */
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

  /** The number of waits. */
  get timerCount(): number {
    return this.#waiting.size;
  }

  /** Let time pass: fire timers in the order in which they are due, each after the work of the one before. */
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

  /** Set the wall clock; the duration of waits does not change. */
  jump(byMs: number): void {
    this.#base += byMs;
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting) if (!next || waiting.at < next.at) next = waiting;
    return next;
  }
}

/** One iteration of the event loop: every promise that can settle has settled. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
