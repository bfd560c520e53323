/**
 * The prover is tried: no random walk of a floor breaks, by the word of a judge that reads the log alone, what
 * `interlock prove` says holds, every story that it prints replays, and from two states that it counts as one the same
 * follows. `npm run test:prover` takes many catalogues, and `npm run test:prover -- --planted` shows that it finds
 * planted faults.
 */
import { readFile } from "node:fs/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { PolicyClaim } from "../../../src/config/catalog/policy-claims.ts";
import { explore } from "../../../src/policy/exploration.ts";
import { prove } from "../../../src/policy/proof.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import type { JudgedCatalog } from "../../support/policy/judged-catalog.ts";
import { type JudgedEvent, LogJudge } from "../../support/policy/log-judge.ts";
import { tryProver } from "../../support/policy/prover-trial.ts";
import { randomCatalog, toCatalog } from "../../support/policy/random-catalog.ts";
import { tryMoments, tryTurns } from "../../support/policy/steps-trial.ts";
import { Chance } from "../../support/runner/chance.ts";
import { PLANTED } from "./planted-faults.ts";

test.each([12, 14, 19, 45])(
  "no walk of random catalogue %i breaks what is said to hold, and every story replays",
  (seed) => {
    const { differences, steps, held } = tryProver(seed, { walks: 50, twinWalks: 20, needed: 2_000 });
    expect(differences).toEqual([]);
    expect([steps, held > 0]).toEqual([800, true]);
  },
);

test.each([11, 12, 14])(
  "of the claims of catalogue %i explored together the same break as of each alone, as early",
  (seed) => {
    const catalog = toCatalog(randomCatalog(new Chance(seed)));
    const brokenBy = (claims: readonly PolicyClaim[]) => {
      const variations = { flags: [], hours: [], disables: [] };
      const { violations, isComplete, states } = explore({ catalog, size: 2, variations, claims });
      expect(isComplete).toBe(true);
      return { states, found: violations.map(({ what, moves }) => `${what} after ${moves.length}`) };
    };
    const { states, found } = brokenBy(catalog.claims);
    const alone = catalog.claims.flatMap((claim) => brokenBy([claim]).found);
    expect(found.toSorted()).toEqual(alone.toSorted());
    expect(found.length).toBeGreaterThan(3);
    // What claims expect that are broken tells no states apart.
    expect(states).toBeLessThan(1.5 * brokenBy([]).states);
  },
);

test.each([1, 2, 3])("every step between two deadlines of catalogue %i is one that is explored", (seed) => {
  expect(tryMoments(seed)).toEqual([]);
});

test.each([1, 2, 5])("every step of turns on a floor of catalogue %i is one that is explored", (seed) => {
  expect(tryTurns(seed)).toEqual([]);
});

test("each planted fault has a place in the code", async () => {
  expect(PLANTED.length).toBeGreaterThan(20);
  for (const { name, edits } of PLANTED) {
    for (const [file, text] of edits) {
      const source = await readFile(new URL(`../../../src/${file}`, import.meta.url), "utf8");
      expect(source.split(text).length - 1, `${name}: ${text}`).toBe(1);
    }
  }
});

const AGENTS = [
  { name: "a", priority: 50, interruptible: false, max_hold: "3s" },
  { name: "b", priority: 50, replaces: ["a"] },
  { name: "c", priority: 80, critical: true, max_pause: "0ms" },
];
const CLAIMS = [
  { name: "a is not silenced", never: { silenced: "a", by: ["b"] } },
  { name: "b is not rejected", never: { rejected: ["b"], while_heard: "a" } },
  { name: "a comes back", always: { after: "b ends", eventually: "a is heard" } },
];
const CATALOG: JudgedCatalog = {
  agents: AGENTS,
  claims: CLAIMS,
  restrictions: [{ name: "night", between: "22:00-06:00", days: ["mon"], timezone: "Europe/Berlin", allow: ["a"] }],
};
const NOON = Date.UTC(2026, 6, 6, 12);

