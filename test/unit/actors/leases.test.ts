import { expect, test } from "vitest";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { play } from "../../support/floors/floor-script.ts";
import { decisionOf, FloorStage } from "../../support/floors/floor-stage.ts";
import { HostStage } from "../../support/floors/host-stage.ts";

const external = { adapter: { kind: "external" } };
const AGENTS = [
  {
    name: "prompt",
    priority: 80,
    interruptible: false,
    preemption_threshold: 90,
    beneath: { all: -14 },
    when_preempted: "duck",
    lease: "3s",
    ...external,
  },
  { name: "music", priority: 20, when_preempted: "duck", lease: "4s", ...external },
  { name: "call", priority: 90, interruptible: false },
  { name: "news", priority: 10, when_blocked: "queue", queue_timeout: "1h", lease: "4s", ...external },
  { name: "other_news", priority: 10, when_blocked: "queue", ...external },
  { name: "radio", priority: 20, lease: "4s", ...external },
  { name: "chat", priority: 50 },
];

const CATALOG = makeCatalog(AGENTS);

/** A floor with a session of each of these agents, started in this order. */
function stageWith(agents: readonly string[], catalog = CATALOG): FloorStage {
  const stage = new FloorStage(catalog);
  for (const agentId of agents) stage.create(agentId);
  return stage;
}

/** `session event to reason` of each transition while this time passes. */
const movesWithin = (stage: FloorStage, ms: number) =>
  stage
    .factsOf(() => stage.pass(ms))
    .flatMap((fact) => {
      if (fact.type !== "event" || fact.event.type !== "session_transition") return [];
      const { event, to, reason } = fact.event.data;
      return [`${fact.event.sessionId} ${event} ${to} ${reason}`];
    });

test("a session without heartbeats loses the floor after 1.5 leases, and the next session gets it in the same step", () => {
  const stage = stageWith(["music", "prompt"]);
  expect(stage.state("music")).toBe("ducked.idle");
  stage.beatAt("music", 1_400, 2_800, 4_200);
  expect(movesWithin(stage, 299)).toEqual([]);
  const moves = ["prompt yield paused lease_expired", "music resume active.idle resumed"];
  expect(movesWithin(stage, 1)).toEqual(moves);
  expect(stage.view("prompt")?.pausedBy).toBe("yield");
  expect(stage.view("prompt")).not.toHaveProperty("leaseUntil");
});

test("a session's lease lapses no earlier than one lease after its last sign of life, even an uncommitted one", () => {
  const stage = stageWith(["radio"]);
  stage.beatAt("radio", 2_500, 4_499);
  // The heartbeat at 2.5 s was committed; the one at 4.499 s came within half a lease of it.
  expect(stage.view("radio")?.leaseUntil).toBe(stage.now - 4_499 + 2_500 + 4_000);
  stage.pass(4_000);
  expect(stage.state("radio")).toBe("active.idle");
  stage.pass(1);
  expect(stage.state("radio")).toBe("paused");
});

test("a session whose lease lapsed can resume: it requests the floor as before, and its lease begins again", () => {
  const stage = stageWith(["music", "prompt"]);
  stage.beatAt("music", 1_400, 2_800, 4_200, 5_600);
  expect(stage.state("prompt")).toBe("paused");
  expect(decisionOf(stage.on("prompt", "resume"))).toMatchObject({ outcome: "granted", rule: 7 });
  expect(stage.state("music")).toBe("ducked.idle");
  expect(stage.view("prompt")).toMatchObject({ leaseMs: 3_000, leaseUntil: stage.now + 3_000 });
});

test.each([
  ["active", ["radio"], "resume"],
  ["paused for another", ["radio", "chat"], "resume"],
  ["queued", ["call", "news"], "activate"],
])("a heartbeat of a session that lapsed while it was %s says so until it asks again", (_, agents, verb) => {
  const stage = stageWith(agents);
  const id = agents.find((agent) => agent === "radio" || agent === "news")!;
  const beat = () => stage.ask({ type: "session.heartbeat", sessionId: id });
  expect(beat()).not.toHaveProperty("lapsed");
  stage.pass(6_001);
  stage.restart();
  expect(beat()).toMatchObject({ ok: true, lapsed: true });
  for (const agent of agents) if (agent !== id) stage.on(agent, "archive");
  expect(stage.state(id)).not.toBe("active.idle");
  stage.on(id, verb as "resume");
  expect(beat()).not.toHaveProperty("lapsed");
  expect(stage.state(id)).toBe("active.idle");
});

