/** Every reachable state of small floors, explored by `interlock prove`. */

import { afterEach, describe, expect, test, vi } from "vitest";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import { explore, variationsOf } from "../../../src/policy/exploration.ts";
import { CAR, RESTRICTIONS } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { type Faults, planted, withAgents, withContenders } from "../../support/floors/left-out-rules.ts";

const faulty = vi.hoisted(() => () => import("../../support/floors/left-out-rules.ts"));
vi.mock("../../../src/actors/floor/arbitration.ts", async (load) =>
  (await faulty()).withFaults("arbitration", await load()),
);
vi.mock("../../../src/actors/floor/rearrangement.ts", async (load) =>
  (await faulty()).withFaults("rearrangement", await load()),
);

/** Agents that mix all keys, at a few priorities. */
const MIXED = [
  { name: "plain20" },
  { name: "plain20q", when_blocked: "queue", idle_yields: true },
  { name: "firm20", interruptible: false, yields_to: ["firm20", "over20", "plain20q"] },
  { name: "duck20", when_preempted: "duck", when_blocked: ["duck", "queue"] },
  { name: "start20firm", when_preempted: "duck", when_blocked: "duck", interruptible: false },
  { name: "manual20", when_preempted: "duck", resume: "manual", when_blocked: ["queue", "duck"] },
  { name: "over20", beneath: { all: -14, over20: -2 }, when_preempted: "duck" },
  { name: "picky20", beneath: { duck20: -6, all: "pause" } },
  {
    name: "newest20",
    replaces: ["newest20", "plain20", "duck20"],
    when_preempted: "duck",
    when_blocked: ["duck", "queue"],
    beneath: { all: -1 },
  },
  { name: "over50duck", priority: 50, beneath: { all: -10 }, when_preempted: "duck", when_blocked: "duck" },
  { name: "firm50", priority: 50, interruptible: false, preemption_threshold: 80, beneath: { duck20: -3 } },
  { name: "beneath50", priority: 50, when_preempted: "duck", when_blocked: ["duck", "queue"] },
  {
    name: "replace50",
    priority: 50,
    replaces: ["plain20q", "over50duck", "firm50", "crit80"],
    beneath: { over20: -1 },
    when_blocked: "queue",
  },
  {
    name: "gone80",
    priority: 80,
    beneath: { all: -30 },
    when_preempted: "duck",
    interruptible: false,
    max_pause: "0ms",
  },
  { name: "crit80", priority: 80, critical: true },
  { name: "crit10", priority: 10, critical: true, beneath: { all: -5 } },
].map((agent) => ({ priority: 20, ...agent }));
const QUIET = [
  { name: "quiet", when: "quiet", allow: ["firm20", "over50duck", "duck20", "over20"] },
  { name: "finish", when: "finish", allow: ["crit10", "plain20q"], others: "finish" },
];

/** Three sessions meet here in few states: a front, one beneath it that does not yield, and a challenger. */
const SMALL = [
  { name: "over", priority: 50, beneath: { all: -10 } },
  {
    name: "firm",
    interruptible: false,
    when_preempted: "duck",
    when_blocked: "duck",
    replaces: ["firm"],
    beneath: { firm: -5 },
  },
  { name: "alone", priority: 80 },
];

/** Hours that let sessions finish, that pause them on one day, and that need a flag. */
const HOURS = [
  { name: "evening", between: "20:00-22:00", allow: ["alone"], others: "finish" },
  { name: "night", between: "22:00-07:00", days: ["sat"], allow: ["firm"] },
  { name: "meeting", days: ["tue"], when: "busy", allow: ["over", "alone"] },
];

type Floor = readonly [
  name: string,
  size: number,
  agents: object[],
  rest: Record<string, unknown>,
  disables?: readonly string[],
];
const FLOORS: readonly Floor[] = [
  ["a small floor, three sessions", 3, SMALL, {}],
  ["the car, two sessions", 2, CAR, { restrictions: RESTRICTIONS }, ["phone_agent", "music_agent"]],
  ["the car, three sessions", 3, CAR, {}],
  [
    "quiet hours, three sessions",
    3,
    [...SMALL, { name: "fire", priority: 90, critical: true }],
    { restrictions: HOURS },
  ],
  ...(
    [
      ["newest", "1s", 1],
      ["reject", "0ms", 32],
    ] as const
  ).map(([ties, resume_delay, max_paused]): Floor => {
    const name = `all keys, ties ${ties}, resume_delay ${resume_delay}, limit ${max_paused}`;
    return [name, 2, MIXED, { restrictions: QUIET, policy: { ties, resume_delay, max_paused } }];
  }),
];

