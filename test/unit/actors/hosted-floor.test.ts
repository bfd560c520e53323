import { describe, expect, test } from "vitest";
import { MAX_BATCH, MAX_WAITING } from "../../../src/actors/host/hosted-floor.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import { HostStage } from "../../support/floors/host-stage.ts";

/** A catalogue that breaks the machine that asks it for this agent. */
function withBomb(catalog: Catalog): Catalog {
  const agents = new Map(catalog.agents);
  const get = agents.get.bind(agents);
  agents.get = (id) => {
    if (id === "bomb") throw new Error("it went off");
    return get(id);
  };
  return { ...catalog, agents };
}

/** A floor on which `music` plays; its first commit is behind it. */
async function openFloor(): Promise<HostStage> {
  const stage = await HostStage.open();
  await stage.create("music", "music");
  return stage;
}

const names = (count: number, prefix = "s") => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

describe("one batch at a time", () => {
  test("commands that arrive during a commit enter no actor, and share the next commits, 64 to each", async () => {
    const stage = await openFloor();
    stage.store.hold();
    const first = stage.create("first", "chat", { activate: false });
    await stage.store.asked(2);
    const entered = stage.entered;
    const rest = names(2 * MAX_BATCH + 3).map((id) => stage.create(id, "chat", { activate: false }));
    await stage.settle();
    expect([stage.entered, stage.store.changes.length]).toEqual([entered, 2]);
    stage.store.release();
    const replies = await Promise.all([first, ...rest]);
    expect(replies.every((reply) => reply.ok)).toBe(true);
    expect(stage.metrics.batches).toEqual([1, 1, MAX_BATCH, MAX_BATCH, 3]);
    expect(stage.store.changes.slice(2).map(({ receipts }) => receipts.length)).toEqual([MAX_BATCH, MAX_BATCH, 3]);
  });

  test("commands of one turn of the event loop share the first commit, in the order in which they were sent", async () => {
    const stage = await openFloor();
    const titles = ["one", "two", "three"];
    await Promise.all(titles.map((title) => stage.rename("music", title)));
    expect(stage.metrics.batches).toEqual([1, 3]);
    const events = stage.store.changes[1]!.events;
    expect(events.map(({ json }) => JSON.parse(json).title)).toEqual(titles);
  });

  test("no command of a batch is answered before its commit", async () => {
    const stage = await openFloor();
    stage.store.hold();
    let answered = 0;
    const asked = ["a", "b"].map((title) => stage.rename("music", title).finally(() => answered++));
    await stage.store.asked(2);
    await stage.settle();
    expect(answered).toBe(0);
    stage.store.release();
    await Promise.all(asked);
  });

  test("each answer has the position of its session's log", async () => {
    const stage = await openFloor();
    const replies = await Promise.all([stage.rename("music", "a"), stage.rename("music", "b")]);
    const [first, second] = replies.map((reply) => (reply.ok ? reply.seq! : Number.NaN));
    expect(second).toBe(first! + 1);
  });

  test("a floor that has all it can keep waiting is busy, and takes more when it has come further", async () => {
    const stage = await openFloor();
    stage.store.hold();
    const first = stage.rename("music", "first");
    await stage.store.asked(2);
    const waiting = names(MAX_WAITING).map((title) => stage.rename("music", title));
    expect(await stage.failureOf(stage.rename("music", "one too many"))).toBe("busy");
    // A repeat of one that waits is none more.
    stage.store.release();
    expect((await Promise.all([first, ...waiting])).every((reply) => reply.ok)).toBe(true);
    expect((await stage.rename("music", "later")).ok).toBe(true);
  });
});

describe("a deadline", () => {
  test("a deadline that has passed while the command waited is its end: it never begins", async () => {
    const stage = await openFloor();
    stage.store.hold();
    const before = stage.rename("music", "before");
    await stage.store.asked(2);
    const { entered } = stage;
    const late = stage.failureOf(stage.rename("music", "late", { deadline: stage.clock.now() + 1_000 }));
    const patient = stage.rename("music", "patient", { deadline: stage.clock.now() + 60_000 });
    stage.clock.jump(1_001);
    stage.store.release();
    expect(await late).toBe("unavailable");
    expect([(await before).ok, (await patient).ok]).toEqual([true, true]);
    expect(stage.entered).toBe(entered + 1);
    expect(stage.store.changes.flatMap(({ events }) => events).some(({ json }) => json.includes("late"))).toBe(false);
  });

  test("a deadline that has passed when the command is to be delivered again is its end, too", async () => {
    const stage = await openFloor();
    stage.store.hold();
    stage.store.fates.push("conflict");
    const asked = stage.failureOf(stage.rename("music", "late", { deadline: stage.clock.now() + 1_000 }));
    await stage.store.asked(2);
    stage.clock.jump(1_001);
    stage.store.release();
    expect(await asked).toBe("unavailable");
    expect(stage.store.changes).toHaveLength(2);
  });

  test("a deadline is the last instant at which it may begin", async () => {
    const stage = await openFloor();
    expect((await stage.rename("music", "just so", { deadline: stage.clock.now() })).ok).toBe(true);
  });
});

