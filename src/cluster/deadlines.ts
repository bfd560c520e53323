import type { Clock, Timer } from "../protocol/ports/clock.ts";

/** An instant in ms since 1970, and what to do when it passes. */
export interface Deadline {
  readonly at: number;
  readonly onPassed: () => void;
}

/**
 * Deadlines that rarely pass, such as those of commands, with one timer for all of them: starting and cancelling a timer
 * for each costs more than the rest of its bookkeeping.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #pending = new Set<Deadline>();
  #timer: Timer | undefined;
  /** The instant for which the timer is set. No pending deadline is earlier. */
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Call `onPassed` once the clock has reached `at`, unless the deadline is removed before. */
  add(at: number, onPassed: () => void): Deadline {
    const deadline = { at, onPassed };
    this.#pending.add(deadline);
    if (at < this.#timerAt) this.#setTimer(at);
    return deadline;
  }

  /** The timer stays: it finds at its time that the deadline is gone. */
  remove(deadline: Deadline): void {
    this.#pending.delete(deadline);
  }

  #setTimer(at: number): void {
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#callPassed());
  }

  #callPassed(): void {
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    const passed: Deadline[] = [];
    for (const deadline of this.#pending) {
      if (deadline.at <= now) passed.push(deadline);
      else next = Math.min(next, deadline.at);
    }
    this.#timerAt = Number.POSITIVE_INFINITY;
    if (next !== Number.POSITIVE_INFINITY) this.#setTimer(next);
    for (const deadline of passed) if (this.#pending.delete(deadline)) deadline.onPassed();
  }
}
