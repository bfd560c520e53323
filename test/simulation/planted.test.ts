import { describe, expect, test } from "vitest";
import { PLANTED } from "./planted.ts";
import { playMany } from "./play-many.ts";
import { report } from "./report.ts";

/**
 * A planted fault is found within this many histories of its theme; `simulation.test.ts` finds none in more histories
 * without it.
 */
const ENOUGH = 200;

describe("the simulation", () => {
  test.each(Object.entries(PLANTED))("the simulation finds a system that %s", async (_, planted) => {
    const found = await playMany(1, ENOUGH, planted);
    expect(found?.broken).toBeDefined();
  });
});

describe("a history that fails", () => {
  test("a failed history reports its seed, its last steps, and how to repeat it", async () => {
    const found = await playMany(1, ENOUGH, PLANTED["keeps no receipts"]);
    const printed = report(found!, 5);
    expect(printed).toMatch(new RegExp(`^history ${found!.seed} is broken: .* left no receipt\\n`));
    expect(printed.split("\n")).toHaveLength(7);
    expect(printed.split("\n").at(-2)).toMatch(/^ +\d+\.\d{3} {2}!!! +.* left no receipt$/);
    expect(printed.split("\n").at(-1)).toBe(
      `play it again: npm run test:simulation -- --seed ${found!.seed} --theme busy`,
    );
  });
});
