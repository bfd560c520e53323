import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { runTopic } from "../../../src/protocol/internal/floor-message.ts";
import { alarmOf } from "../../../src/protocol/internal/run-request.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { HostStage } from "../../support/floors/host-stage.ts";

const CATALOG = makeCatalog([
  { name: "music", priority: 20 },
  { name: "phone", priority: 90 },
  { name: "idler", priority: 50, idle_timeout: "10m" },
]);

async function openStage(options?: { maxFloors?: number }): Promise<HostStage> {
  const stage = await HostStage.open(options);
  stage.catalog = CATALOG;
  return stage;
}

/** A floor on which `music` plays, and what its followers receive from then on. */
async function openMusic() {
  const stage = await openStage();
  await stage.create("music", "music");
  return { stage, messages: await stage.hear() };
}

/** Ann's and Bob's floors, with as many in memory as there may be, and commands to them. */
async function openTwo(options: { maxFloors?: number } = { maxFloors: 2 }) {
  const stage = await openStage(options);
  const create = (user: string) => stage.create(user, "music", { floorId: `u:${user}` });
  const rename = (user: string, title: string) => stage.rename(user, title, { floorId: `u:${user}` });
  /** The user's session still holds the floor, as a request for it shows. */
  const expectHolder = async (user: string) => {
    const reply = await stage.on(user, "activate", { floorId: `u:${user}` });
    expect(reply).toMatchObject({ ok: true, decision: { reason: "already_holder" } });
  };
  for (const user of ["ann", "bob"]) await create(user);
  return { stage, create, rename, expectHolder };
}

test("a commit's events, run requests and signals are sent only once it is durable", async () => {
  const { stage, messages } = await openMusic();
  await stage.run("music", "r1");
  await stage.settle();
  messages.length = 0;
  const signals: unknown[] = [];
  await stage.bus.subscribe(runTopic(stage.store.store.epoch, "r1"), (message) => {
    signals.push(JSON.parse(new TextDecoder().decode(message)));
  });
  stage.armed.length = 0;
  stage.store.hold();
  const asked = stage.create("idler", "idler");
  await stage.store.asked(4);
  await stage.settle();
  expect([messages, signals, stage.armed]).toEqual([[], [], []]);

  stage.store.release();
  await asked;
  await stage.settle();
  const change = stage.store.changes.at(-1)!;
  expect(messages).toMatchObject([{ kind: "commit", prev: change.events[0]!.floorSeq - 1, last: change.head }]);
  expect(messages[0]).toHaveProperty("entries.length", change.events.length);
  expect(signals).toEqual([{ signal: "hold", attempt: 1 }]);
  expect(stage.armed).toEqual([alarmOf("u:ann" as FloorId, stage.clock.now() + 600_000)]);
  expect(change.alarm).toBe(stage.clock.now() + 600_000);
});

test.each([
  ["met a conflict", "conflict" as const, 1],
  ["failed", { refuseWith: new AppError("unavailable") }, 0],
])("events, run requests and signals are not sent for a commit that %s", async (_, fate, told) => {
  const { stage, messages } = await openMusic();
  stage.store.fates.push(fate);
  await stage.failureOf(stage.create("idler", "idler"));
  await stage.settle();
  // An event that was delivered again is sent once.
  expect([messages.length, stage.armed.length]).toEqual([told, told]);
});

test("commits are published in order, each starting at the end of the previous one", async () => {
  const stage = await openStage();
  const messages = await stage.hear();
  await stage.create("music", "music");
  await Promise.all([stage.rename("music", "a"), stage.create("phone", "phone")]);
  await stage.on("phone", "archive");
  await stage.settle();
  const places = messages.map((message) => message.kind === "commit" && [message.prev, message.last]);
  const heads = stage.store.changes.map(({ head }) => head);
  expect(places).toEqual([
    [0, heads[0]],
    [heads[0], heads[1]],
    [heads[1], heads[2]],
  ]);
});

test("a commit is published without its events if they are too large for the bus", async () => {
  const { stage, messages } = await openMusic();
  await stage.rename("music", "x".repeat(48_000));
  await stage.rename("music", "x".repeat(49_152));
  await stage.settle();
  expect(messages.map((message) => message.kind === "commit" && message.entries?.length)).toEqual([1, undefined]);
});

