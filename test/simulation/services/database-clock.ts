import { AppError } from "../../../src/protocol/errors.ts";
import type { Chance } from "../../support/runner/chance.ts";
import type { Life } from "../nodes/life.ts";
import type { SimClock } from "../sim-clock.ts";

/** The delay of a query, and of its answer, in ms. */
const TRAVEL_MS = 4;

/** The time after an error within which each process has compared its clock again, even one that slept, in ms. */
const RIGHT_MS = 20_000;

export interface DatabaseClockOptions {
  clock: SimClock;
  chance: Chance;
  /** Whether all queries fail. */
  isAway: () => boolean;
}

/** The database's clock, which all nodes follow: the world's time, except for errors. */
export class DatabaseClock {
  readonly #options: DatabaseClockOptions;
  /** How far it is ahead of the true time, in ms; negative if it is behind. */
  #errorMs = 0;
  #mayErrAt = 0;

  constructor(options: DatabaseClockOptions) {
    this.#options = options;
  }

  now(): number {
    return this.#options.clock.now() + this.#errorMs;
  }

  get errs(): boolean {
    return this.#errorMs !== 0;
  }

  /** When the next error is allowed: two consecutive errors could confirm each other. */
  get mayErrAt(): number {
    return this.errs ? Number.POSITIVE_INFINITY : this.#mayErrAt;
  }

  err(errorMs: number): void {
    this.#errorMs = errorMs;
  }

  /** From now on it has the right time. */
  correct(): void {
    if (!this.errs) return;
    this.#errorMs = 0;
    this.#mayErrAt = this.#options.clock.now() + RIGHT_MS;
  }

  /** Read it from a process. */
  read(life: Life): Promise<number> {
    const { clock, chance, isAway } = this.#options;
    const travel = () => 1 + chance.below(TRAVEL_MS);
    return life.call((done, failed) => {
      clock.after(travel(), () => {
        const now = this.now();
        clock.after(travel(), () => {
          if (isAway()) failed(new AppError("unavailable"));
          else done(now);
        });
      });
    });
  }
}
