import { describe, expect, test } from "vitest";
import { decide } from "../../../src/actors/floor/arbitration.ts";
import type { Claim } from "../../../src/actors/floor/claim.ts";
import type { Floor, FloorRules } from "../../../src/actors/floor/floor-claims.ts";
import { giveFront, letBeneath, letWait, settle } from "../../../src/actors/floor/rearrangement.ts";
import type { AgentEntry } from "../../../src/config/catalog/catalog.ts";
import { CAR, RESTRICTIONS } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { decideAlone } from "../../support/floors/decide-alone.ts";
import { checkStep, type Exploration, FloorExplorer, type Rules } from "../../support/floors/floor-explorer.ts";

/** Agents that mix all keys, at a few priorities. */
const MIXED = [
  { name: "plain20" },
  { name: "plain20q", when_blocked: "queue" },
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

/** The car with three sessions, and all keys with two: restrictions, a disabled agent and switches as events. */
const FLOORS: readonly (readonly [
  name: string,
  catalog: () => ReturnType<typeof makeCatalog>,
  options: Exploration,
])[] = [
  [
    "the car, three sessions",
    () => makeCatalog(CAR, { restrictions: RESTRICTIONS.slice(0, 1) }),
    { size: 3, disables: ["music_agent"] },
  ],
  [
    "the car, two sessions",
    () => makeCatalog(CAR, { restrictions: RESTRICTIONS }),
    { size: 2, disables: ["phone_agent", "music_agent"], switches: ["dialog_agent", "music_agent", "chime_agent"] },
  ],
  ...(
    [
      ["reject", "0ms", 32],
      ["newest", "0ms", 1],
      ["newest", "1s", 1],
    ] as const
  ).map(
    ([ties, resume_delay, max_paused]) =>
      [
        `all keys, ties ${ties}, resume_delay ${resume_delay}, limit ${max_paused}`,
        () => makeCatalog(MIXED, { restrictions: QUIET, policy: { ties, resume_delay, max_paused } }),
        { size: 2, disables: ["plain20", "duck20"], switches: ["duck20", "firm50", "crit10"] },
      ] as const,
  ),
];

describe("every reachable state of a small floor", () => {
  test.each(FLOORS)(
    "%s: every step satisfies the invariants",
    (_, catalog, options) => {
      const { states, steps } = new FloorExplorer(catalog(), options).explore(checkStep);
      expect(states).toBeGreaterThan(1_000);
      expect(steps).toBeGreaterThan(states);
    },
    300_000,
  );
});

describe("a catalogue without the new keys", () => {
  const plain = [
    { name: "m", priority: 20 },
    { name: "q", priority: 20, when_blocked: "queue" },
    { name: "w", priority: 30, resume: "manual" },
    { name: "n", priority: 80, interruptible: false },
    { name: "t", priority: 80, interruptible: false, preemption_threshold: 90 },
    { name: "p", priority: 90, interruptible: false, when_blocked: "queue" },
  ];

  test.each([
    ["reject", 32, 16, "0ms"],
    ["newest", 32, 16, "0ms"],
    ["reject", 1, 1, "0ms"],
    ["newest", 1, 1, "0ms"],
    ["reject", 32, 16, "1s"],
    ["newest", 32, 16, "1s"],
    ["newest", 1, 1, "1s"],
  ])(
    "a catalogue without the new keys decides in every state as if one session were heard at a time: ties %s, limits %i and %i, resume_delay %s",
    (ties, paused, queued, delay) => {
      const policy = { ties, max_paused: paused, max_queued: queued, resume_delay: delay };
      const catalog = makeCatalog(plain, { policy });
      let compared = 0;
      new FloorExplorer(catalog, { size: 3 }).explore((before, step, rules) => {
        checkStep(before, step, rules);
        expect(step.floor.ducked).toEqual([]);
        // A resume that has to wait, and a session that waits and asks again, have rules of their own.
        const isWaiting = before.queued.some(({ sessionId }) => sessionId === step.challenger?.sessionId);
        if (!step.challenger || step.challenger.waits === "paused" || isWaiting) return;
        const { outcome, reason, rule, holder } = step.decision!;
        const { by, ...alone } = decideAlone(before, step.challenger, rules);
        expect([{ outcome, reason, rule }, holder?.sessionId]).toEqual([alone, by?.sessionId]);
        compared += 1;
      });
      expect(compared).toBeGreaterThan(400);
    },
  );
});

describe("the checker", () => {
  /** The rules with other agents, as if a key did nothing. */
  const without = (rules: FloorRules, changes: (agent: AgentEntry) => Partial<AgentEntry>): FloorRules => ({
    ...rules,
    agents: new Map([...rules.agents].map(([id, agent]) => [id, { ...agent, ...changes(agent) }])),
  });
  const claims = (floor: Floor, change: (claim: Claim) => Partial<Claim>): Floor => {
    const each = <C extends Claim>(claim: C): C => ({ ...claim, ...change(claim) });
    const { holder, ducked, paused, queued } = floor;
    return {
      ...floor,
      holder: holder && each(holder),
      ducked: ducked.map(each),
      paused: paused.map(each),
      queued: queued.map(each),
    };
  };
  /** Three sessions meet on this floor in few states: a front, one beneath it that does not yield, and a challenger. */
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
  const PLANTED: readonly [fault: string, invariant: string, faulty: Partial<Rules>][] = [
    [
      "rules 5 to 8 that ask only the holder",
      "2′",
      { decide: (floor, challenger, rules) => decide({ ...floor, ducked: [] }, challenger, rules) },
    ],
    [
      "a session that starts beneath and leaves those that it replaces",
      "16",
      {
        letBeneath: (floor, claim, rules) =>
          letBeneath(
            floor,
            claim,
            without(rules, () => ({ replaces: [] })),
          ),
      },
    ],
    [
      "sound before silence",
      "3′",
      { giveFront: (...given) => ({ ...giveFront(...given), moves: giveFront(...given).moves.toReversed() }) },
    ],
    [
      "a challenger that alone decides",
      "2′",
      {
        decide: (...given) => {
          const decision = decide(...given);
          const isPassed = decision.outcome === "rejected" && decision.rule === 8;
          return isPassed ? { ...decision, outcome: "granted", reason: "preempted" } : decision;
        },
      },
    ],
    [
      "a silent session that does not come back beneath the holder",
      "10",
      {
        settle: (floor, ...given) => {
          if (!floor.holder) return settle(floor, ...given);
          const settled = settle({ ...floor, paused: [] }, ...given);
          return { ...settled, floor: { ...settled.floor, paused: [...settled.floor.paused, ...floor.paused] } };
        },
      },
    ],
    [
      "a waiting session that does not start beneath the holder",
      "10",
      {
        settle: (floor, rules, ...given) =>
          settle(
            floor,
            without(rules, ({ whenBlocked }) => ({ whenBlocked: whenBlocked.filter((way) => way !== "duck") })),
            ...given,
          ),
      },
    ],
    [
      "a session that comes back and silences one that does not yield",
      "2′",
      {
        settle: (floor, rules, ...given) => {
          const yielding = claims(floor, () => ({ interruptible: true }));
          const { floor: next, ...settled } = settle(yielding, rules, ...given);
          const known = ({ agentId }: Claim) => ({ interruptible: rules.agents.get(agentId)!.interruptible });
          return { ...settled, floor: claims(next, known) };
        },
      },
    ],
    [
      "critical sessions that count by rank alone",
      "11",
      { decide: (floor, { critical: _, ...challenger }, rules) => decide(floor, challenger, rules) },
    ],
    [
      "a restriction that does not apply to who is heard",
      "13",
      { settle: (floor, rules, ...given) => settle(floor, { ...rules, restrictions: [] }, ...given) },
    ],
    [
      "a session of a disabled agent that is woken",
      "17",
      {
        settle: (floor, rules, ...given) =>
          settle(
            floor,
            without(rules, () => ({ enabled: true })),
            ...given,
          ),
      },
    ],
    [
      "a wake that ends a session which asked later",
      "18",
      {
        settle: (floor, ...given) =>
          settle(
            claims(floor, ({ askedAt }) => ({ askedAt: -askedAt })),
            ...given,
          ),
      },
    ],
    [
      "a replaced session that stays",
      "16",
      {
        giveFront: (floor, claim, rules) =>
          giveFront(
            floor,
            claim,
            without(rules, () => ({ replaces: [] })),
          ),
      },
    ],
    [
      "a session that waits beside those that it replaces",
      "16",
      {
        letWait: (floor, claim, as, now, rules) =>
          letWait(
            floor,
            claim,
            as,
            now,
            without(rules, () => ({ replaces: [] })),
          ),
      },
    ],
    ["a floor that does not settle", "0", { settle: (floor) => ({ floor, moves: [], restricted: [] }) }],
  ];

  test.each(PLANTED)(
    "the checker finds %s, by invariant %s",
    (_, invariant, faulty) => {
      const small = ["a small floor", () => makeCatalog(SMALL), { size: 3 }] as const;
      const found: string[] = [];
      const isFound = [small, ...FLOORS].some(([, catalog, options], index) => {
        try {
          new FloorExplorer(catalog(), { ...options, size: index === 0 ? 3 : 2, faulty }).explore(checkStep);
        } catch (error) {
          found.push((error as Error).message);
        }
        return found.at(-1)?.startsWith(invariant) === true;
      });
      expect(isFound, found.join("; ")).toBe(true);
    },
    120_000,
  );
});
