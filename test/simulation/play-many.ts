import { type Outcome, playHistory } from "./history.ts";
import type { Staging } from "./world.ts";

/**
 * Play one history after another until one is broken: that one is given back, played again with all there is to know
 * of it.
 */
export async function playMany(
  from: number,
  count: number,
  staging: Staging = {},
  onPlayed: (outcome: Outcome) => void = () => {},
): Promise<Outcome | undefined> {
  for (let seed = from; seed < from + count; seed++) {
    const outcome = await withoutStacks(() => playHistory(seed, staging));
    onPlayed(outcome);
    if (outcome.broken !== undefined) return await playHistory(seed, staging);
    // Whoever waits for the real world gets a turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return undefined;
}

/** Where errors were made costs a tenth of the time, and nobody looks. */
async function withoutStacks<T>(work: () => Promise<T>): Promise<T> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await work();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}