test("a ducked session whose lease lapses is silenced, and is not woken when the holder ends", () => {
  const stage = stageWith(["music", "prompt"]);
  stage.beatAt("prompt", 1_000, 2_500, 4_000, 5_500);
  stage.pass(500);
  expect(stage.state("music")).toBe("paused");
  const silenced = { from: "ducked.idle", event: "yield", reason: "lease_expired" };
  expect(stage.events("session_transition").at(-1)).toMatchObject(silenced);
  stage.on("prompt", "archive");
  expect(stage.actors.context.floor).toMatchObject({ holder: undefined, paused: [] });
});

test("a paused session whose lease lapses stays paused, gets an event, and is woken by no release", () => {
  const stage = stageWith(["radio", "call"]);
  expect(movesWithin(stage, 6_000)).toEqual(["radio yield paused lease_expired"]);
  expect(stage.view("radio")).toMatchObject({ state: "paused", pausedBy: "yield" });
  stage.on("call", "archive");
  expect(stage.state("radio")).toBe("paused");
  expect(stage.actors.context.floor.holder).toBeUndefined();
});

test("a queued session whose lease lapses leaves the queue with a decision that gives the reason, and stays created", () => {
  const stage = stageWith(["call", "news"]);
  expect(stage.view("news")).toMatchObject({ state: "created", leaseMs: 4_000 });
  stage.pass(6_000);
  const decision = { outcome: "rejected", reason: "lease_expired", say: "News does not answer any more." };
  expect(stage.events("arbitration").at(-1)).toMatchObject(decision);
  expect(stage.view("news")).not.toHaveProperty("queuedAt");
  expect(stage.view("news")).not.toHaveProperty("leaseUntil");
  expect(stage.due).toBeUndefined();
  stage.on("call", "archive");
  expect(stage.state("news")).toBe("created");
});

test.each([
  ["radio", ["radio", "call", "other_news"]],
  ["news", ["call", "news", "other_news"]],
])(
  "a session whose lease lapses loses the floor that is reserved for it to the next waiting session: %s",
  (id, all) => {
    const stage = stageWith(all, makeCatalog(AGENTS, { policy: { resume_delay: "1h" } }));
    stage.on("call", "archive");
    expect(stage.actors.context.floor.reserved?.sessionId).toBe(id);
    stage.pass(6_000);
    expect(stage.actors.context.floor.reserved?.sessionId).toBe("other_news");
  },
);

test("a session that its user paused has no lease, and its heartbeats are accepted", () => {
  const stage = stageWith(["radio"]);
  stage.on("radio", "pause");
  expect(stage.due).toBeUndefined();
  expect(stage.beat("radio")).toMatchObject({ facts: [], reply: { ok: true, session: { state: "paused" } } });
});

test("a sign of life is committed only if half a lease has passed since the last committed one", () => {
  const stage = stageWith(["radio"]);
  const changes: number[] = [];
  for (let at = 100; at <= 20_000; at += 100) {
    stage.pass(100);
    stage.actors.drainTouched();
    stage.beat("radio");
    if (stage.actors.drainTouched().length > 0) changes.push(at);
  }
  expect(changes).toEqual([2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 14_000, 16_000, 18_000, 20_000]);
  expect(stage.state("radio")).toBe("active.idle");
});

test("a sign of life adds no event to the session, and leaves the time of its last change", () => {
  const stage = stageWith(["radio"]);
  const before = stage.view("radio")!;
  stage.pass(2_000);
  expect(stage.beat("radio").facts).toEqual([]);
  expect(stage.view("radio")).toEqual({ ...before, leaseUntil: before.leaseUntil! + 2_000 });
});

test("every command of the session itself is a sign of life, including refused ones", () => {
  const stage = stageWith(["radio"]);
  for (const does of [
    () => stage.ask({ type: "session.update", sessionId: "radio", settings: { title: "Jazz" } }),
    () => stage.on("radio", "activate"),
    () => stage.chat("radio", "m1"),
    () => stage.on("radio", "abort"),
  ]) {
    stage.pass(3_900);
    does();
  }
  stage.pass(3_900);
  expect(stage.state("radio")).toBe("active.idle");
});

test("a heartbeat is an error for an archived or unknown session, and has no effect for a session without a lease", () => {
  const stage = stageWith(["chat"]);
  expect(stage.beat("chat")).toMatchObject({ facts: [], reply: { ok: true } });
  expect(stage.view("chat")).not.toHaveProperty("leaseUntil");
  stage.on("chat", "archive");
  expect(stage.beat("chat").reply).toMatchObject({ ok: false, code: "session_archived" });
  expect(stage.beat("nobody").reply).toMatchObject({ ok: false, code: "session_not_found" });
});

test("every lease begins again after a minute in which the node was away and no alarm or heartbeat came", () => {
  const stage = stageWith(["music", "prompt"]);
  stage.restart();
  stage.pass(60_000, 60_000);
  stage.beatAt("prompt", 1_000, 2_000, 3_000, 4_000);
  expect(stage.state("prompt")).toBe("active.idle");
  expect(stage.state("music")).toBe("ducked.idle");
});

