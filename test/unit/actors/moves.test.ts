import { expect, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { makeCatalog } from "../../support/catalogs/catalog.ts";
import { HostStage } from "../../support/floors/host-stage.ts";

const FRONT = "u:ann";
const REAR = "u:ann/rear";
const CATALOG = makeCatalog([
  { name: "call", priority: 90, when_blocked: "reject" },
  { name: "music", priority: 50, when_blocked: "reject" },
  { name: "news", priority: 40, when_blocked: "queue" },
]);

async function open(agentId = "music") {
  const stage = await HostStage.open();
  stage.catalog = CATALOG;
  const created = await stage.create("old", agentId, { ownerId: "ann" });
  return { stage, seq: seqOf(created) };
}

const seqOf = (reply: object): number => (reply as { seq: number }).seq;

/** What becomes of a session: its state; undefined if there is none. */
async function stateOf(stage: HostStage, id: string) {
  return (await stage.store.store.loadSession(id as SessionId))?.session.state;
}

/** Move `old` to the rear, or to another zone. */
function move(stage: HostStage, seq: number, asking: object = {}, agentId = "music", sessionId = "new", zone = "rear") {
  const session = { sessionId, agentId, userId: "ann", zone, ownerId: "ann" };
  const history = { messageCount: 0, origin: { by: "move" as const, sessionId: "old" } };
  const from = { sessionId: "old", floorId: FRONT, seq };
  const command = { type: "session.move", sessionId, session, history, from, turns: [] };
  return stage.ask(command as never, { floorId: `${FRONT}/${zone}`, ...asking });
}

const createThere = (stage: HostStage, agentId: string) =>
  stage.create(agentId, agentId, { floorId: REAR, ownerId: "ann" });

test("a session that is granted there leaves here, in one commit of both floors", async () => {
  const { stage, seq } = await open();
  const reply = await move(stage, seq);
  expect(reply).toMatchObject({ ok: true, session: { id: "new", state: "active", origin: { by: "move" } } });
  const { session } = (await stage.store.store.loadSession("old" as SessionId))!;
  expect(session).toMatchObject({ state: "archived", replacedBy: "new" });
  const last = stage.store.changes.at(-1)!;
  expect([last.floorId, last.along?.floorId]).toEqual([REAR, FRONT]);
  const left = last
    .along!.events.filter(({ type }) => type === "session_transition")
    .map(({ json }) => JSON.parse(json));
  expect(left).toEqual([
    expect.objectContaining({
      to: "archived",
      reason: "moved",
      movedTo: REAR,
      by: { sessionId: "new", agentId: "music" },
    }),
  ]);
});

test("a session brings its title along", async () => {
  const { stage } = await open();
  const renamed = await stage.rename("old", "A trip to Oslo");
  expect((await move(stage, seqOf(renamed))).ok).toBe(true);
  expect((await stage.store.store.loadSession("new" as SessionId))!.session.title).toBe("A trip to Oslo");
});

test("a session that waits there leaves here, and the next one here gets its place", async () => {
  const { stage, seq } = await open("news");
  await createThere(stage, "call");
  await stage.create("second", "news", { ownerId: "ann" });
  const before = await stateOf(stage, "second");
  const reply = await move(stage, seq, {}, "news");
  expect(reply).toMatchObject({ ok: true, session: { state: "created", queuedAt: expect.any(Number) } });
  expect([before, await stateOf(stage, "old"), await stateOf(stage, "second")]).toEqual([
    "created",
    "archived",
    "active",
  ]);
});

test("a session that is refused there stays as it is, and the repeat of its move gets the same refusal", async () => {
  const { stage, seq } = await open();
  await createThere(stage, "call");
  const version = (await stage.store.store.loadFloor(FRONT as never))!.version;
  const refused = await move(stage, seq, { commandId: "move" });
  expect(refused).toMatchObject({ ok: false, code: "rejected", facts: { decision: { outcome: "rejected" } } });
  expect(await move(stage, seq, { commandId: "move" })).toEqual(refused);
  expect((await stage.store.store.loadFloor(FRONT as never))!.version).toBe(version);
  expect([await stateOf(stage, "old"), await stateOf(stage, "new")]).toEqual(["active", undefined]);
});

test("whatever becomes of its commit, the session is on exactly one floor, and a repeat gets the one outcome", async () => {
  for (const fate of ["conflict", { refuseWith: new Error("away") }, { loseAnswerWith: new Error("lost") }] as const) {
    const { stage, seq } = await open();
    stage.store.fates.push(fate);
    const asking = { commandId: "move" };
    await move(stage, seq, asking).catch(() => undefined);
    const places = [await stateOf(stage, "old"), await stateOf(stage, "new")];
    expect([
      ["active", undefined],
      ["archived", "active"],
    ]).toContainEqual(places);
    // The node is lost, and the client repeats at another one.
    expect(await move(stage.neighbour(), seq, asking)).toMatchObject({ ok: true, session: { id: "new" } });
    expect([await stateOf(stage, "old"), await stateOf(stage, "new")]).toEqual(["archived", "active"]);
  }
});

test("two moves at once, on two nodes and to two floors: one takes place", async () => {
  const { stage, seq } = await open();
  const other = stage.neighbour();
  const outcomes = await Promise.allSettled([move(stage, seq), move(other, seq, {}, "music", "newer", "left")]);
  const moved = outcomes.filter((each) => each.status === "fulfilled" && each.value.ok);
  expect(moved).toHaveLength(1);
  const places = await Promise.all(["old", "new", "newer"].map((id) => stateOf(stage, id)));
  expect(places.filter((state) => state === "active")).toHaveLength(1);
  expect(places[0]).toBe("archived");
});

test("the floor that is left goes on at its own node, which learns of the commit", async () => {
  const { stage } = await open("news");
  await stage.create("second", "music", { ownerId: "ann" });
  const elsewhere = stage.neighbour();
  const now = (await stage.store.store.viewSession("old" as SessionId, 0))!.head;
  expect((await move(elsewhere, now, {}, "news")).ok).toBe(true);
  const gone = { ok: false, code: "session_archived", facts: { replacedBy: "new" } };
  expect(await stage.on("old", "pause")).toMatchObject(gone);
  expect(await stage.on("second", "pause")).toMatchObject({ ok: true, session: { state: "paused" } });
});

test("a session with newer events than were copied stays, and leaves no answer behind", async () => {
  const { stage, seq } = await open();
  const renamed = await stage.rename("old", "Other");
  expect(await stage.failureOf(move(stage, seq, { commandId: "move" }))).toBe("busy");
  expect((await move(stage, seqOf(renamed), { commandId: "move" })).ok).toBe(true);
});

test("a stale picture moves nothing, nor does a stranger, nor an ended session", async () => {
  const { stage, seq } = await open();
  expect(await move(stage, seq, { ifSeq: seq - 1 })).toMatchObject({
    code: "stale",
    facts: { seq, session: { id: "old", state: "active" } },
  });
  expect(await move(stage, seq, { actsFor: "eve", caller: "eve" })).toEqual({ ok: false, code: "session_not_found" });
  const ended = await stage.on("old", "archive");
  expect(await move(stage, seqOf(ended))).toMatchObject({ ok: false, code: "session_archived" });
  expect(await stateOf(stage, "new")).toBeUndefined();
});

test("a move in a batch is committed alone, and the others of the batch too", async () => {
  const { stage, seq } = await open();
  const [created, moved, flagged] = await Promise.all([
    createThere(stage, "news"),
    move(stage, seq),
    stage.ask({ type: "floor.flags", flags: { night: true } }, { floorId: REAR }),
  ]);
  expect([created.ok, moved.ok, flagged.ok]).toEqual([true, true, true]);
  expect(stage.store.changes.filter(({ along }) => along)).toHaveLength(1);
});