const event = (type: string, sessionId: string, data: object, at = NOON): JudgedEvent => ({
  type,
  sessionId,
  data,
  at,
});
const created = (id: string, agentId = id) => event("session_created", id, { agentId });
const step = (id: string, from: string, to: string, name: string, rest: object = {}, at = NOON) =>
  event("session_transition", id, { from, to, event: name, ...rest }, at);
const decided = (id: string, outcome: string, reason: string, priority: number, rest: object = {}) =>
  event("arbitration", id, { outcome, reason, rule: 5, challenger: { sessionId: id, agentId: id, priority }, ...rest });
/** A session that gets a free floor. */
const begins = (id: string, priority = 50) => [
  created(id),
  decided(id, "granted", "floor_free", priority),
  step(id, "created", "active.idle", "activate"),
];
const byB = { by: { sessionId: "b", agentId: "b" } };

test.each<[broken: string[], ...commits: JudgedEvent[][]]>([
  [[], begins("a"), [step("a", "active.idle", "archived", "archive")]],
  [["1", "3", "9"], begins("a"), [created("b"), step("b", "created", "active.idle", "activate")]],
  [["priority"], begins("a", 60)],
  [["17"], begins("a"), [decided("d", "granted", "floor_free", 50)]],
  [
    ["4 and 14", "5"],
    begins("a"),
    [step("a", "active.idle", "archived", "archive")],
    [step("a", "archived", "active.idle", "resume")],
  ],
  [
    ["4 and 14"],
    begins("a"),
    [step("a", "active.idle", "paused", "pause")],
    [step("a", "paused", "active.idle", "resume")],
  ],
  [["11"], begins("a"), [decided("c", "rejected", "lower_priority", 80)]],
  [["19"], begins("c", 80), [step("c", "active.idle", "paused", "pause")]],
  [["15"], begins("a"), [step("a", "active.idle", "paused", "yield", {}, NOON + 3_001)]],
  [["S"], begins("b"), [step("b", "active.idle", "ducked.idle", "duck", { level: 0 })]],
  [["b is not rejected"], begins("a"), [created("b"), decided("b", "rejected", "equal_priority", 50)]],
  [
    ["2", "a is not silenced"],
    begins("a"),
    [
      created("b"),
      decided("b", "granted", "preempted", 50),
      step("a", "active.idle", "paused", "preempt", byB),
      step("b", "created", "active.idle", "activate"),
    ],
  ],
])("the judge finds %j", (broken, ...commits) => {
  const judge = new LogJudge(CATALOG);
  for (const commit of commits) judge.take(commit);
  expect([...judge.broken.keys()].filter((name) => name !== "0" && name !== "16").sort()).toEqual(broken);
});

test("what a user edits, moves, stops, deletes or wanted for one turn is neither silenced nor missed", () => {
  const claims = [
    { name: "silenced", never: { silenced: "a" } },
    { name: "missed", always: { after: "b ends", eventually: "a is heard" } },
  ];
  const brokenBy = (reason: string | undefined, more: object = {}, keys: object = {}, to = "archived") => {
    const agents = [
      { name: "a", priority: 50, when_preempted: "duck", ...keys },
      { name: "b", priority: 90, beneath: { a: -10 } },
    ];
    const judge = new LogJudge({ agents, claims });
    judge.take(begins("a"));
    const beneath = step("a", "active.running", "ducked.running", "duck", { level: -10, ...byB });
    judge.take([created("b"), decided("b", "granted", "preempted", 90), beneath]);
    judge.take([step("b", "created", "active.idle", "activate")]);
    const verb = to === "deleted" ? "delete" : "archive";
    judge.take([step("a", "ducked.running", to, verb, { reason, ...more })]);
    judge.take([step("b", "active.idle", to, verb)]);
    return [...judge.broken.keys()];
  };
  expect(brokenBy("superseded", { by: { sessionId: "a2", agentId: "a" } })).toEqual([]);
  const elsewhere = { by: { sessionId: "elsewhere", agentId: "a" } };
  expect(brokenBy("moved", elsewhere)).toEqual([]);
  expect(brokenBy("stop")).toEqual([]);
  expect(brokenBy(undefined, {}, {}, "deleted")).toEqual([]);
  expect(brokenBy("after_turn")).toEqual([]);
  expect(brokenBy("after_turn", {}, { after_turn: "archive" })).toEqual(["missed"]);
  expect(brokenBy("replaced", byB)).toContain("silenced");
});

