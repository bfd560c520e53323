import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { FloorChange } from "../../../src/store/store.ts";
import { withThrowing } from "../../support/floors/floor-stage.ts";
import type { HostStage } from "../../support/floors/host-stage.ts";
import { openFloor } from "../../support/floors/hosted-floor.ts";

/** The two renamings fail in this way. */
async function expectFailures(stage: HostStage, code: string): Promise<void> {
  const asked = [stage.rename("music", "a"), stage.rename("music", "b")];
  expect(await Promise.all(asked.map((each) => stage.failureOf(each)))).toEqual([code, code]);
}

/** The events of ann's floor. */
const logOf = async (stage: HostStage, type = "") => {
  const { entries } = await stage.store.store.readFloorLog("u:ann" as never, 0, 100);
  return entries.filter((entry) => entry.type.includes(type));
};

test("a command that makes the machines throw is answered with internal, and the others of its batch succeed", async () => {
  const stage = await openFloor();
  stage.catalog = withThrowing(stage.catalog, (id) => id === "bomb");
  const asked = [
    stage.rename("music", "before"),
    stage.failureOf(stage.create("boom", "bomb", { commandId: "boom" })),
    stage.create("weather", "weather"),
    stage.rename("music", "after"),
  ];
  expect(await Promise.all(asked)).toMatchObject([
    { ok: true, session: { title: "before" } },
    "internal",
    { ok: true, session: { state: "active" } },
    { ok: true, session: { title: "after", state: "paused" } },
  ]);
  expect(stage.metrics.breaks).toEqual(["actors"]);
  expect(stage.log.lines).toEqual(["a command broke its floor"]);
  // Once each, with one commit per command.
  expect(stage.metrics.batches).toEqual([1, 1, 1, 1]);
  const receipts = await stage.store.store.findReceipts([{ caller: "ann", commandId: "boom" }]);
  expect(receipts).toEqual([]);
  expect(await stage.store.store.loadSession("boom" as never)).toBeUndefined();
});

test("a conflict drops the actors: the other host's commit is loaded, and the command is delivered again", async () => {
  const stage = await openFloor();
  const other = stage.neighbour();
  await other.rename("music", "by another");
  await other.create("call", "phone");
  expect(await stage.on("music", "activate")).toMatchObject({ ok: false, code: "rejected" });
  expect([stage.metrics.conflicts, stage.store.callsOf("loadFloor")]).toEqual([1, 2]);
  const { head, version } = (await stage.store.store.loadFloor("u:ann" as never))!;
  expect(version).toBe(4);
  const numbers = (await logOf(stage)).map(({ floorSeq }) => floorSeq);
  expect(numbers).toEqual(Array.from({ length: head }, (_, n) => n + 1));
});

test("a command in conflict is answered from its receipt if another host committed the same command", async () => {
  const stage = await openFloor();
  const other = stage.neighbour();
  const theirs = await other.create("weather", "weather", { commandId: "shared" });
  const replies = await Promise.all([
    stage.rename("music", "mine"),
    stage.create("weather", "weather", { commandId: "shared" }),
    stage.rename("weather", "mine too"),
  ]);
  expect(replies[1]).toEqual(theirs);
  expect(replies[0]).toMatchObject({ ok: true, session: { state: "paused", title: "mine" } });
  expect(replies[2]).toMatchObject({ ok: true, session: { state: "active", title: "mine too" } });
  const created = await logOf(stage, "session_created");
  expect(created.map(({ sessionId }) => sessionId)).toEqual(["music", "weather"]);
});

test("a conflict that repeats is given up: the outcome is unknown", async () => {
  const stage = await openFloor();
  stage.store.fates.push(...Array.from({ length: 50 }, () => "conflict" as const));
  expect(await stage.failureOf(stage.rename("music", "in vain"))).toBe("unavailable");
  stage.store.fates.length = 0;
  expect((await stage.rename("music", "again")).ok).toBe(true);
});

