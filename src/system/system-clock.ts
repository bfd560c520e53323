// Rule C9 of docs/inside/correctness.md.
import type { FloorClock, FloorTime } from "../shared/floor-time.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";

/** A wall clock that deviates by more than this from the elapsed time has jumped, in ms (rule C9). */
const JUMP_MS = 5_000;
/** A wall clock that is ahead by less was not set: it is read in whole ms, and a moment earlier or later, in ms. */
const ROUNDING_MS = 2;
/** The interval at which the two are compared, in ms. */
const COMPARE_MS = 1_000;

export interface SystemClockOptions {
  /** ms since 1970; may jump. Default: `Date.now`. */
  wall?: () => number;
  /** ms since an arbitrary start; never jumps. Default: `performance.now`. */
  monotonic?: () => number;
  /**
   * Whether time goes back when the wall clock falls by more than 5 s. Several nodes need this: a node that stayed
   * ahead would disagree with the others until its restart. Default: false, time never goes back.
   */
  mayFall?: boolean;
}

/**
 * The time of one process. It follows the wall clock but never goes back, except with `mayFall`. A head unit boots in
 * 1970 and learns the time from GPS later, so jumps forward are reported, and `elapsed` leaves them out.
 */
export class SystemClock implements Clock {
  readonly #wall: () => number;
  readonly #monotonic: () => number;
  readonly #mayFall: boolean;
  /** The time is `#base` plus the time elapsed since `#since`. */
  #base: number;
  #since: number;
  #jumpedMs = 0;
  #comparing: NodeJS.Timeout | undefined;
  readonly #onJump: ((byMs: number) => void)[] = [];

  constructor({ wall = Date.now, monotonic = () => performance.now(), mayFall = false }: SystemClockOptions = {}) {
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#mayFall = mayFall;
    this.#base = wall();
    this.#since = monotonic();
  }

  now(): number {
    return Math.floor(this.#base + this.#monotonic() - this.#since);
  }

  /** The sum of all jumps and corrections, with the jumps of earlier processes, in ms. Always 0 with `mayFall`. */
  get jumpedMs(): number {
    return this.#jumpedMs;
  }

  /** The time that only elapses: that of deadlines (rule C9). With `mayFall` it follows the wall clock nevertheless. */
  readonly elapsed: FloorClock = {
    now: () => (this.now() - this.#jumpedMs) as FloorTime,
    after: (delayMs, callback) => this.after(delayMs, callback),
  };

  /** The wall clock itself, which may go back: for instants that others set by theirs, such as the end of a token. */
  wallNow(): number {
    return Math.floor(this.#wall());
  }

  after(delayMs: number, callback: () => void): Timer {
    const timeout = setTimeout(callback, delayMs);
    timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  }

  /**
   * Advance the time to at least this instant: a wall clock behind the newest stored time is wrong.
   * @param jumpedMs the sum of the jumps of earlier processes
   */
  startAt(instant: number, jumpedMs = 0): void {
    this.#jumpedMs = Math.floor(jumpedMs);
    if (this.now() >= instant) return;
    this.#base = instant;
    this.#since = this.#monotonic();
  }

  /** Report jumps, in ms. */
  onJump(listener: (byMs: number) => void): void {
    this.#onJump.push(listener);
  }

  /** Compare with the wall clock every second. */
  start(): void {
    this.#comparing = setInterval(() => this.compare(), COMPARE_MS);
    this.#comparing.unref();
  }

  stop(): void {
    clearInterval(this.#comparing);
  }

  compare(): void {
    const aheadMs = Math.floor(this.#wall() - this.now());
    if (this.#mayFall && aheadMs < -JUMP_MS) this.#base += aheadMs;
    // Otherwise, time runs on until a wall clock that is behind has caught up.
    if (aheadMs < ROUNDING_MS) return;
    this.#base += aheadMs;
    if (!this.#mayFall) this.#jumpedMs += aheadMs;
    if (aheadMs > JUMP_MS) for (const listener of this.#onJump) listener(aheadMs);
  }
}
