import type { Clock, Timer } from "../../src/shared/ports/clock.ts";
import { NOON } from "../support/stores/floor-writer.ts";

interface Entry {
  at: number;
  callback: (() => void) | undefined;
}

/**
 * The time of a simulated world. It jumps from one timer to the next; in between, every promise that can settle
 * settles.
 */
export class SimClock implements Clock {
  /** The next one last; of those that are due at the same time, the one that was set first. */
  readonly #entries: Entry[] = [];
  #now = NOON;

  now(): number {
    return this.#now;
  }

  after(delayMs: number, callback: () => void): Timer {
    const entry: Entry = { at: this.#now + Math.max(0, Math.ceil(delayMs)), callback };
    this.#entries.splice(this.#entries.findLastIndex(({ at }) => at > entry.at) + 1, 0, entry);
    return {
      cancel: () => {
        entry.callback = undefined;
      },
    };
  }

  /** Let time pass until a given time, or until it is over. */
  async runUntil(until: number, isOver: () => boolean): Promise<void> {
    await quiescence();
    for (;;) {
      const next = this.#entries.at(-1);
      if (isOver() || !next || next.at > until) break;
      this.#entries.pop();
      if (!next.callback) continue;
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await quiescence();
    }
    if (!isOver()) this.#now = Math.max(this.#now, until);
  }
}

/** Ticks run when no promise is left to settle; no real time passes. */
const quiescence = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));
