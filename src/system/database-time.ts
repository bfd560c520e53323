import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { every } from "../shared/waiting.ts";

/** A change of the offset by more than this is a jump, in ms (rule C9). */
const JUMP_MS = 5_000;
/** The pause between two comparisons, in ms. */
const PAUSE_MS = 10_000;

/**
 * The offset of the database's clock from this machine's, in ms; positive if the database is ahead. All nodes use the
 * database's time, so a momentary error of its clock would affect all of them: a jump is accepted only when the next
 * comparison confirms it.
 */
export class DatabaseTime {
  #offsetMs: number;
  #doubtedMs: number | undefined;

  /** `offsetMs`: the result of the first comparison. */
  constructor(offsetMs: number) {
    this.#offsetMs = offsetMs;
  }

  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Record another comparison; returns false while a jump is unconfirmed. */
  compare(offsetMs: number): boolean {
    const isKnown =
      isNear(offsetMs, this.#offsetMs) || (this.#doubtedMs !== undefined && isNear(offsetMs, this.#doubtedMs));
    this.#doubtedMs = isKnown ? undefined : offsetMs;
    if (isKnown) this.#offsetMs = offsetMs;
    return isKnown;
  }
}

const isNear = (one: number, other: number): boolean => Math.abs(one - other) <= JUMP_MS;

export interface ComparingOptions {
  /** Measure the offset; rejects when the database does not answer. */
  measure: () => Promise<number>;
  /** Measures elapsed time: it must not depend on the offset. */
  clock: Pick<Clock, "after">;
  log: Logger;
}

/**
 * Compare again and again; returns a function that stops it. The pause begins when a comparison has ended, because a
 * slow database could otherwise show the same momentary error to two comparisons.
 */
export function keepComparing(time: DatabaseTime, { measure, clock, log }: ComparingOptions): () => void {
  const comparing = every(clock, PAUSE_MS, async () => {
    try {
      const offsetMs = await measure();
      if (!time.compare(offsetMs))
        log.warn({ offsetMs }, "the database's clock jumped; the jump counts if the next comparison confirms it");
    } catch (error) {
      log.debug({ err: error }, "the database's time could not be read");
    }
  });
  return () => comparing.cancel();
}
