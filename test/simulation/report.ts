import type { Outcome } from "./history.ts";

/** A readable report of a history: the violation, the last steps before it, and the command that repeats it. */
export function report({ seed, broken, world }: Outcome, lines = 120): string {
  const verdict = broken === undefined ? "holds" : `is broken: ${broken}`;
  return [
    `history ${seed} ${verdict}`,
    world.trace.last(lines),
    `play it again: npm run test:simulation -- --seed ${seed} --theme ${world.themeName}`,
  ].join("\n");
}