describe("a repeat", () => {
  test("a repeat of what waits or is under way joins it: one effect, one answer", async () => {
    const stage = await openFloor();
    stage.store.hold();
    const first = stage.rename("music", "first", { commandId: "one" });
    await stage.store.asked(2);
    const again = stage.rename("music", "first", { commandId: "one" });
    const waiting = ["two", "two", "two"].map((commandId) => stage.rename("music", "second", { commandId }));
    stage.store.release();
    const replies = await Promise.all([first, again, ...waiting]);
    expect(replies[1]).toEqual(replies[0]);
    expect(new Set(replies.slice(2).map((reply) => JSON.stringify(reply))).size).toBe(1);
    expect(stage.store.changes.map(({ receipts }) => receipts.map(({ commandId }) => commandId))).toEqual([
      [expect.any(String)],
      ["one"],
      ["two"],
    ]);
  });

  test("a repeat with another body is a mismatch, and its original goes on", async () => {
    const stage = await openFloor();
    stage.store.hold();
    const first = stage.rename("music", "first", { commandId: "one" });
    await stage.store.asked(2);
    const other = stage.rename("music", "other", { commandId: "one", bodyHash: "another body" });
    expect(await stage.failureOf(other)).toBe("idempotency_mismatch");
    stage.store.release();
    expect(await first).toMatchObject({ ok: true, session: { title: "first" } });
  });

  test("a repeat of another caller is no repeat", async () => {
    const stage = await openFloor();
    const replies = await Promise.all([
      stage.rename("music", "hers", { commandId: "one" }),
      stage.rename("music", "his", { commandId: "one", caller: "bob" }),
    ]);
    expect(replies.map((reply) => reply.ok && reply.session?.title)).toEqual(["hers", "his"]);
  });

  test("a repeat after the answer is answered from the receipt, word for word, although other commands followed", async () => {
    const stage = await openFloor();
    const first = await stage.rename("music", "first", { commandId: "one" });
    await stage.rename("music", "second");
    expect(await stage.rename("music", "first", { commandId: "one" })).toEqual(first);
    const other = await stage.rename("music", "other", { commandId: "one", bodyHash: "another body" });
    expect(other).toEqual({ ok: false, code: "idempotency_mismatch" });
    const { title } = (await stage.store.store.loadSession("music" as never))!.session;
    expect(title).toBe("second");
  });

  test("a repeat of a refusal is refused again, though it would be granted by now", async () => {
    const stage = await openFloor();
    await stage.create("call", "phone");
    const refused = await stage.on("music", "resume", { commandId: "one" });
    expect(refused).toMatchObject({ ok: false, code: "rejected" });
    await stage.on("call", "archive");
    expect(await stage.on("music", "resume", { commandId: "one" })).toEqual(refused);
  });

  test("a repeat of a key that was used on another floor is a mismatch, and changes nothing here", async () => {
    const stage = await openFloor();
    await stage.create("other", "music", { floorId: "u:bob", commandId: "one" });
    const reply = await stage.rename("music", "first", { commandId: "one" });
    expect(reply).toEqual({ ok: false, code: "idempotency_mismatch" });
    expect((await stage.store.store.loadSession("music" as never))!.session.title).not.toBe("first");
  });
});

