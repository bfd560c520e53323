import type { Clock } from "../../shared/ports/clock.ts";
import { RecentMap } from "../../shared/recent-map.ts";

interface Window {
  current: number;
  begunAt: number;
}

/** The requests so far in a window, and how long it lasts from now, in ms. */
interface Counted {
  current: number;
  ttl: number;
}

type Answer = (error: Error | null, counted: Counted) => void;

/**
 * The counters of one process, as the library for limits asks for them. The library's own counters use the wall clock:
 * a window that begins before the clock is set back would last longer by that time.
 */
export class RequestWindows {
  readonly #stopwatch: Clock;
  readonly #limit: number;
  readonly #windows: RecentMap<string, Window>;

  /** @param limit the keys that are counted at a time; beyond it a key that was not counted lately is dropped */
  constructor(stopwatch: Clock, limit: number) {
    this.#stopwatch = stopwatch;
    this.#limit = limit;
    this.#windows = new RecentMap(limit);
  }

  /** Count a request. */
  incr(key: string, answer: Answer, windowMs: number): void {
    const window = this.#alive(key, windowMs) ?? { current: 0, begunAt: this.#stopwatch.now() };
    window.current += 1;
    this.#windows.set(key, window);
    answer(null, this.#counted(window, windowMs));
  }

  /** The same without counting. */
  read(key: string, answer: Answer, windowMs: number): void {
    const window = this.#alive(key, windowMs);
    answer(null, window ? this.#counted(window, windowMs) : { current: 0, ttl: 0 });
  }

  /** Counters for another limit. */
  child(): RequestWindows {
    return new RequestWindows(this.#stopwatch, this.#limit);
  }

  #alive(key: string, windowMs: number): Window | undefined {
    const window = this.#windows.get(key);
    return window && this.#stopwatch.now() - window.begunAt < windowMs ? window : undefined;
  }

  #counted({ current, begunAt }: Window, windowMs: number): Counted {
    return { current, ttl: windowMs - (this.#stopwatch.now() - begunAt) };
  }
}
