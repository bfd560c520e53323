/** What the key of an explored state leaves out changes nothing that a reader of the log sees. */
import { describe, expect, test } from "vitest";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import type { Floor } from "../../../src/actors/floor/floor-state.ts";
import type { Alteration } from "../../../src/actors/host/floor-actors.ts";
import type { SessionContext } from "../../../src/actors/session/session-context.ts";
import type { AgentEntry, Catalog } from "../../../src/config/catalog/catalog.ts";
import { EXPLORED_FROM, explore, firstFloor } from "../../../src/policy/exploration.ts";
import { HourCombinations } from "../../../src/policy/hour-combinations.ts";
import { makeMove, movesFrom } from "../../../src/policy/moves.ts";
import type { SeenStep } from "../../../src/policy/seen-step.ts";
import {
  AGENT_FIELDS,
  CONTENDER_FIELDS,
  RUN_FIELDS,
  SESSION_FIELDS,
  type Treatment,
} from "../../../src/policy/state-fields.ts";
import { stateKey } from "../../../src/policy/state-key.ts";
import type { SteppedFloor } from "../../../src/policy/stepped-floor.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";

const catalog = makeCatalog(
  [
    {
      name: "music",
      priority: 20,
      when_preempted: "duck",
      max_pause: "5s",
      lease: "2s",
      adapter: { kind: "external" },
    },
    { name: "call", priority: 90, interruptible: false, when_blocked: ["duck", "queue"], queue_timeout: "3s" },
    { name: "prompt", priority: 80, beneath: { all: -14 }, max_hold: "4s", resume_within: "2s", idle_timeout: "3s" },
    { name: "chime", priority: 95, critical: true, beneath: { all: -6 }, replaces: ["chime"] },
    { name: "story", priority: 30, when_blocked: "queue", resume: "manual", queue_timeout: "5s" },
  ],
  { restrictions: [{ name: "quiet", when: "quiet", allow: ["call"] }], policy: { resume_delay: "1s" } },
);

/** A random choice that is the same every time. */
function chooser(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * count);
  };
}

const isTimeToWait = 3;
const hours = new HourCombinations(catalog, EXPLORED_FROM);

/** Play a walk, which depends on the seed alone, and say what a reader sees. */
function walk(from: SteppedFloor, seed: number, steps: number): { floor: SteppedFloor; seen: string[] } {
  const next = chooser(seed);
  const seen: string[] = [];
  let floor = from;
  for (let count = 0; count < steps; count++) {
    const due = floor.nextDue();
    const pick = next(1_000);
    if (due !== undefined && pick % isTimeToWait === 0) {
      const step = makeMove(floor, { does: "wait" }, hours);
      seen.push(...linesOf(step));
      floor = step.after;
      continue;
    }
    const later = floor.time + (due === undefined ? 700 : Math.floor((due - floor.time) / 2));
    const all = movesFrom(floor, 4, () => [...catalog.agents.keys()], { flags: ["quiet"], hours: [], disables: [] });
    const moves = [...all];
    const step = makeMove(floor.at(later), moves[pick % moves.length]!, hours);
    seen.push(...linesOf(step));
    floor = step.after;
  }
  return { floor, seen };
}

const linesOf = ({ events }: SeenStep): string[] =>
  events.map((event) => {
    if (event.type === "decision") {
      const { outcome, reason, rule, challenger } = event.decision;
      return `${challenger.agentId} ${outcome} ${reason} ${rule} ${challenger.priority}`;
    }
    const { sessionId, from, to, reason, level, by } = event.transition;
    return `${sessionId} ${from} ${to} ${reason} ${level} ${by?.sessionId}`;
  });

/** Floors of random walks, and what a reader sees after each of them, or of a walk from the beginning. */
const WALKS = Array.from({ length: 30 }, (_, index) => {
  const seed = index + 1;
  const { floor } = walk(firstFloor(catalog), seed, 12);
  return {
    seed,
    floor,
    seen: walk(floor.copy(), seed + 1_000, 12).seen,
    whole: walk(firstFloor(catalog), seed, 24).seen,
  };
});

const ignoredIn = (fields: Readonly<Record<string, Treatment>>, ...also: Treatment[]) =>
  Object.keys(fields).filter((name) => {
    const treatment = fields[name]!;
    return (typeof treatment === "object" && "ignored" in treatment) || also.includes(treatment);
  });

function unlike(value: unknown): unknown {
  if (typeof value === "number") return value + 12_345;
  if (typeof value === "boolean") return !value;
  if (Array.isArray(value)) return [];
  return value === "another" ? "a third" : "another";
}