test("a critical session may be moved, edited and stopped, and no other one ends it", () => {
  const agents = [
    { name: "a", priority: 50, critical: true },
    { name: "b", priority: 90 },
  ];
  const brokenBy = (reason: string, more: object = {}) => {
    const judge = new LogJudge({ agents });
    judge.take(begins("a"));
    judge.take([step("a", "active.idle", "archived", "archive", { reason, ...more })]);
    return [...judge.broken.keys()];
  };
  expect(brokenBy("moved", { by: { sessionId: "elsewhere", agentId: "a" } })).toEqual([]);
  expect(brokenBy("superseded", { by: { sessionId: "a2", agentId: "a" } })).toEqual([]);
  expect(brokenBy("stop")).toEqual([]);
  expect(brokenBy("replaced", byB)).toEqual(["11"]);
});

test("the judge reads hours by the clocks of their zone", () => {
  // A Monday in summer: 22:00 in Berlin is 20:00 UTC, and the hours end on Tuesday.
  const isBroken = (at: number) => {
    const judge = new LogJudge(CATALOG);
    judge.take(begins("b").map((each) => ({ ...each, at })));
    return judge.broken.has("13");
  };
  const evening = Date.UTC(2026, 6, 6, 20);
  expect([evening - 1, evening, evening + 8 * 3_600_000 - 1, evening + 8 * 3_600_000].map(isBroken)).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

test("a session that gives way by itself is not silenced by what comes up then, and one that is replaced is not missed", () => {
  const claims = [{ name: "it", always: { after: "b ends", eventually: "a is heard" } }];
  const broken = (a: object, b: object) => {
    const agents = [
      { name: "a", priority: 50, ...a },
      { name: "b", priority: 50, ...b },
    ];
    return prove({ catalog: makeCatalog(agents as never, { claims }), sessions: 2 }).broken.map(({ what }) => what);
  };
  const missed = ["claim “it”: a is not heard again after b ends"];
  expect(broken({ max_hold: "3s" }, { when_blocked: "queue", max_pause: "1s" })).toEqual([]);
  expect(broken({}, { critical: true, replaces: ["a"] })).toEqual([]);
  expect(broken({ max_pause: "2s" }, { critical: true })).toEqual(missed);
  // It asks, and falls silent in the same step, while the other is heard beneath it.
  const beneath = { beneath: { b: 0 }, idle_timeout: "0ms", max_pause: "2s" };
  expect(broken(beneath, { when_preempted: "duck", priority: 20 })).toEqual(missed);
});

test("of two limits that always end together, neither may come at the time of a third that may come before", () => {
  const claims = [{ name: "it", always: { after: "b ends", eventually: "a is heard" } }];
  const agents = [
    { name: "a", priority: 50, max_pause: "5s", resume_within: "5s" },
    { name: "b", priority: 50 },
  ];
  const catalog = makeCatalog(agents as never, { claims, policy: { ties: "newest", resume_delay: "1s" } });
  expect(prove({ catalog, sessions: 2 })).toMatchObject({ outcome: "broken", fault: undefined });
});

test("a proof reads no clock", () => {
  const reads = [vi.spyOn(Date, "now"), vi.spyOn(performance, "now"), vi.spyOn(process, "hrtime")];
  onTestFinished(() => void vi.restoreAllMocks());
  const restrictions = [{ name: "night", between: "22:00-06:00", timezone: "Europe/Berlin", allow: ["a"] }];
  const { outcome } = prove({
    catalog: toCatalog({ agents: AGENTS, claims: CLAIMS, restrictions }),
    work: { needed: 300, further: 0 },
  });
  expect([outcome, ...reads.map(({ mock }) => mock.calls.length)]).toEqual(["broken", 0, 0, 0]);
});
