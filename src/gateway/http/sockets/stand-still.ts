import type { Clock, Timer } from "../../../shared/ports/clock.ts";
import { every } from "../../../shared/waiting.ts";

/** How often the process shows that it runs, in ms. */
const BEAT_MS = 1_000;
/** A beat that is late by this much, in ms, was not delayed by work: the process was frozen, or the machine slept. */
const LATE_MS = 1_000;
/** How long requests from that time keep arriving afterwards: the event loop accepts one connection per iteration. */
const WAKING_MS = 2_000;

/**
 * Notices that the process stood still. The system accepts connections and bytes for a frozen process, so when it wakes
 * it gets requests whose clients gave up long ago.
 */
export class StandStill {
  readonly #clock: Clock;
  #beatAt: number;
  #wakingUntil = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beatAt = clock.now();
  }

  start(): void {
    this.#beatAt = this.#clock.now();
    this.#timer = every(this.#clock, BEAT_MS, () => {
      this.isWaking();
      this.#beatAt = this.#clock.now();
    });
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Whether requests that arrive now may have waited for a process that stood still. */
  isWaking(): boolean {
    const now = this.#clock.now();
    if (now - this.#beatAt > BEAT_MS + LATE_MS) this.#wakingUntil = now + WAKING_MS;
    return now < this.#wakingUntil;
  }
}

/**
 * Call after the event loop has polled all sockets once more: the end of a connection is read in the poll after that of
 * its last bytes.
 */
export const afterNextPoll = (then: () => void): void => void setImmediate(() => setImmediate(then));