test.each([
  ["prepared", (stage: HostStage, fault: () => never) => void Object.assign(stage.bus, { hasSubscribers: fault })],
  ["published", (stage: HostStage, fault: () => never) => void Object.assign(stage, { onArm: fault })],
])("a fault while a commit's announcement is %s is logged, and fails no command", async (_, breakIn) => {
  const stage = await openFloor();
  breakIn(stage, () => {
    throw new Error("out of memory");
  });
  const turn = { messageId: "m", runId: "r", content: "go" };
  expect(await stage.ask({ type: "session.chat", sessionId: "music", turn })).toMatchObject({ ok: true, runId: "r" });
  expect(stage.log.lines).toEqual(["a commit could not be announced"]);
  // The actors stay, and nothing is committed again.
  expect([stage.metrics.batches, stage.store.callsOf("loadFloor")]).toEqual([[1, 1], 1]);
});

test("a failed commit answers no command, and leaves nothing in memory", async () => {
  const stage = await openFloor();
  stage.store.fates.push({ refuseWith: new AppError("unavailable") });
  const asked = [stage.rename("music", "lost"), stage.create("call", "phone")];
  expect(await Promise.all(asked.map((each) => stage.failureOf(each)))).toEqual(["unavailable", "unavailable"]);
  const reply = await stage.on("music", "activate");
  expect(reply).toMatchObject({ ok: true, decision: { reason: "already_holder" } });
  expect(reply.ok && reply.session?.title).not.toBe("lost");
});

test("a commit that fails after the write gives its outcome to a repeat of the command", async () => {
  const stage = await openFloor();
  stage.store.fates.push({ loseAnswerWith: new AppError("unavailable") });
  expect(await stage.failureOf(stage.create("call", "phone", { commandId: "one" }))).toBe("unavailable");
  const { events } = stage.store.changes.at(-1)!;
  const again = await stage.create("call", "phone", { commandId: "one" });
  const session = { id: "call", state: "active" };
  expect(again).toMatchObject({ ok: true, session, decision: { reason: "preempted" } });
  const { head } = await stage.store.store.readFloorLog("u:ann" as never, 0, 1);
  expect(head).toBe(events.at(-1)!.floorSeq);
});

test.each(["alone", "with others"])(
  "a commit with an unknown outcome that was written is answered from the receipt (%s)",
  async (how) => {
    const stage = await openFloor();
    stage.store.fates.push({ loseAnswerWith: new Error("the answer made no sense") });
    const asked = [stage.create("call", "phone"), ...(how === "alone" ? [] : [stage.rename("music", "whole")])];
    const [created, renamed] = await Promise.all(asked);
    expect(created).toMatchObject({ ok: true, session: { id: "call", state: "active" } });
    if (renamed) expect(renamed).toMatchObject({ ok: true, session: { title: "whole", state: "paused" } });
    expect(await logOf(stage, "session_created")).toHaveLength(2);
    expect(stage.metrics.breaks).toEqual([]);
  },
);

test("a commit that fails with an unknown error before the write is internal for the faulty command only", async () => {
  const stage = await openFloor();
  const fault = new Error("no such column");
  stage.store.fates.push({ refuseWith: fault }, "commit", { refuseWith: fault });
  const asked = [stage.rename("music", "well"), stage.rename("music", "culprit"), stage.rename("music", "also well")];
  expect(await Promise.all(asked.map((each) => stage.failureOf(each)))).toEqual(["answered", "internal", "answered"]);
  expect(stage.metrics.breaks).toEqual(["commit"]);
});

/** The next host reads ann's floor with these parts of its rows. */
async function rewriteRows(stage: HostStage, over: (snapshot: string) => Partial<FloorChange>): Promise<HostStage> {
  const { head, version, snapshot, format } = (await stage.store.store.loadFloor("u:ann" as never))!;
  const nothing = { newIds: [], sessions: [], events: [], receipts: [], runRequestsAdded: [], runRequestsRemoved: [] };
  const change = { ...stage.store.changes[0]!, ...nothing, expected: version, head, snapshot, format };
  expect(await stage.store.store.commit({ ...change, ...over(snapshot) })).toBe("committed");
  return stage.neighbour();
}

