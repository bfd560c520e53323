import { describe, expect, test } from "vitest";
import type { Outcome } from "./history.ts";
import { PLANTED } from "./planted.ts";
import { playMany, report } from "./play-many.ts";

/**
 * A planted fault is found within this many histories of its theme; `simulation.test.ts` finds none in as many without
 * it.
 */
const ENOUGH = 50;

/** Play the history that found it before, and all others only if that one does not any more. */
async function find({ foundBy = 1, ...staging }: (typeof PLANTED)[string]): Promise<Outcome | undefined> {
  return (await playMany(foundBy, 1, staging)) ?? (await playMany(1, ENOUGH, staging));
}

describe("the simulation", () => {
  test.each(Object.entries(PLANTED))("the simulation finds a system that %s", async (_, staging) => {
    const found = await find(staging);
    expect(found?.broken).toBeDefined();
  });
});

describe("a history that fails", () => {
  test("a failed history reports its seed, its last steps, and how to repeat it", async () => {
    const found = await find(PLANTED["keeps no receipts"]!);
    const printed = report(found!, 5);
    expect(printed).toMatch(new RegExp(`^history ${found!.seed} is broken: .* left no receipt\\n`));
    expect(printed.split("\n")).toHaveLength(7);
    expect(printed.split("\n").at(-2)).toMatch(/^ +\d+\.\d{3} {2}!!! +.* left no receipt$/);
    expect(printed.split("\n").at(-1)).toBe(
      `play it again: npm run test:simulation -- --seed ${found!.seed} --theme busy`,
    );
  });
});
