import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type * as Arbitration from "../../../src/actors/floor/arbitration.ts";
import type { Contender } from "../../../src/actors/floor/contender.ts";
import type * as Grants from "../../../src/actors/floor/grants.ts";
import type * as Rearrangement from "../../../src/actors/floor/rearrangement.ts";
import { matrixText } from "../../../src/cli/check/matrix-text.ts";
import { proveCatalog } from "../../../src/cli/prove.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { loadCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { explore, variationsOf } from "../../../src/policy/exploration.ts";
import { prove, scriptOf } from "../../../src/policy/proof.ts";
import { readScript } from "../../../src/policy/script.ts";
import { play } from "../../../src/policy/simulation.ts";
import { carCatalog } from "../../support/catalogs/car-catalog.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";

/** Functions of the rules in place of the real ones, for the tools and the server alike. */
const planted = vi.hoisted(() => ({ rules: {} as Record<string, unknown> }));
const wrapped = vi.hoisted(() => async (original: () => Promise<object>, ...names: string[]) => {
  const real = (await original()) as Record<string, (...given: unknown[]) => unknown>;
  const wrap = (name: string) => [
    name,
    (...given: unknown[]) => {
      const fault = planted.rules[name] as ((real: unknown, ...rest: unknown[]) => unknown) | undefined;
      return fault ? fault(real[name], ...given) : real[name]!(...given);
    },
  ];
  return { ...real, ...Object.fromEntries(names.map(wrap)) };
});
vi.mock("../../../src/actors/floor/arbitration.ts", (original) => wrapped(original as never, "decide"));
vi.mock("../../../src/actors/floor/rearrangement.ts", (original) =>
  wrapped(original as never, "giveFront", "letBeneath", "letWait", "settle"),
);
vi.mock("../../../src/actors/floor/grants.ts", (original) => wrapped(original as never, "forget"));

afterEach(() => {
  planted.rules = {};
});

type Decide = typeof Arbitration.decide;
type GiveFront = typeof Rearrangement.giveFront;
type Settle = typeof Rearrangement.settle;
type Forget = typeof Grants.forget;

/** A session that leaves the floor while it is paused stays in the list of those that come back. */
const keepsPaused = (pausedBy: "user" | "yield") => (forget: Forget, step: Parameters<Forget>[0], id: never) => {
  const { holder, ducked } = step.floor;
  const claim = [holder, ...ducked].find((each) => each?.sessionId === id) as Contender | undefined;
  forget(step, id);
  const context = step.sessionOf(id);
  if (!claim || context?.pausedBy !== pausedBy || context.archivedAt !== undefined) return;
  step.floor = { ...step.floor, paused: [claim, ...step.floor.paused] };
};

const AGENTS = [
  { name: "music", priority: 20, when_preempted: "duck", adapter: { kind: "external" }, lease: "5s" },
  { name: "call", priority: 90, interruptible: false },
  { name: "chime", priority: 95, critical: true, beneath: { all: -6 } },
];

/** Rules in which the front is given by other moves. */
const giving = (change: (moves: ReturnType<GiveFront>["moves"]) => ReturnType<GiveFront>["moves"]) => ({
  giveFront: (giveFront: GiveFront, ...given: Parameters<GiveFront>) => {
    const { floor, moves } = giveFront(...given);
    return { floor, moves: change(moves) };
  },
});

const pausesNobody = giving((moves) => moves.filter(({ becomes }) => becomes !== "paused"));
const soundsFirst = giving((moves) => moves.toReversed());

const letsEqualsThrough = {
  decide: (decide: Decide, ...given: Parameters<Decide>) => {
    const decision = decide(...given);
    return decision.reason === "equal_priority" ? { ...decision, outcome: "granted", reason: "preempted" } : decision;
  },
};

const ignoresFirmness = {
  decide: (decide: Decide, ...given: Parameters<Decide>) => {
    const decision = decide(...given);
    return decision.rule === 8 ? { ...decision, outcome: "granted", reason: "preempted" } : decision;
  },
};

