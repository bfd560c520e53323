import { afterEach, describe, expect, test, vi } from "vitest";
import { LEFT_OUT, planted } from "../support/floors/left-out-rules.ts";
import type { Outcome } from "./history.ts";
import { PLANTED } from "./planted.ts";
import { playMany, report } from "./play-many.ts";

const faulty = vi.hoisted(() => () => import("../support/floors/left-out-rules.ts"));
vi.mock("../../src/actors/floor/arbitration.ts", async (load) =>
  (await faulty()).withFaults("arbitration", await load()),
);
vi.mock("../../src/actors/floor/rearrangement.ts", async (load) =>
  (await faulty()).withFaults("rearrangement", await load()),
);
vi.mock("../../src/actors/session/turns.ts", async (load) => (await faulty()).withFaults("turns", await load()));
vi.mock("../../src/actors/session/session-deadlines.ts", async (load) =>
  (await faulty()).withFaults("deadlines", await load()),
);

/**
 * The rules with a letter that are visible in a log whose catalogue stays as it is. `invariants.property.test.ts`
 * leaves out the others, too. With each, a history that finds it.
 */
const VISIBLE: [rule: keyof typeof LEFT_OUT, foundBy: number][] = [
  ["R: no session is replaced", 4],
  ["W: a blocked session does not wait", 1],
  ["Y: no session gives way by yields_to", 29],
  ["S: a floor does not settle", 1],
  ["H: no session is heard for too long", 1],
  ["H: those that are heard do not finish", 1],
  ["A: a turn that is not done does not give the floor back", 4],
];

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

  describe("a rule that is left out", () => {
    afterEach(() => {
      planted.fault = undefined;
    });

    test.each(VISIBLE)("the simulation finds a floor without a rule: %s", async (fault, foundBy) => {
      planted.fault = LEFT_OUT[fault];
      const found = await find({ theme: "together", foundBy });
      expect(found?.broken).toBeDefined();
    });
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
