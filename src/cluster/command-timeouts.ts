import type { Clock, Timer } from "../shared/ports/clock.ts";

/** An instant in ms since 1970, and what to do when it passes. */
export interface CommandTimeout {
  readonly at: number;
  readonly onPassed: () => void;
  /** Its number in the order of addition. */
  readonly serial: number;
  /** Its index in the pending timeouts; -1 once it was removed or has passed. */
  index: number;
}

/**
 * Timeouts that rarely pass, such as those of commands, with one timer for all of them: starting and cancelling a
 * timer for each costs more than the rest of its bookkeeping. They come and go with each command, so they are not in a
 * `Set` (ADR 24).
 */
export class CommandTimeouts {
  readonly #clock: Clock;
  readonly #pending: CommandTimeout[] = [];
  #added = 0;
  #timer: Timer | undefined;
  /** The instant for which the timer is set. No pending timeout is earlier. */
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number of pending timeouts. */
  get size(): number {
    return this.#pending.length;
  }

  /** Call `onPassed` once the clock has reached `at`, unless the timeout is removed before. */
  add(at: number, onPassed: () => void): CommandTimeout {
    const timeout = { at, onPassed, serial: this.#added++, index: this.#pending.length };
    this.#pending.push(timeout);
    if (at < this.#timerAt) this.#setTimer(at);
    return timeout;
  }

  /**
   * The timer stays: it finds at its time that the timeout is gone.
   * @returns false if the timeout was not pending
   */
  remove(timeout: CommandTimeout): boolean {
    const { index } = timeout;
    if (index < 0) return false;
    const last = this.#pending.pop()!;
    if (last !== timeout) {
      this.#pending[index] = last;
      last.index = index;
    }
    timeout.index = -1;
    return true;
  }

  #setTimer(at: number): void {
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#callPassed());
  }

  #callPassed(): void {
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    const passed: CommandTimeout[] = [];
    for (const timeout of this.#pending) {
      if (timeout.at <= now) passed.push(timeout);
      else next = Math.min(next, timeout.at);
    }
    this.#timerAt = Number.POSITIVE_INFINITY;
    if (next !== Number.POSITIVE_INFINITY) this.#setTimer(next);
    passed.sort((one, other) => one.serial - other.serial);
    for (const timeout of passed) if (this.remove(timeout)) timeout.onPassed();
  }
}