/** The front is given as if no session were critical, so that the holder is paused and not ducked at 0. */
const silencesCritical = {
  giveFront: (giveFront: GiveFront, floor: Parameters<GiveFront>[0], ...given: unknown[]) => {
    const { critical: _, ...holder } = floor.holder ?? {};
    const plain = floor.holder ? { ...floor, holder } : floor;
    return (giveFront as (...all: unknown[]) => unknown)(plain, ...given);
  },
};

const ducksCritical = {
  settle: (settle: Settle, ...given: Parameters<Settle>) => {
    const { floor, ...settled } = settle(...given);
    const ducked = floor.ducked.map((claim) => (claim.critical ? { ...claim, level: -6 } : claim));
    return { ...settled, floor: { ...floor, ducked } };
  },
};

const wakesDisabled = {
  settle: (settle: Settle, floor: Parameters<Settle>[0], rules: Parameters<Settle>[1], ...given: never[]) => {
    const agents = new Map([...rules.agents].map(([id, agent]) => [id, { ...agent, enabled: true }]));
    return (settle as (...all: unknown[]) => unknown)(floor, { ...rules, agents }, ...given);
  },
};

const PLANTED: readonly [fault: string, found: string, moves: number, rules: Record<string, unknown>][] = [
  ["an arbiter that forgets to pause the holder", "invariant 1:", 2, pausesNobody],
  ["one that resumes a user-paused session", "invariant 4: its user paused", 2, { forget: keepsPaused("user") }],
  ["one that lets an equal priority through", "invariant rules 5 and 6:", 2, letsEqualsThrough],
  ["sound before silence", "invariant 1:", 2, soundsFirst],
  ["a critical agent that is ducked", "invariant 11:", 2, ducksCritical],
  ["a stale session that is woken", "invariant 14:", 2, { forget: keepsPaused("yield") }],
  ["a disabled agent that is woken", "invariant 17:", 4, wakesDisabled],
];

const proveAll = (catalog: Catalog, sessions = 2) => prove({ catalog, sessions, budgetMs: 0, now: () => 0 });

describe("prove", () => {
  test("finds nothing in the rules as they are, and says how much was explored", () => {
    const { rounds, violations } = proveAll(makeCatalog(AGENTS));
    expect(violations).toEqual([]);
    expect(rounds.map(({ scope, size, isComplete }) => [scope, size, isComplete])).toEqual([
      ["plain", 1, true],
      ["plain", 2, true],
      ["disables", 1, true],
      ["disables", 2, true],
    ]);
    expect(rounds.at(-1)!.states).toBeGreaterThan(100);
  });

  test.each(PLANTED)("finds %s (%s) with the shortest sequence", (_, found, length, rules) => {
    planted.rules = rules;
    const catalog = makeCatalog(AGENTS);
    const [violation] = proveAll(catalog).violations;
    expect(violation?.what).toMatch(new RegExp(`^${found}`));
    expect(violation!.moves).toHaveLength(length);
    const read = readScript(scriptOf(violation!, catalog));
    expect(read.ok).toBe(true);
  });

  test("explores the agents of the car with flags, for as long as it may", () => {
    const catalog = carCatalog();
    const { flags, hours } = variationsOf(catalog);
    let left = 300;
    const { states, violation } = explore({
      catalog,
      size: 2,
      variations: { flags, hours, disables: [] },
      isOver: () => --left < 0,
    });
    expect(violation).toBeUndefined();
    expect(states).toBeGreaterThan(300);
  });

  test.each([{ max_pause: "0ms" }, { resume_within: "0ms" }, { max_pause: "0ms", resume_within: "0ms" }])(
    "finds a silence that a deadline of 0 ms hides: %j",
    (keys) => {
      planted.rules = ignoresFirmness;
      const firm = { name: "prompt", priority: 80, interruptible: false, ...keys };
      const [violation] = proveAll(makeCatalog([firm, { name: "call", priority: 90 }])).violations;
      expect(violation?.what).toBe("invariant 2: prompt is not interruptible and is silenced");
      expect(violation?.moves).toHaveLength(2);
    },
  );

  test("finds a critical session that is paused and ends in the same step", () => {
    planted.rules = silencesCritical;
    const alarm = { name: "alarm", priority: 50, critical: true, max_pause: "0ms" };
    const [violation] = proveAll(makeCatalog([alarm, { name: "chime", priority: 90, critical: true }])).violations;
    expect(violation?.what).toBe("invariant 11: alarm is critical and is paused");
  });

  test("agents that nothing tells apart are explored once", () => {
    const twins = ["one", "two", "three"].map((name) => ({ name, priority: 20 }));
    const alone = [{ name: "one", priority: 20 }];
    const count = (agents: object[]) => proveAll(makeCatalog(agents as never), 1).rounds[0]!.states;
    expect(count(twins)).toBe(count(alone));
    const claims = [{ name: "x", never: { rejected: "two" } }];
    const named = prove({ catalog: makeCatalog(twins, { claims }), sessions: 1, budgetMs: 0, now: () => 0 });
    expect(named.rounds[0]!.states).toBeGreaterThan(count(alone));
  });
});

