import type { Outcome } from "./history.ts";

/** A history for people: what broke, the last steps that led there, and how to see it again. */
export function report({ seed, broken, world }: Outcome, lines = 120): string {
  const verdict = broken === undefined ? "holds" : `is broken: ${broken}`;
  return [
    `history ${seed} ${verdict}`,
    world.trace.last(lines),
    `play it again: npm run test:simulation -- --seed ${seed} --theme ${world.themeName}`,
  ].join("\n");
}
