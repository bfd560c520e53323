import { AppError } from "../../../src/protocol/errors.ts";
import type { Life } from "../nodes/life.ts";
import type { Surroundings } from "../surroundings.ts";
import type { StoreWeather } from "./store-link.ts";

/** The delay of a query, and of its answer, in ms. */
const TRAVEL_MS = 4;

/** The time after an error within which each process has compared its clock again, even one that slept, in ms. */
const RIGHT_MS = 20_000;

/** The database's clock, which all nodes follow: the world's time, except for errors. */
export class DatabaseClock {
  readonly #world: Surroundings & { readonly storeWeather: StoreWeather };
  /** How far it is ahead of the true time, in ms; negative if it is behind. */
  #errorMs = 0;
  #mayErrAt = 0;

  constructor(world: Surroundings & { readonly storeWeather: StoreWeather }) {
    this.#world = world;
  }

  now(): number {
    return this.#world.clock.now() + this.#errorMs;
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
    this.#mayErrAt = this.#world.clock.now() + RIGHT_MS;
  }

  /** Read it from a process. */
  read(life: Life): Promise<number> {
    const { clock, chance } = this.#world;
    const travel = () => 1 + chance.below(TRAVEL_MS);
    return life.call((done, failed) => {
      clock.after(travel(), () => {
        const now = this.now();
        clock.after(travel(), () => {
          if (this.#world.storeWeather.isAway) failed(new AppError("unavailable"));
          else done(now);
        });
      });
    });
  }
}