/** The next load of the floor reads this row. */
async function withRow({ rewrite, ...over }: { format?: number; rewrite?: (snapshot: string) => string }) {
  const stage = await openFloor();
  await stage.run("music", "r1");
  await stage.create("well", "music", { floorId: "u:bob" });
  return await rewriteRows(stage, (snapshot) => ({ ...over, ...(rewrite && { snapshot: rewrite(snapshot) }) }));
}

const edit = (change: (whole: { actors: Record<string, unknown> }) => object) => (snapshot: string) =>
  JSON.stringify(change(JSON.parse(snapshot)));

test("a floor that a newer release wrote is left to that release: unavailable", async () => {
  const stage = await withRow({ format: 99 });
  await expectFailures(stage, "unavailable");
  expect([stage.store.changes, stage.log.lines, stage.metrics.breaks]).toEqual([[], [], []]);
  expect((await stage.rename("well", "c", { floorId: "u:bob" })).ok).toBe(true);
});

test.each([
  ["is no JSON", () => "{"],
  ["is no object", () => "null"],
  ["is of another machine", edit((whole) => ({ ...whole, machine: "toaster" }))],
  ["lacks its sessions", edit((whole) => ({ ...whole, sessions: undefined }))],
  ["has a session without a row", edit((whole) => ({ ...whole, sessions: ["gone"] }))],
  ["has a session of another floor", edit((whole) => ({ ...whole, sessions: ["music", "well"] }))],
  ["has a run whose session it lacks", edit((whole) => ({ ...whole, sessions: [] }))],
  ["lacks its time", edit((whole) => ({ ...whole, lastNow: "noon" }))],
  ["has no actors", edit((whole) => ({ ...whole, actors: {} }))],
  ["has a state that was removed", edit((whole) => ({ ...whole, actors: { ...whole.actors, value: "levitating" } }))],
])("a floor whose row %s is out of order, and no other floor is", async (_, rewrite) => {
  const stage = await withRow({ rewrite });
  const { snapshot } = (await stage.store.store.loadFloor("u:ann" as never))!;
  await expectFailures(stage, "internal");
  expect(stage.metrics.breaks).toEqual(["snapshot", "snapshot"]);
  expect((await stage.rename("well", "c", { floorId: "u:bob" })).ok).toBe(true);
  expect((await stage.store.store.loadFloor("u:ann" as never))!.snapshot).toBe(snapshot);
});

test("a session outside the floor's memory whose row has a state that was removed is out of order, and its floor is not", async () => {
  const stage = await openFloor();
  await stage.on("music", "archive");
  const [row] = stage.store.changes.at(-1)!.sessions;
  const view = JSON.stringify({ ...JSON.parse(row!.view), activity: "levitating" });
  const later = await rewriteRows(stage, () => ({ sessions: [{ ...row!, view }] }));
  await expectFailures(later, "internal");
  expect(later.metrics.breaks).toEqual(["snapshot", "snapshot"]);
  expect((await later.create("weather", "weather")).ok).toBe(true);
});

test("a session that another node deletes between the two reads of a floor is a conflict, not a fault", async () => {
  const stage = await openFloor();
  const other = stage.neighbour();
  const deleted = Promise.withResolvers<void>();
  other.store.waiting.set("loadSessions", deleted.promise);
  const renamed = other.rename("music", "too late");
  await stage.ask({ type: "session.delete", sessionId: "music" });
  deleted.resolve();
  expect(await renamed).toMatchObject({ ok: false, code: "session_not_found" });
  expect([other.metrics.conflicts, other.metrics.breaks]).toEqual([1, []]);
});