test("a commit of text only is published as a checkpoint with the stored length", async () => {
  const { stage, messages } = await openMusic();
  await stage.run("music", "r1");
  await stage.settle();
  messages.length = 0;
  const parts = [
    { kind: "open" as const, messageId: "a1", agent: masterRef("music") },
    { kind: "append" as const, messageId: "a1", offset: 0, text: "la la" },
  ];
  await stage.ask({ type: "run.report", sessionId: "music", runId: "r1", attempt: 1, n: 1, parts }, { caller: null });
  await stage.settle();
  const about = { floorId: "u:ann", sessionId: "music", messageId: "a1", runId: "r1" };
  expect(messages).toEqual([{ kind: "checkpoint", ...about, length: 5 }]);
});

test("the number of floors in memory is limited: the oldest that was not used again is dropped, and later loaded unchanged", async () => {
  const { stage, create, rename, expectHolder } = await openTwo();
  // Makes ann's floor the most recently used.
  await rename("ann", "mine");
  await stage.settle();
  const loads = stage.store.callsOf("loadFloor");
  await create("cid");
  await stage.settle();
  expect(stage.host.floorCount).toBe(2);
  await rename("ann", "still mine");
  await stage.settle();
  expect(stage.store.callsOf("loadFloor")).toBe(loads + 1);
  await expectHolder("bob");
  expect(stage.store.callsOf("loadFloor")).toBe(loads + 2);
});

test("a floor with waiting commands is not dropped from memory: a further floor gets busy", async () => {
  const { stage, create, rename } = await openTwo();
  stage.store.hold();
  const asked = ["ann", "bob"].flatMap((user) => ["a", "b"].map((title) => rename(user, title)));
  await stage.store.asked(4);
  expect(await stage.failureOf(create("cid"))).toBe("busy");
  stage.host.retireIdle();
  expect(stage.host.floorCount).toBe(2);
  stage.store.release();
  expect((await Promise.all(asked)).every((reply) => reply.ok)).toBe(true);
  await stage.settle();
  expect((await create("cid")).ok).toBe(true);
  expect(stage.host.floorCount).toBe(2);
});

test("busy floors are skipped when a floor is dropped from memory: the next idle one is dropped", async () => {
  const { stage, create, rename } = await openTwo();
  stage.store.hold();
  const waiting = rename("ann", "a");
  await stage.store.asked(3);
  // Uses bob's floor after ann's with a command that needs no commit.
  const still = { type: "run.still" as const, sessionId: "bob", runId: "r1", attempt: 1 };
  await stage.ask(still, { floorId: "u:bob", caller: null });
  await stage.settle();
  const created = create("cid");
  await stage.store.asked(4);
  expect(stage.host.floorCount).toBe(2);
  stage.store.release();
  expect([(await waiting).ok, (await created).ok]).toEqual([true, true]);
  const loads = stage.store.callsOf("loadFloor");
  await rename("ann", "b");
  expect(stage.store.callsOf("loadFloor")).toBe(loads);
});

test("all floors are dropped from memory at the end, and no data is lost", async () => {
  const { stage, expectHolder } = await openTwo({});
  await stage.settle();
  stage.host.retireIdle();
  expect(stage.host.floorCount).toBe(0);
  await expectHolder("ann");
});

const INVALID = [
  ...["stop", "init", "error.actor.music", "done.actor.music", "done.state.session"].map((name) => `xstate.${name}`),
  // Internal events of the machines, which would start a turn without the floor, or grant it without a decision.
  ...["turn", "queue", "request", "left", "leave", "wait_over", "switched", "load", "evict", "preempt", "archive"],
  ...["session.fly", ""],
];

