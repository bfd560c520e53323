/** Every reachable state of small floors, explored by `interlock prove`. */

import { afterEach, describe, expect, test, vi } from "vitest";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import { exploreFloor, FLOORS, type Floor, LARGE_FLOORS } from "../../support/floors/explored-floors.ts";
import {
  decides,
  type Faults,
  planted,
  settles,
  UNSETTLED,
  withAgents,
  withContenders,
} from "../../support/floors/left-out-rules.ts";

const faulty = vi.hoisted(() => () => import("../../support/floors/left-out-rules.ts"));
vi.mock("../../../src/actors/floor/arbitration.ts", async (load) =>
  (await faulty()).withFaults("arbitration", await load()),
);
vi.mock("../../../src/actors/floor/rearrangement.ts", async (load) =>
  (await faulty()).withFaults("rearrangement", await load()),
);

afterEach(() => {
  planted.fault = undefined;
});

test.each(FLOORS)("every step from every reachable state keeps the invariants: %s", (...floor) => {
  const { violations, isComplete } = exploreFloor(floor as unknown as Floor);
  expect(violations).toEqual([]);
  expect(isComplete).toBe(true);
});

const plain = <C extends Contender>({ critical: _, ...contender }: C) => contender as unknown as C;
const noReplacing = (rules: Parameters<typeof withAgents>[0]) => withAgents(rules, () => ({ replaces: [] }));

describe("the exploration finds", () => {
  /** On the floor that shows the fault after the fewest steps. */
  test.each<[fault: string, found: string, floor: string, faults: Faults]>([
    [
      "rules 5 to 8 that ask only the holder",
      "invariant 2:",
      "a small floor, three sessions",
      decides((decide, floor, ...given) => decide({ ...floor, ducked: [] }, ...given)),
    ],
    [
      "a session that starts beneath and leaves those that it replaces",
      "the floor breaks:",
      "the car, three sessions",
      {
        rearrangement: ({ letBeneath }) => ({
          letBeneath: (floor, contender, rules) => letBeneath(floor, contender, noReplacing(rules)),
        }),
      },
    ],
    [
      "a challenger that alone decides",
      "invariant 2:",
      "a small floor, three sessions",
      decides((decide, ...given) => {
        const decision = decide(...given);
        const isPassed = decision.outcome === "rejected" && decision.rule === 8;
        return isPassed ? { ...decision, outcome: "granted", reason: "preempted" } : decision;
      }),
    ],
    [
      "a turn that a reserved floor does not keep",
      "invariant 2:",
      "a turn that is reserved, two sessions",
      decides((decide, floor, ...given) => {
        const decision = decide(floor, ...given);
        const isPassed = floor.reserved !== undefined && decision.rule === 8;
        return isPassed ? { ...decision, outcome: "granted", reason: "floor_free" } : decision;
      }),
    ],
    [
      "a session that is not critical and replaces a critical one",
      "invariant 11:",
      "the car, two sessions",
      {
        ...decides((decide, floor, ...given) => decide(withContenders(floor, plain), ...given)),
        rearrangement: ({ giveFront }) => ({
          giveFront: (floor, contender, rules) => {
            const { floor: next, moves } = giveFront(withContenders(floor, plain), contender, rules);
            const isCritical = (agentId: string) => rules.agents.get(agentId)!.critical;
            const asBefore = withContenders(next, (each) =>
              isCritical(each.agentId) ? { ...each, critical: true } : each,
            );
            return { floor: asBefore, moves };
          },
        }),
      },
    ],
    [
      "a silent session that does not come back beneath the holder",
      "invariant 10:",
      "the car, two sessions",
      settles((settle, floor, ...given) => {
        if (!floor.holder) return settle(floor, ...given);
        const settled = settle({ ...floor, paused: [] }, ...given);
        return { ...settled, floor: { ...settled.floor, paused: [...settled.floor.paused, ...floor.paused] } };
      }),
    ],
    [
      "a waiting session that does not start beneath the holder",
      "invariant 10:",
      "the car, two sessions",
      settles((settle, floor, rules, ...given) => {
        const changed = withAgents(rules, ({ whenBlocked }) => ({
          whenBlocked: whenBlocked.filter((way) => way !== "duck"),
        }));
        return settle(floor, changed, ...given);
      }),
    ],
    [
      "a session that comes back and silences one that does not yield",
      "invariant 2:",
      "what resumes after a second, two sessions",
      settles((settle, floor, rules, ...given) => {
        const yielding = withContenders(floor, (contender) => ({ ...contender, interruptible: true }));
        const { floor: next, ...settled } = settle(yielding, rules, ...given);
        const isYielding = (agentId: string) => rules.agents.get(agentId)!.interruptible;
        const asBefore = withContenders(next, (contender) => ({
          ...contender,
          interruptible: isYielding(contender.agentId),
        }));
        return { ...settled, floor: asBefore };
      }),
    ],
    [
      "critical sessions that count by rank alone",
      "invariant 11:",
      "the car, two sessions",
      decides((decide, floor, { critical: _, ...challenger }, rules) => decide(floor, challenger, rules)),
    ],
    [
      "a restriction that does not apply to who is heard",
      "invariant 13:",
      "the car, two sessions",
      settles((settle, floor, rules, ...given) => settle(floor, { ...rules, restrictions: [] }, ...given)),
    ],
    [
      "a wake that ends a session which asked later",
      "invariant 16:",
      "a rank that is replaced, two sessions",
      settles((settle, floor, ...given) => {
        const reversed = withContenders(floor, (contender) => ({ ...contender, askedAt: -contender.askedAt }));
        return settle(reversed, ...given);
      }),
    ],
    [
      "a replaced session that stays",
      "invariant 16:",
      "a small floor, three sessions",
      {
        rearrangement: ({ giveFront }) => ({
          giveFront: (floor, contender, rules) => giveFront(floor, contender, noReplacing(rules)),
        }),
      },
    ],
    ["a floor that does not settle", "invariant 9:", "a small floor, three sessions", UNSETTLED],
  ])("%s: %s", (_, wanted, name, fault) => {
    planted.fault = fault;
    const floor = [...FLOORS, ...LARGE_FLOORS].find(([each]) => each === name)!;
    expect(exploreFloor(floor).violations[0]?.what).toMatch(new RegExp(`^${wanted}`));
  });
});
