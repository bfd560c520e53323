import { expect, test } from "vitest";
import { MAX_BATCH, MAX_WAITING_COMMANDS } from "../../../src/actors/host/host.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { openFloor } from "../../support/floors/hosted-floor.ts";

/** A floor whose commit of the renaming to `first` is held. */
async function openHeld() {
  const stage = await openFloor();
  stage.store.hold();
  const first = stage.rename("music", "first", { commandId: "one" });
  await stage.store.asked(2);
  return { stage, first };
}

const names = (count: number, prefix = "s") => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

test("commands that arrive during a commit reach no actor, and share the next commits, 64 in each", async () => {
  const { stage, first } = await openHeld();
  const { entered } = stage;
  const rest = names(2 * MAX_BATCH + 3).map((id) => stage.create(id, "chat", { activate: false }));
  await stage.settle();
  expect([stage.entered, stage.store.changes.length]).toEqual([entered, 2]);
  stage.store.release();
  const replies = await Promise.all([first, ...rest]);
  expect(replies.every((reply) => reply.ok)).toBe(true);
  expect(stage.metrics.batches).toEqual([1, 1, MAX_BATCH, MAX_BATCH, 3]);
  expect(stage.store.changes.slice(2).map(({ receipts }) => receipts.length)).toEqual([MAX_BATCH, MAX_BATCH, 3]);
});

test("each answer has the position of its session's log", async () => {
  const stage = await openFloor();
  const replies = await Promise.all([stage.rename("music", "a"), stage.rename("music", "b")]);
  const [first, second] = replies.map((reply) => (reply.ok ? reply.seq! : Number.NaN));
  expect(second).toBe(first! + 1);
});

test("a floor with a full queue of commands is busy, and accepts more after its next commits", async () => {
  const { stage, first } = await openHeld();
  const waiting = names(MAX_WAITING_COMMANDS).map((title) => stage.rename("music", title));
  expect(await stage.failureOf(stage.rename("music", "one too many"))).toBe("busy");
  // A repeat of a waiting command adds none.
  stage.store.release();
  expect((await Promise.all([first, ...waiting])).every((reply) => reply.ok)).toBe(true);
  expect((await stage.rename("music", "later")).ok).toBe(true);
});

test("a command whose deadline passes while it waits is never begun", async () => {
  const { stage, first } = await openHeld();
  const { entered } = stage;
  const late = stage.failureOf(stage.rename("music", "late", { timeoutAt: stage.clock.now() + 1_000 }));
  const patient = stage.rename("music", "patient", { timeoutAt: stage.clock.now() + 60_000 });
  stage.clock.jump(1_001);
  stage.store.release();
  expect(await late).toBe("unavailable");
  expect([(await first).ok, (await patient).ok]).toEqual([true, true]);
  expect(stage.entered).toBe(entered + 1);
  expect(stage.store.changes.flatMap(({ events }) => events).some(({ json }) => json.includes("late"))).toBe(false);
});

test("a command whose deadline has passed before a second delivery is never begun again", async () => {
  const stage = await openFloor();
  stage.store.hold();
  stage.store.fates.push("conflict");
  const asked = stage.failureOf(stage.rename("music", "late", { timeoutAt: stage.clock.now() + 1_000 }));
  await stage.store.asked(2);
  stage.clock.jump(1_001);
  stage.store.release();
  expect(await asked).toBe("unavailable");
  expect(stage.store.changes).toHaveLength(2);
});

test("a command may still begin at the instant of its deadline", async () => {
  const stage = await openFloor();
  expect((await stage.rename("music", "just so", { timeoutAt: stage.clock.now() })).ok).toBe(true);
});

test("a repeat of a waiting or running command joins it: one run request, one answer", async () => {
  const { stage, first } = await openHeld();
  const again = stage.rename("music", "first", { commandId: "one" });
  const waiting = ["two", "two", "two"].map((commandId) => stage.rename("music", "second", { commandId }));
  stage.store.release();
  const replies = await Promise.all([first, again, ...waiting]);
  expect(replies[1]).toEqual(replies[0]);
  expect(new Set(replies.slice(2).map((reply) => JSON.stringify(reply))).size).toBe(1);
  const committed = stage.store.changes.map(({ receipts }) => receipts.map(({ commandId }) => commandId));
  expect(committed).toEqual([[expect.any(String)], ["one"], ["two"]]);
});

test("a repeat with another body is a mismatch, and the original command continues", async () => {
  const { stage, first } = await openHeld();
  const other = stage.rename("music", "other", { commandId: "one", bodyHash: "another body" });
  expect(await stage.failureOf(other)).toBe("idempotency_mismatch");
  stage.store.release();
  expect(await first).toMatchObject({ ok: true, session: { title: "first" } });
});

