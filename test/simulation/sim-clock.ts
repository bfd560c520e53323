import type { Clock, Timer } from "../../src/shared/ports/clock.ts";
import { NOON } from "../support/stores/floor-writer.ts";

interface Entry {
  at: number;
  /** The order among timers that are due at the same time. */
  order: number;
  callback: (() => void) | undefined;
}

/**
 * The time of a simulated world. It jumps from one timer to the next; in between, every promise that can settle
 * settles.
 */
export class SimClock implements Clock {
  /** A binary heap: the next one first. */
  readonly #heap: Entry[] = [];
  #now = NOON;
  #order = 0;

  now(): number {
    return this.#now;
  }

  after(delayMs: number, callback: () => void): Timer {
    const entry: Entry = { at: this.#now + Math.max(0, Math.ceil(delayMs)), order: this.#order++, callback };
    this.#push(entry);
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
      const next = this.#heap[0];
      if (isOver() || !next || next.at > until) break;
      this.#pop();
      if (!next.callback) continue;
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await quiescence();
    }
    if (!isOver()) this.#now = Math.max(this.#now, until);
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(entry, heap[parent]!)) break;
      heap[index] = heap[parent]!;
      index = parent;
    }
    heap[index] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1;
      if (!isBefore(heap[child]!, last)) break;
      heap[index] = heap[child]!;
      index = child;
    }
    heap[index] = last;
  }
}

const isBefore = (one: Entry, other: Entry): boolean =>
  one.at < other.at || (one.at === other.at && one.order < other.order);

/** Ticks run when no promise is left to settle; no real time passes. */
const quiescence = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));
