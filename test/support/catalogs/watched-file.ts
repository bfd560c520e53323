import type { Clock, Timer } from "../../../src/shared/ports/clock.ts";

/** A line of the log. */
export interface Entry {
  level: string;
  facts: Record<string, unknown>;
  text: string;
}

/** A log whose entries a test can await; each entry is returned once. */
export class ReceivedLog {
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

  /**
   * Returns the next entry with this text, and skips those before it: a file that is written in place may be read
   * half-written.
   */
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

/** In real time; waits for later entries. */
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

export const STABLE_MS = 50;
export const POLL_MS = 2_000;

/** A clock that moves only when a test moves it. Changes are found by polling, not by file events. */
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

  /** Wait for a file event, and let the delay pass after which the file is read. */
  settle = () => this.#ring(STABLE_MS);

  /** Settle repeatedly, because an event may arrive between two reads. */
  async settleUntil<T>(heard: Promise<T>): Promise<T> {
    let isHeard = false;
    const end = heard.then(() => {
      isHeard = true;
    });
    for (;;) {
      await Promise.race([this.#until(STABLE_MS), end]);
      if (isHeard) return heard;
      await this.settle();
    }
  }

  /** Wait until the file was read and the next poll is scheduled. */
  looked = () => this.#until(STABLE_MS);

  setBack(): void {
    this.#now -= 3_600_000;
  }

  /** Let a poll's interval pass, and wait until the poll is done and the next one scheduled. */
  async poll(): Promise<void> {
    await this.#ring(POLL_MS);
    await this.#until(POLL_MS);
  }
}