test("a participant that beats every third of its lease survives any shorter absence of the node", () => {
  for (let awayMs = 500; awayMs <= 9_000; awayMs += 500) {
    for (let begins = 0; begins <= 8_000; begins += 250) {
      const stage = stageWith(["radio"]);
      const start = stage.now;
      for (let at = 1_333; at <= 24_000; at += 1_333) {
        if (at > begins && at <= begins + awayMs) continue;
        const target = start + at;
        // The node is back before this heartbeat: what was due meanwhile happens.
        if (stage.now - start <= begins && at > begins) stage.pass(start + begins - stage.now);
        if (stage.now - start === begins && at > begins) stage.pass(target - stage.now, awayMs);
        else stage.pass(target - stage.now);
        stage.beat("radio");
      }
      expect(stage.state("radio"), `away from ${begins} ms on, for ${awayMs} ms`).toBe("active.idle");
    }
  }
});

test("a participant that beats every third of its lease survives any jump of the time by less than half a lease", () => {
  for (const jumpMs of [500, 1_000, 1_999]) {
    for (let jumpAt = 0; jumpAt <= 12_000; jumpAt += 250) {
      const stage = stageWith(["radio"]);
      for (let real = 250; real <= 16_000; real += 250) {
        stage.now += 250 + (real === jumpAt ? jumpMs : 0);
        // Alarms come as soon as they are due; the jump makes one late.
        stage.ask({ type: "alarm" });
        if (real % 1_250 === 0) stage.beat("radio");
      }
      expect(stage.state("radio"), `a jump of ${jumpMs} ms at ${jumpAt} ms`).toBe("active.idle");
    }
  }
});

test("a lease continues over preemption, a return and a wait", () => {
  const stage = stageWith(["radio"]);
  const { due } = stage;
  play(stage, "start call; end call");
  expect(stage.due).toBe(due);
  expect(stage.state("radio")).toBe("active.idle");
});

test("a switch of the agent starts the new agent's lease at once, and an agent without a lease ends it", () => {
  const stage = stageWith(["radio"]);
  stage.pass(1_000);
  play(stage, "switch radio:prompt");
  expect(stage.view("radio")).toMatchObject({ leaseMs: 3_000, leaseUntil: stage.now + 3_000 });
  expect(stage.due).toBe(stage.now + 3_000);
  play(stage, "switch radio:chat");
  expect(stage.view("radio")).not.toHaveProperty("leaseMs");
  expect(stage.due).toBeUndefined();
});

test("a lease ends with its session, for every way in which a session can end", () => {
  for (const verb of ["archive", "stop", "delete"] as const) {
    const stage = stageWith(["radio"]);
    stage.on("radio", verb);
    expect(stage.due).toBeUndefined();
  }
});

const withLease = (lease: string | undefined) =>
  makeCatalog(AGENTS.map((agent) => (agent.name === "radio" ? { ...agent, lease } : agent)));

test("a lease ends when a new catalogue removes it, and takes the length that a new catalogue gives it", () => {
  const stage = stageWith(["radio"]);
  stage.catalog = withLease("10s");
  stage.beat("radio");
  expect(stage.view("radio")).toMatchObject({ leaseMs: 10_000 });
  stage.pass(9_999);
  expect(stage.state("radio")).toBe("active.idle");
  stage.catalog = withLease(undefined);
  stage.pass(60_000);
  expect(stage.state("radio")).toBe("active.idle");
  expect(stage.due).toBeUndefined();
});

test("a lease that a new catalogue shortens keeps its length until the next heartbeat, whose answer tells the new one", () => {
  const stage = stageWith(["radio"]);
  stage.beatAt("radio", 3_000);
  const until = stage.view("radio")!.leaseUntil!;
  stage.catalog = withLease("1s");
  stage.pass(until - stage.now);
  expect(stage.state("radio")).toBe("active.idle");
  expect(stage.beat("radio").reply).toMatchObject({ session: { leaseMs: 1_000, leaseUntil: stage.now + 1_000 } });
  stage.beatAt("radio", 800, 1_600, 2_400);
  expect(stage.state("radio")).toBe("active.idle");
  stage.pass(1_500);
  expect(stage.state("radio")).toBe("paused");
});

test("the host counts each lapse once, of a session that is heard and of one that waits", async () => {
  const stage = await HostStage.open();
  stage.catalog = CATALOG;
  await stage.create("prompt", "prompt");
  await stage.create("news", "news");
  for (const ms of [3_000, 1_000, 500, 1_500]) {
    await stage.clock.advance(ms);
    await stage.ask({ type: "alarm" }, { caller: null });
  }
  expect(stage.metrics.lapses).toBe(2);
});
