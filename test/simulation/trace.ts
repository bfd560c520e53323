import { createHash } from "node:crypto";
import type { Clock } from "../../src/shared/ports/clock.ts";

/** The trace of a history, line by line: the same seed writes the same lines. */
export class Trace {
  readonly #clock: Clock;
  readonly #beganAt: number;
  readonly #lines: [at: number, who: string, what: string | (() => string)][] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganAt = clock.now();
  }

  /** @param what formatted only if the trace is read */
  add(who: string, what: string | (() => string)): void {
    this.#lines.push([this.#clock.now() - this.#beganAt, who, what]);
  }

  /** The last lines, for a report. */
  last(count: number): string {
    return this.#lines
      .slice(-count)
      .map(([at, who, what]) => `${(at / 1_000).toFixed(3).padStart(9)}  ${who.padEnd(8)} ${wordsOf(what)}`)
      .join("\n");
  }

  hash(): string {
    const hash = createHash("sha256");
    for (const [at, who, what] of this.#lines) hash.update(`${at}\t${who}\t${wordsOf(what)}\n`);
    return hash.digest("hex");
  }
}

const wordsOf = (what: string | (() => string)): string => (typeof what === "string" ? what : what());
