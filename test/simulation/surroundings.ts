import type { Chance } from "../support/runner/chance.ts";
import type { SimClock } from "./sim-clock.ts";
import type { Trace } from "./trace.ts";

/** The parts of a world that all others use: its time, its random decisions and its trace. */
export interface Surroundings {
  readonly clock: SimClock;
  readonly chance: Chance;
  readonly trace: Trace;
}