describe("a command that breaks the machines", () => {
  test("a command that breaks the machines alone is answered with internal, and the others of its batch succeed", async () => {
    const stage = await openFloor();
    stage.catalog = withBomb(stage.catalog);
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
    // Once each, and one per commit.
    expect(stage.metrics.batches).toEqual([1, 1, 1, 1]);
    const receipts = await stage.store.store.findReceipts([{ caller: "ann", commandId: "boom" }]);
    expect(receipts).toEqual([]);
    expect(await stage.store.store.loadSession("boom" as never)).toBeUndefined();
  });

  test("a command that breaks the machines leaves a floor that goes on from the store", async () => {
    const stage = await openFloor();
    const whole = stage.catalog;
    stage.catalog = withBomb(whole);
    expect(await stage.failureOf(stage.create("boom", "bomb"))).toBe("internal");
    stage.catalog = whole;
    expect(await stage.create("weather", "weather")).toMatchObject({ ok: true, decision: { reason: "preempted" } });
    expect(stage.store.callsOf("loadFloor")).toBe(2);
  });

  test("a command that breaks the machines breaks them also where a session throws, and not the arbiter", async () => {
    const stage = await openFloor();
    await stage.run("music", "r1");
    const { catalog } = stage;
    const agents = new Map(catalog.agents);
    agents.get = () => {
      throw new Error("it went off");
    };
    stage.catalog = { ...catalog, agents };
    expect(await stage.failureOf(stage.on("music", "pause"))).toBe("internal");
    stage.catalog = catalog;
    expect(await stage.on("music", "pause")).toMatchObject({ ok: true, session: { state: "paused" } });
    const { events } = stage.store.changes.at(-1)!;
    expect(events.map(({ json }) => JSON.parse(json).to)).toEqual(["paused"]);
  });
});

describe("a conflict", () => {
  test("a conflict drops the actors: what another host committed is loaded, and the command delivered again", async () => {
    const stage = await openFloor();
    const other = stage.neighbour();
    await other.rename("music", "by another");
    await other.create("call", "phone");
    expect(await stage.on("music", "activate")).toMatchObject({ ok: false, code: "rejected" });
    expect([stage.metrics.conflicts, stage.store.callsOf("loadFloor")]).toEqual([1, 2]);
    const { head, version } = (await stage.store.store.loadFloor("u:ann" as never))!;
    expect(version).toBe(4);
    const log = await stage.store.store.readFloorLog("u:ann" as never, 0, 100);
    expect(log.entries.map(({ floorSeq }) => floorSeq)).toEqual(Array.from({ length: head }, (_, n) => n + 1));
  });

  test("a conflict with another host that had the same command is answered from its receipt", async () => {
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
    const created = (await stage.store.store.readFloorLog("u:ann" as never, 0, 100)).entries.filter(
      ({ type }) => type === "session_created",
    );
    expect(created.map(({ sessionId }) => sessionId)).toEqual(["music", "weather"]);
  });

  test("a conflict that does not end is given up: the outcome is unknown", async () => {
    const stage = await openFloor();
    stage.store.fates.push(...Array.from({ length: 50 }, () => "conflict" as const));
    expect(await stage.failureOf(stage.rename("music", "in vain"))).toBe("unavailable");
    stage.store.fates.length = 0;
    expect((await stage.rename("music", "again")).ok).toBe(true);
  });
});

