/**
 * The prover is tried: no random walk of a floor breaks, by the word of a judge that reads the log alone, what
 * `interlock prove` says holds. `PROVER_SEEDS` is the number of catalogues; `npm run test:prover` takes many.
 */
import { expect, test } from "vitest";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { EXPLORED_FROM } from "../../../src/policy/exploration.ts";
import { prove } from "../../../src/policy/proof.ts";
import { SteppedFloor, type TimedFact } from "../../../src/policy/stepped-floor.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { type JudgedClaim, type JudgedEvent, judge } from "../../support/policy/log-judge.ts";

const SEEDS = Number(process.env["PROVER_SEEDS"] ?? 4);
const FIRST_SEED = Number(process.env["PROVER_FIRST_SEED"] ?? 1);
const WALKS = 150;
const STEPS = 14;

type Next = <T>(values: readonly T[]) => T;

/** A random choice that is the same every time. */
function chooser(seed: number): Next {
  let state = seed * 2_654_435_761;
  return (values) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 3_266_489_917) >>> 0;
    return values[((state ^ (state >>> 13)) >>> 0) % values.length]!;
  };
}

const NAMES = ["a", "b", "c"];
const LENGTHS = [undefined, undefined, "0ms", "2s", "5s"];

function randomAgent(name: string, next: Next) {
  const keys = {
    name,
    priority: next([20, 50, 80]),
    interruptible: next([true, true, false]),
    preemption_threshold: next([undefined, undefined, 60]),
    when_preempted: next(["pause", "duck"]),
    beneath: next([{}, {}, { all: -10 }]),
    resume: next(["auto", "auto", "manual"]),
    yields_to: next([[], [next(NAMES)]]),
    max_pause: next(LENGTHS),
    resume_within: next(LENGTHS),
    max_hold: next([undefined, undefined, "3s"]),
    idle_timeout: next([undefined, undefined, undefined, "0ms", "4s"]),
    when_blocked: next(["reject", "queue", "duck", ["duck", "queue"]]),
    queue_timeout: next([undefined, "0ms", "3s"]),
  };
  const isExternal = keys.idle_timeout === undefined && next([true, false]);
  const adapter = { kind: isExternal ? "external" : "scripted" };
  return Object.fromEntries(Object.entries({ ...keys, adapter }).filter(([, value]) => value !== undefined));
}

const randomRule = (name: string, agent: string, next: Next) => ({
  name,
  agents: [agent],
  between: next(["10:00-10:30", "12:00-12:30", "22:00-06:00"]),
  timezone: next(["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"]),
  adjust: next([-35, 35]),
});

/** Every claim about two agents of which nothing else is known. */
const CLAIMS: readonly JudgedClaim[] = NAMES.flatMap((one) =>
  NAMES.flatMap((other) => [
    { name: `${one} is not rejected while ${other} is heard`, never: { rejected: one, while_heard: other } },
    { name: `${one} is not silenced by ${other}`, never: { silenced: one, by: other } },
  ]),
);

function randomCatalog(next: Next): Catalog {
  return makeCatalog(
    NAMES.map((name) => randomAgent(name, next)) as never,
    {
      claims: CLAIMS,
      priority_rules: next([[], [randomRule("one", "a", next), randomRule("two", "b", next)]]),
      policy: { ties: next(["reject", "newest"]), resume_delay: next(["0ms", "1s"]) },
    } as never,
  );
}

/** Two sessions at most do something at random, after random pauses and at random times of the year. */
function randomLog(catalog: Catalog, next: Next): JudgedEvent[] {
  const floor = new SteppedFloor({ catalog, now: EXPLORED_FROM });
  const log: JudgedEvent[] = [];
  const keep = (facts: readonly TimedFact[]) => {
    for (const { fact } of facts) if (fact.type === "event") log.push(fact.event);
  };
  for (let step = 0; step < STEPS; step++) {
    keep(floor.passTo(floor.time + next([0, 0, 1, 900, 1_999, 2_000, 2_500, 4_000])));
    if (catalog.priorityRules.length > 0 && next([0, 1, 2]) === 0) {
      const days = next([0, 0, 1, 30, 100, 180]);
      keep(floor.setClock(floor.now + days * 86_400_000 + next([0, 10, 600, 660, 1_320]) * 60_000));
    }
    const ids = floor.sessions.map(({ context }) => context.id);
    const does = next(["create", "create", "session.resume", "session.pause", "session.archive", "wait"] as const);
    if (does === "wait") continue;
    if (does === "create") {
      if (ids.length < 2) keep(floor.create(`s${step}`, next(NAMES)).facts);
    } else if (ids.length > 0) {
      const sessionId = next(ids);
      const isNew = floor.session(sessionId)?.value.lifecycle === "created";
      if (isNew && does === "session.pause") continue;
      keep(floor.send({ type: isNew && does === "session.resume" ? "session.activate" : does, sessionId }).facts);
    }
  }
  return log;
}

const seeds = Array.from({ length: SEEDS }, (_, index) => FIRST_SEED + index);

test.each(seeds)("no walk of random catalogue %i breaks what is said to hold", (seed) => {
  const next = chooser(seed);
  const catalog = randomCatalog(next);
  const { outcome, broken, fault } = prove({ catalog, sessions: 2 });
  expect([fault, outcome === "faulty"]).toEqual([undefined, false]);
  const known = new Set(broken.map(({ assertion, what }) => assertion?.name ?? what));
  for (let walk = 0; walk < WALKS; walk++) {
    const log = randomLog(catalog, next);
    const missed = [...judge(log, CLAIMS)].filter((name) => !known.has(name));
    expect(missed, JSON.stringify({ seed, walk })).toEqual([]);
  }
});

test("the judge finds what a log shows", () => {
  const event = (sessionId: string, from: string, to: string, by?: string) => ({
    type: "session_transition",
    sessionId,
    data: { from, to, ...(by && { by: { agentId: by } }) },
  });
  const created = (sessionId: string, agentId: string) => ({ type: "session_created", sessionId, data: { agentId } });
  const log = [created("1", "a"), event("1", "created", "active.idle"), created("2", "b")];
  expect([...judge([...log, event("2", "created", "active.idle")], CLAIMS)]).toEqual(["two in front"]);
  const silenced = [...log, event("1", "active.idle", "paused", "b"), event("1", "paused", "archived")];
  expect([...judge(silenced, CLAIMS)]).toEqual(["a is not silenced by b"]);
  const refused = { type: "arbitration", data: { outcome: "rejected", challenger: { agentId: "b" } } };
  expect([...judge([...log, refused], CLAIMS)]).toEqual(["b is not rejected while a is heard"]);
});