describe("the claims of a catalogue", () => {
  const agents = [
    { name: "call", priority: 90, interruptible: false },
    { name: "music", priority: 20, max_pause: "5m" },
    { name: "chat", priority: 10 },
    { name: "prompt", priority: 80 },
    { name: "stale", priority: 30, max_pause: "0ms" },
    { name: "quiz", priority: 31, resume_within: "0ms" },
  ];
  const broken = (claim: object, catalog = makeCatalog(agents, { claims: [{ name: "it", ...claim }] })) => {
    const [violation] = proveAll(catalog).violations;
    return violation && { what: violation.what, script: scriptOf(violation, catalog), catalog };
  };

  test("a claim that holds is not reported", () => {
    expect(broken({ never: { rejected: "call", while_heard: ["music", "chat"] } })).toBeUndefined();
    expect(broken({ never: { silenced: "prompt", by: ["chat", "music"] } })).toBeUndefined();
    expect(broken({ always: { after: "call ends", eventually: "prompt is heard" } })).toBeUndefined();
  });

  test.each([
    [{ never: { rejected: "call" } }, "call is rejected while call is heard (equal_priority)", 2],
    [{ never: { silenced: "prompt", by: ["chat", "call"] } }, "prompt is silenced by call", 2],
    // Each ends or gives up in the step that silences it.
    [{ never: { silenced: "stale", by: ["call"] } }, "stale is silenced by call", 2],
    [{ never: { silenced: "quiz", by: ["call"] } }, "quiz is silenced by call", 2],
    [{ always: { after: "call ends", eventually: "stale is heard" } }, "stale is not heard again after call ends", 3],
    // The music is archived after five minutes of a call.
    [{ always: { after: "call ends", eventually: "music is heard" } }, "music is not heard again after call ends", 4],
  ])("%j does not hold: %s", (claim, what, steps) => {
    const found = broken(claim)!;
    expect(found.what).toBe(`claim “it”: ${what}`);
    const read = readScript(found.script);
    if (!read.ok) throw new Error(JSON.stringify(read.faults));
    expect(read.script.steps).toHaveLength(steps);
    // The script plays what was found.
    const { events } = play(read, { catalog: found.catalog });
    const last = events.at(-1)!;
    expect(["arbitration", "session_transition"]).toContain(last.type);
  });

  test("hours that begin within the same hour of the clock are told apart", () => {
    const catalog = makeCatalog(agents, {
      claims: [{ name: "it", never: { rejected: "music", while_heard: "chat" } }],
      priority_rules: [
        { name: "quiet", agents: ["music"], between: "22:00-22:30", adjust: 5 },
        { name: "loud", agents: ["chat"], between: "22:30-22:45", adjust: 50 },
      ],
    });
    const found = broken({}, catalog);
    expect(found?.what).toBe("claim “it”: music is rejected while chat is heard (lower_priority)");
    expect(found?.script).toContain('clock: "22:30"');
  });

  test("no user's preferences apply, whatever the user is called", () => {
    const catalog = makeCatalog(agents, {
      claims: [{ name: "it", never: { rejected: "chat", while_heard: "music" } }],
      user_preferences: { driver: { agent_priority_overrides: { chat: 50 } } },
    });
    expect(broken({}, catalog)?.what).toBe("claim “it”: chat is rejected while music is heard (lower_priority)");
  });

  test("a claim that names no agent is a fault of the catalogue, with its place", async () => {
    const text = [
      "agents: [{ name: music }]",
      "claims:",
      "  - { name: a, never: { rejected: phone } }",
      "  - { name: b, always: { after: music stops, eventually: music is heard } }",
      "  - { name: c }",
    ].join("\n");
    const path = await writeTemporary("agents.yaml", text, onTestFinished);
    const reading = await loadCatalog(path);
    expect(!reading.ok && reading.faults.map(({ line, column, message }) => `${line}:${column} ${message}`)).toEqual([
      "3:35 there is no agent phone",
      '4:33 must be a sentence, as in phone_agent ends, not the text "music stops"',
      "5:5 must have never or always",
    ]);
  });
});