describe("a commit that fails", () => {
  test("a commit that fails answers no command, and leaves nothing in memory", async () => {
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
    expect(again).toMatchObject({
      ok: true,
      session: { id: "call", state: "active" },
      decision: { reason: "preempted" },
    });
    const { head } = await stage.store.store.readFloorLog("u:ann" as never, 0, 1);
    expect(head).toBe(events.at(-1)!.floorSeq);
  });

  test.each(["alone", "with others"])(
    "a commit that fails with an unknown outcome, after it was written, is answered from the receipt (%s)",
    async (how) => {
      const stage = await openFloor();
      stage.store.fates.push({ loseAnswerWith: new Error("the answer made no sense") });
      const asked = [stage.create("call", "phone"), ...(how === "alone" ? [] : [stage.rename("music", "whole")])];
      const [created, renamed] = await Promise.all(asked);
      expect(created).toMatchObject({ ok: true, session: { id: "call", state: "active" } });
      if (renamed) expect(renamed).toMatchObject({ ok: true, session: { title: "whole", state: "paused" } });
      const { entries } = await stage.store.store.readFloorLog("u:ann" as never, 0, 100);
      expect(entries.filter(({ type }) => type === "session_created")).toHaveLength(2);
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
});

describe("an answer that changes nothing", () => {
  const still = { type: "run.still" as const, sessionId: "music", runId: "r1", attempt: 1 };

  test("an answer that changes nothing is not given from memory alone: a host that is behind asks the store first", async () => {
    const stage = await openFloor();
    await stage.run("music", "r1");
    expect(await stage.ask(still, { caller: null })).toMatchObject({ standing: { standing: "go" } });
    await stage.neighbour().on("music", "abort");
    expect(await stage.ask(still, { caller: null })).toMatchObject({ standing: { standing: "stop" } });
    expect(stage.metrics.conflicts).toBe(1);
  });

  test("an answer that changes nothing writes nothing", async () => {
    const stage = await openFloor();
    await stage.run("music", "r1");
    const before = stage.store.changes.length;
    await stage.ask(still, { caller: null });
    expect([stage.store.changes.length, stage.store.callsOf("confirm")]).toEqual([before, 1]);
  });
});

describe("a floor whose row cannot be read here", () => {
  /** The next time the floor is loaded its row is like this. */
  async function withRow(over: { format?: number; rewrite?: (snapshot: string) => string }): Promise<HostStage> {
    const stage = await openFloor();
    await stage.run("music", "r1");
    await stage.create("well", "music", { floorId: "u:bob" });
    const { head, version, snapshot, format } = (await stage.store.store.loadFloor("u:ann" as never))!;
    const nothing = { free: [], sessions: [], events: [], receipts: [], effectsAdded: [], effectsRemoved: [] };
    const change = { ...stage.store.changes[0]!, ...nothing, expected: version, head };
    const row = { snapshot: over.rewrite?.(snapshot) ?? snapshot, format: over.format ?? format };
    expect(await stage.store.store.commit({ ...change, ...row })).toBe("committed");
    return stage.neighbour();
  }

  const edit = (change: (whole: { actors: Record<string, unknown> }) => object) => (snapshot: string) =>
    JSON.stringify(change(JSON.parse(snapshot)));

  test("a floor whose row cannot be read here because a newer release wrote it is left to that release: unavailable", async () => {
    const stage = await withRow({ format: 99 });
    const asked = [stage.rename("music", "a"), stage.rename("music", "b")];
    expect(await Promise.all(asked.map((each) => stage.failureOf(each)))).toEqual(["unavailable", "unavailable"]);
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
  ])("because it %s is out of order, and no other floor is", async (_, rewrite) => {
    await checkOutOfOrder(await withRow({ rewrite }));
  });

  /** The snapshot as format 2 had it: with the sessions inside. */
  const withChild = (child: object) =>
    edit(({ actors }) => ({
      machine: "arbiter",
      lastNow: 1,
      seqs: {},
      actors: { ...actors, children: { music: child } },
    }));
  const snapshot = { status: "active", value: { lifecycle: "active", activity: "running" }, context: {} };

  test.each([
    ["lacks where its logs stand", edit((whole) => whole)],
    [
      "has a session in a state that was removed",
      withChild({ src: "session", snapshot: { ...snapshot, value: { lifecycle: "levitating", activity: "idle" } } }),
    ],
    ["has a session of another machine", withChild({ src: "toaster", snapshot })],
  ])("because an older release wrote it and it %s is out of order, and no other floor is", async (_, rewrite) => {
    await checkOutOfOrder(await withRow({ rewrite, format: 2 }));
  });

  async function checkOutOfOrder(stage: HostStage): Promise<void> {
    const { snapshot } = (await stage.store.store.loadFloor("u:ann" as never))!;
    const asked = [stage.rename("music", "a"), stage.rename("music", "b")];
    expect(await Promise.all(asked.map((each) => stage.failureOf(each)))).toEqual(["internal", "internal"]);
    expect(stage.metrics.breaks).toEqual(["snapshot", "snapshot"]);
    expect((await stage.rename("well", "c", { floorId: "u:bob" })).ok).toBe(true);
    expect((await stage.store.store.loadFloor("u:ann" as never))!.snapshot).toBe(snapshot);
  }

  test("a floor whose row cannot be read here unless another node wrote it meanwhile: a session that is deleted between the two reads is a conflict", async () => {
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
});

test("effects requested while a floor's time is ahead of the clock are due by the clock", async () => {
  const stage = await HostStage.open();
  await stage.create("music", "music");
  stage.clock.jump(600_000);
  await stage.rename("music", "in the future");
  stage.clock.jump(-600_000);
  stage.armed.length = 0;
  const turn = { messageId: "m", runId: "r", content: "go" };
  await stage.ask({ type: "session.chat", sessionId: "music", turn });
  expect(stage.armed.map(({ kind, dueAt }) => [kind, dueAt <= stage.clock.now()])).toEqual([["run", true]]);
});