const changed = <T extends object>(owner: T, name: string, present = false): T =>
  present && (owner as Record<string, unknown>)[name] === undefined
    ? owner
    : { ...owner, [name]: unlike((owner as Record<string, unknown>)[name]) };

function alterations(): [string, Alteration][] {
  const session = (name: string, present: boolean): [string, Alteration] => [
    `${name} of a session`,
    { session: (context: SessionContext) => changed(context, name, present) },
  ];
  const contender = (name: string): [string, Alteration] => {
    const alter = <C extends Contender>(each: C) => changed(each, name, name === "queuedAt");
    const floor = ({ holder, ducked, paused, queued, ...rest }: Floor): Floor => ({
      ...rest,
      holder: holder && alter(holder),
      ducked: ducked.map(alter),
      paused: paused.map(alter),
      queued: queued.map(alter),
    });
    return [`${name} of a contender`, { floor, session: (each) => ({ ...each, numbers: alter(each.numbers) }) }];
  };
  const run = (name: string): [string, Alteration] => [
    `${name} of a run`,
    { session: (context) => ({ ...context, ...(context.run && { run: changed(context.run, name) }) }) },
  ];
  return [
    ...ignoredIn(SESSION_FIELDS).map((name) => session(name, false)),
    ...ignoredIn(SESSION_FIELDS, "presence")
      .filter((name) => SESSION_FIELDS[name as keyof SessionContext] === "presence")
      .map((name) => session(name, true)),
    ...ignoredIn(RUN_FIELDS).map(run),
    ...ignoredIn(CONTENDER_FIELDS).map(contender),
    [
      "until of the reservation",
      { floor: ({ reserved, ...rest }) => ({ ...rest, ...(reserved && { reserved: changed(reserved, "until") }) }) },
    ],
  ];
}

describe("nothing depends on what the key of a state leaves out:", () => {
  test.each(alterations())("%s", (_, alteration) => {
    for (const { seed, floor, seen } of WALKS) {
      expect(walk(floor.copy(alteration), seed + 1_000, 12).seen).toEqual(seen);
    }
  });

  test.each(ignoredIn(AGENT_FIELDS))("%s of an agent", (name) => {
    const change = (agent: AgentEntry) => {
      // The adapter keeps its shape, and external agents take no turns either way.
      if (name === "adapter") return { ...agent, adapter: catalog.agents.get("music")!.adapter };
      return name === "messages" ? { ...agent, messages: {} } : changed(agent, name);
    };
    const agents = new Map([...catalog.agents].map(([id, agent]) => [id, change(agent)]));
    const other: Catalog = { ...catalog, agents };
    for (const { seed, whole } of WALKS) expect(walk(firstFloor(other), seed, 24).seen).toEqual(whole);
  });
});

test("every moment of a floor is moved with the others", () => {
  for (const { seed, floor, seen } of WALKS) {
    const moved = floor.retimed(floor.time + 7_001, (moment) => moment + 7_001);
    expect(walk(moved, seed + 1_000, 12).seen).toEqual(seen);
  }
});

test("that a session with the floor has asked again is told by its place among all that asked", () => {
  const floor = firstFloor(catalog);
  floor.create("prompt", "prompt");
  floor.create("call", "call");
  floor.send({ type: "session.pause", sessionId: "call" as SessionId });
  const before = stateKey(floor, NOTHING_BESIDE).text;
  floor.send({ type: "session.resume", sessionId: "prompt" as SessionId });
  expect(stateKey(floor, NOTHING_BESIDE).text).not.toBe(before);
});

const NOTHING_BESIDE = {
  owed: () => "",
  owedToGone: "",
  inForce: "",
  classes: new Map<string, string>(),
  clocksOf: () => [],
};

test("a field without a word in the tables is a fault, and not forgotten", () => {
  const floor = firstFloor(catalog);
  floor.create("music", "music");
  expect(stateKey(floor, NOTHING_BESIDE).text).not.toBe("");
  const more = floor.copy({ session: (context) => ({ ...context, mood: "blue" }) });
  expect(() => stateKey(more, NOTHING_BESIDE)).toThrow("the key of a state has no word on the field mood");
});

test("agents that differ in a key that decisions read are no twins", () => {
  const states = (second: object) => {
    const agents = [
      { name: "one", priority: 20 },
      { name: "two", priority: 20, ...second },
    ];
    return explore({
      catalog: makeCatalog(agents as never),
      size: 1,
      variations: { flags: [], hours: [], disables: [] },
    }).states;
  };
  const alike = states({ description: "another", when_busy: "enqueue" });
  for (const key of [
    { after_turn: "yield" },
    { max_pause: "1s" },
    { when_blocked: "queue" },
    { resume: "manual" },
    { critical: true },
  ]) {
    expect(states(key)).toBeGreaterThan(alike);
  }
});
