import type { Clock, Timer } from "../../../src/shared/ports/clock.ts";
import type { Logger } from "../../../src/shared/ports/logger.ts";
import { keepComparing } from "../../../src/system/database-time.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import type { DatabaseClock } from "../services/database-clock.ts";
import type { Life } from "./life.ts";
import type { Seams } from "./seams.ts";

/** The interval at which a process compares its clock with the database's, in ms. */
const COMPARE_MS = 1_000;
/** Readings of the database's clock per comparison: the one with the shortest round trip counts. */
const READINGS = 3;

export interface NodeTimeOptions {
  life: Life;
  database: DatabaseClock;
  databaseTime: Seams["databaseTime"];
  log: Logger;
}

/** The clock of one process that follows the database's, assembled as in the composition root. */
export class NodeTime {
  readonly #options: NodeTimeOptions;
  #system: SystemClock | undefined;
  #stopComparing: () => void = () => {};
  #isStopped = false;
  #timer: Timer | undefined;
  /** The clock of the process's machine until the first comparison. */
  readonly clock: Clock;

  constructor(options: NodeTimeOptions) {
    this.#options = options;
    const own = options.life.clock;
    this.clock = {
      now: () => this.#system?.now() ?? own.now(),
      after: (delayMs, callback) => own.after(delayMs, callback),
    };
  }

  async start(): Promise<void> {
    const { life, databaseTime, log } = this.#options;
    const own = life.clock;
    const time = databaseTime(await this.#measure());
    const wall = () => own.now() + time.offsetMs;
    this.#system = new SystemClock({ wall, monotonic: () => own.now(), mayFall: true });
    this.#stopComparing = keepComparing(time, { measure: () => this.#measure(), clock: own, log });
    this.#keepFollowing(this.#system);
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopComparing();
    this.#timer?.cancel();
  }

  #keepFollowing(system: SystemClock): void {
    this.#timer = this.#options.life.clock.after(COMPARE_MS, () => {
      system.compare();
      if (!this.#isStopped) this.#keepFollowing(system);
    });
  }

  async #measure(): Promise<number> {
    const { life, database } = this.#options;
    let best = { offsetMs: 0, tripMs: Number.POSITIVE_INFINITY };
    for (let reading = 0; reading < READINGS; reading++) {
      const before = life.clock.now();
      const there = await database.read(life);
      const tripMs = life.clock.now() - before;
      if (tripMs < best.tripMs) best = { offsetMs: there - before - tripMs / 2, tripMs };
    }
    return best.offsetMs;
  }
}
