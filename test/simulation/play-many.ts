import { type Outcome, playHistory } from "./history.ts";
import type { Staging } from "./world.ts";

/** Play histories one after another until one is broken. That one is played again with a full trace, and returned. */
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
    // Let the real event loop run.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return undefined;
}

/** Stack traces of errors take a tenth of the time, and are not used. */
async function withoutStacks<T>(work: () => Promise<T>): Promise<T> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await work();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** A readable report of a history: the violation, the last steps before it, and the command that repeats it. */
export function report({ seed, broken, world }: Outcome, lines = 120): string {
  const verdict = broken === undefined ? "holds" : `is broken: ${broken}`;
  return [
    `history ${seed} ${verdict}`,
    world.trace.last(lines),
    `play it again: npm run test:simulation -- --seed ${seed} --theme ${world.themeName}`,
  ].join("\n");
}