test.each(INVALID)("an invalid command is refused: %j", async (type) => {
  const { stage } = await openMusic();
  await stage.create("waiting", "music", { activate: false });
  const forged = {
    type,
    sessionId: "waiting",
    turn: { messageId: "m1", runId: "r1" },
    input: { messageId: "m1", runId: "r1", content: "let me in" },
    sessionIds: ["music"],
    waits: "queued",
    contender: { sessionId: "waiting", agentId: "music", priority: 100, interruptible: false, explained: [] },
  };
  const before = { changes: stage.store.changes.length, entered: stage.entered };
  expect(await stage.failureOf(stage.ask(forged as never))).toBe("unavailable");
  expect({ changes: stage.store.changes.length, entered: stage.entered }).toEqual(before);
  // The actors stayed in memory: nothing was loaded again.
  expect(await stage.on("music", "activate")).toMatchObject({ ok: true, decision: { reason: "already_holder" } });
  expect(stage.store.callsOf("loadFloor")).toBe(1);
});

const PAUSED = makeCatalog([{ name: "music", priority: 20, max_pause: "30m" }]);
const LATER = makeCatalog([{ name: "music", priority: 20, max_pause: "45m" }]);

/**
 * A floor with seventy sessions that their user has paused; most of them are not in memory. Some have equal deadlines.
 */
async function crowd() {
  const stage = await HostStage.open();
  stage.catalog = PAUSED;
  const ids = Array.from({ length: 70 }, (_, n) => `s${String(n).padStart(2, "0")}`);
  for (const [n, id] of ids.entries()) {
    await stage.create(id, "music");
    await stage.on(id, "pause");
    if (n < 5 || n > 60) await stage.clock.advance(1);
  }
  return { stage, ids };
}

async function archived(stage: HostStage) {
  const { entries } = await stage.store.store.readFloorLog("u:ann" as FloorId, 0, 1_000);
  const isExpiry = ({ json }: { json: string }) => json.includes('"reason":"max_pause"');
  return { entries, expired: entries.filter(isExpiry) };
}

test("a crowd of sessions outside the memory ends, each at its deadline and in order, before the next command, 32 with each commit", async () => {
  const { stage, ids } = await crowd();
  const { entries: before } = await archived(stage);
  const pausedAt = before.filter(({ json }) => json.includes('"event":"pause"')).map(({ at }) => at);
  // No command reads the deadlines of the others.
  expect(stage.store.callsOf("loadDue")).toBe(0);
  expect(stage.armed.at(-1)).toEqual(alarmOf("u:ann" as FloorId, pausedAt[0]! + 1_800_000));
  stage.host.retireIdle();
  await stage.clock.advance(3_600_000);
  const commits = stage.store.changes.length;
  await stage.create("next", "music");
  const { entries, expired } = await archived(stage);
  expect(expired.map(({ sessionId }) => sessionId)).toEqual(ids);
  expect(expired.map(({ at }) => at)).toEqual(pausedAt.map((at) => at + 1_800_000));
  expect(entries.findIndex(({ sessionId }) => sessionId === "next")).toBeGreaterThan(entries.indexOf(expired.at(-1)!));
  expect(stage.store.changes.slice(commits).map(({ sessions }) => sessions.length)).toEqual([32, 32, 6, 1]);
  expect(stage.store.changes.at(-1)!.alarm).toBeUndefined();
});

test("deadlines of sessions outside the memory that a new catalogue moves come when it says", async () => {
  const { stage, ids } = await crowd();
  stage.host.retireIdle();
  stage.catalog = LATER;
  await stage.clock.advance(1_900_000);
  await stage.ask({ type: "alarm" });
  expect((await archived(stage)).expired).toEqual([]);
  await stage.clock.advance(800_000);
  await stage.ask({ type: "alarm" });
  expect((await archived(stage)).expired).toHaveLength(ids.length);
});

test("an alarm for a session that was resumed in the meantime changes nothing but the alarm", async () => {
  const stage = await HostStage.open();
  stage.catalog = PAUSED;
  await stage.create("music", "music");
  await stage.on("music", "pause");
  await stage.on("music", "resume");
  const { entries } = await archived(stage);
  await stage.clock.advance(1_800_000);
  await stage.ask({ type: "alarm" }, { caller: null });
  expect((await archived(stage)).entries).toEqual(entries);
  expect(stage.store.changes.at(-1)).toMatchObject({ sessions: [], events: [], alarm: undefined });
});
