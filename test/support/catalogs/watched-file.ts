import type { Clock, Timer } from "../../../src/protocol/ports/clock.ts";

/** A line of the log. */
export interface Entry {
  level: string;
  facts: Record<string, unknown>;
  text: string;
}

/** A log that can be waited for: each entry is handed out once. */
export class HeardLog {
  readonly all: Entry[] = [];
  #unread: Entry[] = [];
  #wake: () => void = () => {};
  info = (facts: object, text: string) => this.#hear("info", facts, text);
  warn = (facts: object, text: string) => this.#hear("warn", facts, text);
  error = (facts: object, text: string) => this.#hear("error", facts, text);

  #hear(level: string, facts: object, text: string): void {
    const entry = { level, facts: { ...facts }, text };
    this.all.push(entry);
    this.#unread.push(entry);
    this.#wake();
  }

  /** Reads on to an entry of this text: a file that is written in place may be seen half written before. */
  async until(text: string): Promise<Entry> {
    for (;;) {
      const entry = await this.next();
      if (entry.text === text) return entry;
    }
  }

  async next(): Promise<Entry> {
    while (this.#unread.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#unread.shift()!;
  }
}

/** Real time; counts what is still to come. */
export class RealClock implements Clock {
  readonly pending = new Set<NodeJS.Timeout>();
  now = () => Date.now();
  after(delayMs: number, callback: () => void): Timer {
    const timeout = setTimeout(() => {
      this.pending.delete(timeout);
      callback();
    }, delayMs);
    this.pending.add(timeout);
    return {
      cancel: () => {
        this.pending.delete(timeout);
        clearTimeout(timeout);
      },
    };
  }
}

export const SETTLE_MS = 50;
export const POLL_MS = 2_000;

/** Time that passes when a test says so. What is seen without `settle` is seen by polling. */
export class HandClock implements Clock {
  #now = 1_000;
  readonly #timers = new Map<number, () => void>();
  #armed: () => void = () => {};
  now = () => this.#now;

  after(delayMs: number, callback: () => void): Timer {
    this.#timers.set(delayMs, callback);
    this.#armed();
    return { cancel: () => this.#timers.delete(delayMs) };
  }

  async #until(delayMs: number): Promise<void> {
    while (!this.#timers.has(delayMs)) {
      await new Promise<void>((resolve) => {
        this.#armed = resolve;
      });
    }
  }

  async #ring(delayMs: number): Promise<void> {
    await this.#until(delayMs);
    const callback = this.#timers.get(delayMs)!;
    this.#timers.delete(delayMs);
    this.#now += delayMs;
    callback();
  }

  /** Wait for an event, and let the time pass after which the file is looked at. */
  settle = () => this.#ring(SETTLE_MS);

  /** Settle as often as it takes: an event may come between two looks. */
  async settleUntil<T>(heard: Promise<T>): Promise<T> {
    let isHeard = false;
    const end = heard.then(() => {
      isHeard = true;
    });
    for (;;) {
      await Promise.race([this.#until(SETTLE_MS), end]);
      if (isHeard) return heard;
      await this.settle();
    }
  }

  /** Wait until the file was looked at and another look is due. */
  looked = () => this.#until(SETTLE_MS);

  setBack(): void {
    this.#now -= 3_600_000;
  }

  /** Let the time of a poll pass, and wait until it is done: the next one is set then. */
  async poll(): Promise<void> {
    await this.#ring(POLL_MS);
    await this.#until(POLL_MS);
  }
}