test("the same key of another caller is not a repeat", async () => {
  const stage = await openFloor();
  const replies = await Promise.all([
    stage.rename("music", "hers", { commandId: "one" }),
    stage.rename("music", "his", { commandId: "one", caller: "bob" }),
  ]);
  expect(replies.map((reply) => reply.ok && reply.session?.title)).toEqual(["hers", "his"]);
});

test("a repeat after the answer gets the receipt's answer unchanged, although other commands followed", async () => {
  const stage = await openFloor();
  const first = await stage.rename("music", "first", { commandId: "one" });
  await stage.rename("music", "second");
  expect(await stage.rename("music", "first", { commandId: "one" })).toEqual(first);
  const other = await stage.rename("music", "other", { commandId: "one", bodyHash: "another body" });
  expect(other).toEqual({ ok: false, code: "idempotency_mismatch" });
  const { title } = (await stage.store.store.loadSession("music" as never))!.session;
  expect(title).toBe("second");
});

test("a repeat of a refused command is refused again, although it would be granted by now", async () => {
  const stage = await openFloor();
  await stage.create("call", "phone");
  const refused = await stage.on("music", "resume", { commandId: "one" });
  expect(refused).toMatchObject({ ok: false, code: "rejected" });
  await stage.on("call", "archive");
  expect(await stage.on("music", "resume", { commandId: "one" })).toEqual(refused);
});

test("a repeat of a key that was used on another floor is a mismatch, and changes nothing on this floor", async () => {
  const stage = await openFloor();
  await stage.create("other", "music", { floorId: "u:bob", commandId: "one" });
  const reply = await stage.rename("music", "first", { commandId: "one" });
  expect(reply).toEqual({ ok: false, code: "idempotency_mismatch" });
  expect((await stage.store.store.loadSession("music" as never))!.session.title).not.toBe("first");
});

const still = { type: "run.still" as const, sessionId: "music", runId: "r1", attempt: 1 };

test("a command that changes nothing is not answered from memory alone: a host that is behind reads the store first", async () => {
  const stage = await openFloor();
  await stage.run("music", "r1");
  expect(await stage.ask(still, { caller: null })).toMatchObject({ directive: { verdict: "go" } });
  await stage.neighbour().on("music", "abort");
  expect(await stage.ask(still, { caller: null })).toMatchObject({ directive: { verdict: "stop" } });
  expect(stage.metrics.conflicts).toBe(1);
});

test("a command that changes nothing writes and publishes nothing", async () => {
  const stage = await openFloor();
  await stage.run("music", "r1");
  const before = stage.store.changes.length;
  const messages = await stage.hear();
  await stage.ask(still, { caller: null });
  await stage.settle();
  expect([stage.store.changes.length, stage.store.callsOf("confirm"), messages]).toEqual([before, 1, []]);
});

test("run requests requested while a floor's time is ahead of the clock are due by the clock", async () => {
  const stage = await openFloor();
  stage.clock.jump(600_000);
  await stage.rename("music", "in the future");
  stage.clock.jump(-600_000);
  stage.armed.length = 0;
  const turn = { messageId: "m", runId: "r", content: "go" };
  await stage.ask({ type: "session.chat", sessionId: "music", turn });
  expect(stage.armed.map(({ kind, dueAt }) => [kind, dueAt <= stage.clock.now()])).toEqual([["run", true]]);
});

test("the log has each deadline as long after its beginning as the catalogue says, however the clock's readings fall", async () => {
  const stage = await openFloor();
  stage.catalog = makeCatalog([{ name: "music", priority: 20, max_pause: "30ms" }]);
  await stage.on("music", "archive");
  // Between two readings some of a ms passes, each time another part.
  const { clock } = stage;
  const now = clock.now.bind(clock);
  let readings = 0;
  clock.now = () => Math.floor(now() + readings++ * 0.382);
  for (const [index, id] of names(20).entries()) {
    readings += index;
    await stage.create(id, "music");
    await stage.on(id, "pause");
    await clock.advance(1_000);
    await stage.rename(id, "too late");
  }
  const moves = stage.store.changes.flatMap(({ events }) => events.filter(({ type }) => type === "session_transition"));
  const at = (verb: string) => moves.flatMap(({ json, at }) => (JSON.parse(json).event === verb ? [at] : []));
  const paused = at("pause");
  expect(paused).toHaveLength(20);
  expect(at("expire").map((end, index) => end - paused[index]!)).toEqual(paused.map(() => 30));
});