test("one changed rule changes check, simulate, prove and the server together", () => {
  const claims = [{ name: "quiet", never: { silenced: "music", by: "talk" } }];
  const catalog = makeCatalog(
    [
      { name: "music", priority: 20 },
      { name: "talk", priority: 20 },
    ],
    { claims },
  );
  const script = readScript("steps: [{ asks: music }, { asks: talk }]");
  if (!script.ok) throw new Error("the script has faults");
  const look = () => {
    const server = new FloorStage(catalog);
    server.create("music");
    return {
      check: JSON.parse(matrixText(catalog, "json")).pairs.find(
        (pair: { holder: string; challenger: string }) => pair.holder === "music" && pair.challenger === "talk",
      ).effect,
      simulate: play(script, { catalog }).events.findLast(({ type }) => type === "arbitration")?.data,
      prove: proveAll(catalog).violations.length,
      server: decisionOf(server.create("talk"))?.outcome,
    };
  };
  const refused = { check: "refused", simulate: { outcome: "rejected" }, prove: 0, server: "rejected" };
  expect(look()).toMatchObject(refused);
  planted.rules = letsEqualsThrough;
  const changed = look();
  expect(changed).toMatchObject({ check: "pauses", simulate: { outcome: "granted" }, server: "granted" });
  expect(changed.prove).toBeGreaterThan(0);
});

test("the command prints what was explored, what was not, and the shortest script", async () => {
  const text = `
agents:
  - { name: phone, priority: 90, interruptible: false }
  - { name: music, priority: 20 }
claims:
  - { name: music is never cut off, never: { silenced: music } }
  - { name: a call comes through, never: { rejected: phone, while_heard: music } }
`;
  const path = await writeTemporary("agents.yaml", text, onTestFinished);
  let printed = "";
  const out = {
    write(piece: string) {
      printed += piece;
    },
  };
  const code = await proveCatalog(path, out, { sessions: 2, seconds: 1, env: {}, progress: out });
  expect(code).toBe(1);
  expect(printed.replaceAll(path, "agents.yaml")).toMatchInlineSnapshot(`
    "Requests, ends, pauses, programs that die, deadlines
      1 session   every reachable state         5 states, 10 steps
      2 sessions  every reachable state         13 states, 51 steps
    The same, with one agent disabled and enabled
      1 session   every reachable state         15 states, 50 steps
      2 sessions  every reachable state         41 states, 217 steps
    Not explored: more than 2 sessions to the end, users with preferences, switches
    to another agent, turns (they act as requests, pauses and ends), and how long
    things take beyond the next deadline.

    Every invariant holds, and 1 claim.

    Does not hold: claim “music is never cut off”: music is silenced by phone
    # The shortest sequence: interlock simulate --config agents.yaml FILE
    title: "claim “music is never cut off”: music is silenced by phone"
    day: 2026-01-05
    steps:
      - { at: "12:00", asks: music }
      - { asks: phone }
    "
  `);
});