function exploreFloor([, size, agents, rest, disables = []]: Floor) {
  const catalog = makeCatalog(agents as never, rest);
  return explore({ catalog, size, variations: { ...variationsOf(catalog), disables } });
}

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
      { arbitration: ({ decide }) => ({ decide: (floor, ...given) => decide({ ...floor, ducked: [] }, ...given) }) },
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
      {
        arbitration: ({ decide }) => ({
          decide: (...given) => {
            const decision = decide(...given);
            const isPassed = decision.outcome === "rejected" && decision.rule === 8;
            return isPassed ? { ...decision, outcome: "granted", reason: "preempted" } : decision;
          },
        }),
      },
    ],
    [
      "a turn that a reserved floor does not keep",
      "invariant 2:",
      "all keys, ties newest, resume_delay 1s, limit 1",
      {
        arbitration: ({ decide }) => ({
          decide: (floor, ...given) => {
            const decision = decide(floor, ...given);
            const isPassed = floor.reserved !== undefined && decision.rule === 8;
            return isPassed ? { ...decision, outcome: "granted", reason: "floor_free" } : decision;
          },
        }),
      },
    ],
    [
      "a session that is not critical and replaces a critical one",
      "invariant 11:",
      "the car, two sessions",
      {
        arbitration: ({ decide }) => ({ decide: (floor, ...given) => decide(withContenders(floor, plain), ...given) }),
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
      {
        rearrangement: ({ settle }) => ({
          settle: (floor, ...given) => {
            if (!floor.holder) return settle(floor, ...given);
            const settled = settle({ ...floor, paused: [] }, ...given);
            return { ...settled, floor: { ...settled.floor, paused: [...settled.floor.paused, ...floor.paused] } };
          },
        }),
      },
    ],
    [
      "a waiting session that does not start beneath the holder",
      "invariant 10:",
      "the car, two sessions",
      {
        rearrangement: ({ settle }) => ({
          settle: (floor, rules, ...given) => {
            const changed = withAgents(rules, ({ whenBlocked }) => ({
              whenBlocked: whenBlocked.filter((way) => way !== "duck"),
            }));
            return settle(floor, changed, ...given);
          },
        }),
      },
    ],
    [
      "a session that comes back and silences one that does not yield",
      "invariant 2:",
      "all keys, ties newest, resume_delay 1s, limit 1",
      {
        rearrangement: ({ settle }) => ({
          settle: (floor, rules, ...given) => {
            const yielding = withContenders(floor, (contender) => ({ ...contender, interruptible: true }));
            const { floor: next, ...settled } = settle(yielding, rules, ...given);
            const isYielding = (agentId: string) => rules.agents.get(agentId)!.interruptible;
            const asBefore = withContenders(next, (contender) => ({
              ...contender,
              interruptible: isYielding(contender.agentId),
            }));
            return { ...settled, floor: asBefore };
          },
        }),
      },
    ],
    [
      "critical sessions that count by rank alone",
      "invariant 11:",
      "the car, two sessions",
      {
        arbitration: ({ decide }) => ({
          decide: (floor, { critical: _, ...challenger }, rules) => decide(floor, challenger, rules),
        }),
      },
    ],
    [
      "a restriction that does not apply to who is heard",
      "invariant 13:",
      "the car, two sessions",
      {
        rearrangement: ({ settle }) => ({
          settle: (floor, rules, ...given) => settle(floor, { ...rules, restrictions: [] }, ...given),
        }),
      },
    ],
    [
      "a wake that ends a session which asked later",
      "invariant 16:",
      "all keys, ties newest, resume_delay 1s, limit 1",
      {
        rearrangement: ({ settle }) => ({
          settle: (floor, ...given) => {
            const reversed = withContenders(floor, (contender) => ({ ...contender, askedAt: -contender.askedAt }));
            return settle(reversed, ...given);
          },
        }),
      },
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
    [
      "a floor that does not settle",
      "invariant 9:",
      "a small floor, three sessions",
      { rearrangement: () => ({ settle: (floor) => ({ floor, moves: [], restricted: [] }) }) },
    ],
  ])("%s: %s", (_, wanted, name, fault) => {
    planted.fault = fault;
    const floor = FLOORS.find(([each]) => each === name)!;
    expect(exploreFloor(floor).violations[0]?.what).toMatch(new RegExp(`^${wanted}`));
  });
});
