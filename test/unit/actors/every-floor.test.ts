import { describe, expect, test } from "vitest";
import { decide, successor } from "../../../src/actors/floor/arbitration.ts";
import { closeRanks, giveFront } from "../../../src/actors/floor/rearrangement.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import { CAR, RESTRICTIONS } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { decideAlone } from "../../support/floors/decide-alone.ts";
import { checkStep, type Faulty, FloorExplorer } from "../../support/floors/floor-explorer.ts";

/** Agents that mix all keys, at a few priorities. */
const MIXED = [
  { name: "plain20" },
  { name: "plain20q", when_blocked: "queue" },
  { name: "firm20", interruptible: false },
  { name: "duck20", when_preempted: "duck" },
  { name: "duck20firm", when_preempted: "duck", interruptible: false },
  { name: "start20firm", when_preempted: "duck", when_blocked: "duck", interruptible: false },
  { name: "manual20", when_preempted: "duck", resume: "manual" },
  { name: "over20", beneath: { all: -14 }, when_preempted: "duck" },
  { name: "picky20", beneath: { duck20: -6, all: "pause" } },
  { name: "newest20", replaces: ["newest20", "plain20", "duck20"], when_preempted: "duck" },
  { name: "plain50", priority: 50 },
  { name: "over50", priority: 50, beneath: { all: -20 } },
  { name: "over50duck", priority: 50, beneath: { all: -10 }, when_preempted: "duck", when_blocked: "duck" },
  { name: "firm50", priority: 50, interruptible: false, preemption_threshold: 80, beneath: { duck20: -3 } },
  { name: "beneath50", priority: 50, when_preempted: "duck", when_blocked: "duck" },
  { name: "replace50", priority: 50, replaces: ["plain50", "over50", "firm50", "crit80"], beneath: { over20: -1 } },
  { name: "over80", priority: 80, beneath: { all: -30 }, when_preempted: "duck", interruptible: false },
  { name: "firm80", priority: 80, interruptible: false },
  { name: "crit80", priority: 80, critical: true },
  { name: "crit10", priority: 10, critical: true, beneath: { all: -5 } },
].map((agent) => ({ priority: 20, ...agent }));
const QUIET = [{ name: "quiet", when: "quiet", allow: ["firm20", "over50duck", "duck20", "over20"] }];

describe("every reachable state of a small floor", () => {
  test("every reachable state of the car's floor, with restrictions and four sessions, satisfies the invariants", () => {
    const { states, steps } = new FloorExplorer(makeCatalog(CAR, { restrictions: RESTRICTIONS }), 4).explore(checkStep);
    expect(states).toBeGreaterThan(300);
    expect(steps).toBeGreaterThan(states);
  });

  test.each([
    ["reject", "0ms", 32],
    ["newest", "0ms", 1],
    ["reject", "1s", 32],
    ["newest", "1s", 1],
  ])(
    "every reachable state of a floor of agents that combine all keys satisfies the invariants: ties %s, resume_delay %s, limit %i",
    (ties, delay, paused) => {
      const catalog = makeCatalog(MIXED, {
        restrictions: QUIET,
        policy: { ties, resume_delay: delay, max_paused: paused },
      });
      const { states } = new FloorExplorer(catalog, 3).explore(checkStep);
      expect(states).toBeGreaterThan(1_000);
    },
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
      new FloorExplorer(catalog, 4).explore((before, step, rules) => {
        checkStep(before, step, rules);
        expect(step.floor.ducked).toEqual([]);
        if (!step.challenger) return;
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
  const ungranted = (decision: Decision) => decision.outcome === "rejected";
  const PLANTED: [fault: string, invariant: string, faulty: Faulty][] = [
    [
      "sound before silence",
      "3′",
      { giveFront: (...given) => ({ ...giveFront(...given), moves: giveFront(...given).moves.toReversed() }) },
    ],
    [
      "a challenger that alone decides",
      "2′",
      {
        decide: (floor, challenger, rules) => {
          const decision = decide(floor, challenger, rules);
          return ungranted(decision) && decision.rule === 8
            ? { ...decision, outcome: "granted", reason: "preempted" }
            : decision;
        },
      },
    ],
    [
      "paused sessions that do not come back beneath the holder",
      "10",
      {
        closeRanks: (before, floor, rules) => {
          const { floor: arranged, moves } = closeRanks(before, { ...floor, paused: [] }, rules);
          return { floor: { ...arranged, paused: floor.paused }, moves };
        },
      },
    ],
    [
      "a session that comes back and silences another",
      "9",
      {
        closeRanks: (before, floor, rules) => {
          const back = floor.holder && floor.paused.find(({ ducks }) => ducks);
          if (!back) return closeRanks(before, floor, rules);
          const ducked = [...floor.ducked, { ...back, level: 0 }];
          const paused = floor.paused.filter((claim) => claim !== back);
          return { floor: { ...floor, ducked, paused }, moves: [{ becomes: "ducked", claim: back, level: 0 }] };
        },
      },
    ],
    [
      "critical sessions that count by rank alone",
      "11",
      { decide: (floor, { critical: _, ...challenger }, rules) => decide(floor, challenger, rules) },
    ],
    [
      "a critical session that is made quieter",
      "11",
      {
        giveFront: (...given) => {
          const { floor, moves } = giveFront(...given);
          return {
            floor: { ...floor, ducked: floor.ducked.map((each) => (each.critical ? { ...each, level: -5 } : each)) },
            moves,
          };
        },
      },
    ],
    [
      "a wake past a restriction",
      "13",
      { successor: (floor, rules) => successor(floor, { ...rules, restrictions: [] }) },
    ],
    [
      "a wake past one that does not yield",
      "2′",
      {
        successor: (floor, rules) => {
          const { claim, reason } = successor(floor, rules) ?? {};
          if (!claim || !reason) return undefined;
          // Its `beneath` does not count: every other session is treated as letting it be heard.
          const yielding = { ...floor, ducked: floor.ducked.map((each) => ({ ...each, interruptible: true })) };
          return successor(yielding, rules);
        },
      },
    ],
    [
      "rules 5 to 8 that ask only the holder",
      "2′",
      { decide: (floor, challenger, rules) => decide({ ...floor, ducked: [] }, challenger, rules) },
    ],
    [
      "a replaced session that stays",
      "16",
      {
        giveFront: (floor, claim, rules) => {
          const agents = new Map([...rules.agents].map(([id, agent]) => [id, { ...agent, replaces: [] }]));
          return giveFront(floor, claim, { ...rules, agents });
        },
      },
    ],
  ];

  test.each(PLANTED)("the checker finds %s, by invariant %s", (_, invariant, faulty) => {
    const catalogs = [
      [makeCatalog(CAR, { restrictions: RESTRICTIONS }), 4],
      [makeCatalog(MIXED, { restrictions: QUIET }), 3],
    ] as const;
    const found = catalogs.flatMap(([catalog, size]) => {
      try {
        new FloorExplorer(catalog, size, faulty).explore(checkStep);
        return [];
      } catch (error) {
        return [(error as Error).message];
      }
    });
    expect(found.length).toBeGreaterThan(0);
    expect(
      found.some((message) => message.startsWith(invariant)),
      found.join("; "),
    ).toBe(true);
  });
});
