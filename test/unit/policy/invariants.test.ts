/** What `interlock prove` says of a refusal, and what it must not miss. */
import { expect, test } from "vitest";
import type { Floor } from "../../../src/actors/floor/floor-state.ts";
import { EXPLORED_FROM, firstFloor } from "../../../src/policy/exploration.ts";
import { HourCombinations } from "../../../src/policy/hour-combinations.ts";
import { checkInvariants } from "../../../src/policy/invariants.ts";
import { type ExploredMove, makeMove } from "../../../src/policy/moves.ts";
import type { SeenStep } from "../../../src/policy/seen-step.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const catalog = makeCatalog(
  [
    { name: "low", priority: 10, when_preempted: "duck", when_blocked: "duck" },
    { name: "crit", priority: 80, critical: true, beneath: { all: -30 } },
  ],
  { priority_rules: [{ name: "lift", when: "lift", agents: ["low"], adjust: 70 }] },
);

/** Heard beneath a critical session and before another, a session is refused once its flag is off. */
function refused(): SeenStep {
  const moves: ExploredMove[] = [
    { does: "asks", agentId: "crit", sessionId: "crit" },
    { does: "set", flag: "lift" },
    { does: "asks", agentId: "low", sessionId: "low" },
    { does: "asks", agentId: "crit", sessionId: "crit-2" },
    { does: "clear", flag: "lift" },
    { does: "resumes", sessionId: "low" },
  ];
  const hours = new HourCombinations(catalog, EXPLORED_FROM);
  let floor = firstFloor(catalog);
  let step: SeenStep | undefined;
  for (const move of moves) {
    step = makeMove(floor, move, hours);
    floor = step.after;
  }
  return step!;
}

test("a refused session goes behind those that are above its new priority, and nobody else moves", () => {
  const step = refused();
  const ranked = ({ context }: SeenStep["after"]) =>
    context.floor.ducked.map((each) => [each.sessionId, each.priority]);
  expect(step.decisions.map(({ outcome }) => outcome)).toEqual(["rejected"]);
  expect(ranked(step.before)).toEqual([
    ["low", 80],
    ["crit-2", 80],
  ]);
  expect(ranked(step.after)).toEqual([
    ["crit-2", 80],
    ["low", 10],
  ]);
  expect(() => checkInvariants(step)).not.toThrow();
});

test.each<[what: string, change: (floor: Floor) => Floor]>([
  ["another is quieter", withDucked("crit-2", { level: -5 })],
  ["another has other numbers", withDucked("crit-2", { priority: 81 })],
  ["it is quieter itself", withDucked("low", { level: -40 })],
  ["it is silent", (floor) => ({ ...floor, ducked: floor.ducked.slice(0, 1), paused: floor.ducked.slice(1) })],
  ["the front changes", (floor) => ({ ...floor, holder: undefined, paused: [floor.holder!] })],
])("a refusal after which %s breaks invariant 6", (_, change) => {
  const step = refused();
  expect(() => checkInvariants({ ...step, after: step.after.copy({ floor: change }) })).toThrow("6: low is refused");
});

function withDucked(id: string, change: object): (floor: Floor) => Floor {
  return (floor) => ({
    ...floor,
    ducked: floor.ducked.map((each) => (each.sessionId === id ? { ...each, ...change } : each)),
  });
}

/** `kept` is heard with `other` beneath it, which it tops; then `asker` comes, which lets both be heard. */
function silenced(yields_to: string[]): SeenStep {
  const duck = { priority: 50, when_preempted: "duck" };
  const agents = [
    {
      ...duck,
      name: "kept",
      priority: 20,
      interruptible: false,
      beneath: { all: -10 },
      when_blocked: "queue",
      yields_to,
    },
    { ...duck, name: "other", when_blocked: "duck" },
    { ...duck, name: "asker", beneath: { all: -10 } },
  ];
  const own = makeCatalog(agents, { policy: { resume_delay: "0ms" } });
  const hours = new HourCombinations(own, EXPLORED_FROM);
  return ["kept", "other", "asker"].reduce<SeenStep | undefined>((last, name) => {
    const move: ExploredMove = { does: "asks", agentId: name as never, sessionId: name as never };
    return makeMove(last?.after ?? firstFloor(own), move, hours);
  }, undefined)!;
}

test("a challenger to which a session yields may silence it by what it leaves above it", () => {
  const step = silenced(["asker"]);
  expect(step.transitions.map(({ sessionId, event }) => `${sessionId} ${event}`)).toContain("kept preempt");
  expect(() => checkInvariants(step)).not.toThrow();
});

test("a challenger to which a protected session does not yield silences it in no way", () => {
  const step = silenced([]);
  expect(step.transitions.filter(({ sessionId }) => sessionId === "kept")).toEqual([]);
  expect(() => checkInvariants(step)).not.toThrow();
});
