import type { Clock, Timer } from "./protocol/clock.ts";

/** A wall clock that differs by more than this from the time that has passed has jumped, in ms (rule C9). */
const JUMP_MS = 5_000;
/** How often the two are compared, in ms. */
const COMPARE_MS = 1_000;

export interface SystemClockOptions {
  /** ms since 1970; may jump. */
  wall?: () => number;
  /** ms since anything; never jumps. */
  monotonic?: () => number;
}

/**
 * The time of one process. It follows the wall clock but never goes back: a head unit boots in 1970 and learns the time
 * from GPS later. A jump forward is told, so that whoever waits for an instant can wait as long as before.
 */
export class SystemClock implements Clock {
  readonly #wall: () => number;
  readonly #monotonic: () => number;
  /** Time is `#base` plus what has passed since `#since`. */
  #base: number;
  #since: number;
  #comparing: NodeJS.Timeout | undefined;
  readonly #onJump: ((byMs: number) => void)[] = [];

  constructor({ wall = Date.now, monotonic = () => performance.now() }: SystemClockOptions = {}) {
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#base = wall();
    this.#since = monotonic();
  }

  now(): number {
    return Math.floor(this.#base + this.#monotonic() - this.#since);
  }

  after(delayMs: number, callback: () => void): Timer {
    const timeout = setTimeout(callback, delayMs);
    timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  }

  /** Time is at least this: a wall clock that is behind what is stored already is wrong. */
  startAt(instant: number): void {
    if (this.now() >= instant) return;
    this.#base = instant;
    this.#since = this.#monotonic();
  }

  /** Hear of jumps: what waits for an instant has to wait so many ms longer. */
  onJump(listener: (byMs: number) => void): void {
    this.#onJump.push(listener);
  }

  /** Compare with the wall clock now and each second. */
  start(): void {
    this.#comparing = setInterval(() => this.compare(), COMPARE_MS);
    this.#comparing.unref();
  }

  stop(): void {
    clearInterval(this.#comparing);
  }

  compare(): void {
    const aheadMs = this.#wall() - this.now();
    // A wall clock that is behind is waited for: time goes on as it passes.
    if (aheadMs <= 0) return;
    this.#base += aheadMs;
    if (aheadMs > JUMP_MS) for (const listener of this.#onJump) listener(Math.floor(aheadMs));
  }
}
