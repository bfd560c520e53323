import { describe, expect, test } from "vitest";
import type { FloorId, MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { LogLine } from "../../../src/protocol/message.ts";
import type { Session } from "../../../src/protocol/session.ts";
import type { StoredFloorQuery } from "../../../src/store/store.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
const id = (text: string) => text as MessageId;
const LIMITS = { sessions: 10, decisions: 10 };

/** Messages, and the rows of connections. */
export function messageContract(stage: StoreStage): void {
  /**
   * A session `a` with messages `m1` to `m9`, written in two commits; their ids do not sort in the order of writing.
   */
  async function talk(): Promise<FloorWriter> {
    const { floor } = stage;
    const names = ["m9", "m2", "m7", "m4", "m5", "m6", "m3", "m8", "m1"];
    const adds = names.map((name) => ({ kind: "add" as const, message: makeMessage("a", name) }));
    const events = [floor.event("session_created", {}, { session: "a" })];
    await floor.write({ sessions: [floor.session("a")], messages: adds.slice(0, 4), events });
    await floor.write({ messages: adds.slice(4) });
    return floor;
  }

  describe("messages", () => {
    const list = async (range: { after?: string; before?: string; limit: number }) => {
      const { after, before, limit } = range;
      const page = await stage.store.listMessages(A, {
        limit,
        after: after === undefined ? undefined : id(after),
        before: before === undefined ? undefined : id(before),
      });
      return page && [page.messages.map((message) => message.id).join(" "), page.hasMore];
    };

    test("messages are listed in the order in which they were written, the newest page first or from a message", async () => {
      await talk();
      expect(await list({ limit: 3 })).toEqual(["m3 m8 m1", true]);
      expect(await list({ limit: 9 })).toEqual(["m9 m2 m7 m4 m5 m6 m3 m8 m1", false]);
      expect(await list({ before: "m3", limit: 2 })).toEqual(["m5 m6", true]);
      expect(await list({ before: "m5", limit: 4 })).toEqual(["m9 m2 m7 m4", false]);
      expect(await list({ before: "m9", limit: 4 })).toEqual(["", false]);
      expect(await list({ after: "m9", limit: 2 })).toEqual(["m2 m7", true]);
      expect(await list({ after: "m3", limit: 2 })).toEqual(["m8 m1", false]);
      expect(await list({ after: "m1", limit: 2 })).toEqual(["", false]);
      expect(await list({ after: "m2", before: "m5", limit: 9 })).toEqual(["m7 m4", false]);
      expect(await list({ after: "m2", before: "m3", limit: 2 })).toEqual(["m7 m4", true]);
      // An unknown message to start from, and a missing session.
      await expect(list({ after: "nothing", limit: 2 })).rejects.toMatchObject({ code: "not_found" });
      await expect(list({ before: "nothing", limit: 2 })).rejects.toMatchObject({ code: "not_found" });
      expect(await stage.store.listMessages("b" as SessionId, { limit: 2 })).toBeUndefined();
    });

    test("a session is shown with its newest messages and the head they belong to", async () => {
      const floor = await talk();
      const view = await stage.store.viewSession(A, 2);
      expect(view).toMatchObject({ session: floor.session("a"), head: 1, hasMore: true });
      expect(view?.messages).toEqual([makeMessage("a", "m8"), makeMessage("a", "m1")]);
      expect(await stage.store.viewSession(A, 9)).toMatchObject({ hasMore: false });
      expect(await stage.store.viewSession("b" as SessionId, 9)).toBeUndefined();
    });
  });

  describe("connections", () => {
    const row = {
      id: "c0nn" as never,
      ownerId: "o",
      userId: "ann",
      slots: [{ sessionId: A, floorId: "u:ann" as FloorId, from: 3, ended: true as const }],
      expiresAt: NOON,
      version: 0,
    };

    test("a connection's row is compared and set on its version", async () => {
      const { store } = stage;
      expect(await store.loadConnection(row.id)).toBeUndefined();
      expect(await store.saveConnection({ ...row, version: 1 })).toBe("conflict");
      expect(await store.saveConnection(row)).toBe("saved");
      expect(await store.saveConnection(row)).toBe("conflict");
      expect(await store.loadConnection(row.id)).toEqual({ ...row, version: 1 });
      const bare = { id: row.id, slots: [], expiresAt: NOON + 1, version: 1 };
      expect(await store.saveConnection(bare)).toBe("saved");
      expect(await store.saveConnection({ ...row, version: 1 })).toBe("conflict");
      expect(await store.loadConnection(row.id)).toEqual({ ...bare, version: 2 });
    });

    test("exactly one of several concurrent writes of a connection is saved", async () => {
      const saves = Array.from({ length: 10 }, () => stage.store.saveConnection(row));
      expect((await Promise.all(saves)).filter((outcome) => outcome === "saved")).toHaveLength(1);
    });
  });
}

/** What clients see of floors, of what messages have besides their text, and in which order. */
export function viewContract(stage: StoreStage): void {
  describe("details of messages", () => {
    // W8.
    test("log lines are paged in their order, and a repeated line is stored once", async () => {
      const { store, floor } = stage;
      const adds = ["m1", "m2"].map((name) => ({ kind: "add" as const, message: makeMessage("a", name) }));
      await floor.write({ sessions: [floor.session("a")], messages: adds });
      const lines = ["9", "2", "5"].map((name, n): LogLine => {
        return { id: name, stream: n === 1 ? "stderr" : "stdout", text: `line ${n}\n`, timestamp: NOON + n };
      });
      const logs = lines.map((line) => ({ sessionId: A, messageId: id("m1"), line }));
      await floor.write({ logs: logs.slice(0, 2) });
      await floor.write({ logs: logs.slice(1) });
      expect(await store.listLogs(A, id("m1"), { limit: 2 })).toEqual({ logs: lines.slice(0, 2), hasMore: true });
      const rest = { logs: lines.slice(2), hasMore: false };
      expect(await store.listLogs(A, id("m1"), { after: "2", limit: 2 })).toEqual(rest);
      expect(await store.listLogs(A, id("m2"), { limit: 2 })).toEqual({ logs: [], hasMore: false });
      for (const [session, message, after] of [
        ["b", "m1"],
        ["a", "m0"],
        ["a", "m1", "7"],
      ] as const) {
        const range = { limit: 2, ...(after && { after }) };
        const listing = store.listLogs(session as SessionId, id(message), range);
        await expect(listing).rejects.toMatchObject({ status: 404 });
      }
    });
  });

  describe("floors", () => {
    test("an unused floor is empty, and a change that is a conflict is not shown", async () => {
      const { store, floor } = stage;
      const empty = { head: 0, flags: {}, ducked: [], paused: [], queued: [], decisions: [] };
      expect(await store.viewFloor(floor.id, LIMITS)).toEqual(empty);
      await floor.write();
      const change = { sessions: [floor.session("a", { state: "active" })], flags: { emergency: true } };
      expect(await store.commit({ ...floor.change(change), expected: 0 })).toBe("conflict");
      expect(await store.viewFloor(floor.id, LIMITS)).toEqual(empty);
    });

    test("a floor shows its holder, the paused sessions, last paused first, and the queued ones, longest waiting first", async () => {
      const { store, floor } = stage;
      const paused = (name: string, over: Partial<Session> = {}) => floor.session(name, { state: "paused", ...over });
      const pauseOf = (session: string) => floor.event("session_transition", { to: "paused" }, { session });
      await floor.write({ sessions: [paused("p2")], events: [pauseOf("p2")] });
      const two = [pauseOf("p3"), pauseOf("p1")];
      await floor.write({
        sessions: [paused("p1"), paused("p3"), floor.session("h", { state: "active" }), floor.session("c")],
        events: [...two, floor.event("session_created", {}, { session: "p1" })],
        flags: { emergency: true },
      });
      const queued = [3, 1, 2].map((at) => floor.session(`q${at}`, { queuedAt: NOON + at }));
      await floor.write({ sessions: queued, flags: { emergency: true } });
      // A rename is not a pause.
      const renamed = [paused("p2", { title: "Renamed" })];
      await floor.write({ sessions: renamed, events: [floor.event("session_updated", {}, { session: "p2" })] });

      const view = await store.viewFloor(floor.id, LIMITS);
      expect(view.holder?.id).toBe("h");
      expect(view.paused.map((session) => session.id)).toEqual(["p1", "p3", "p2"]);
      expect(view.queued.map((session) => session.id)).toEqual(["q1", "q2", "q3"]);
      expect(view).toMatchObject({ head: floor.head, flags: {} });
      const few = await store.viewFloor(floor.id, { sessions: 1, decisions: 1 });
      expect([few.paused[0]?.id, few.queued[0]?.id, few.paused.length, few.queued.length]).toEqual(["p1", "q1", 1, 1]);

      await floor.write({ sessions: [floor.session("p1", { state: "active" }), paused("p3"), floor.session("h")] });
      const again = pauseOf("p2");
      await floor.write({ sessions: [paused("p2")], events: [again] });
      const later = await store.viewFloor(floor.id, LIMITS);
      expect([later.holder?.id, ...later.paused.map((session) => session.id)]).toEqual(["p1", "p2", "p3"]);
    });

    test("a floor shows sessions and decisions up to the one that reaches the size limit", async () => {
      const { store, floor } = stage;
      const summary = "x".repeat(100_000);
      const sessions = Array.from({ length: 15 }, (_, index) => [
        floor.session(`p${index}`, { state: "paused", summary }),
        floor.session(`q${index}`, { queuedAt: NOON + index, summary }),
        floor.session(`d${index}`, { state: "ducked", priority: 9, level: -14, summary }),
      ]).flat();
      const decisions = Array.from({ length: 15 }, (_, index) =>
        floor.event("arbitration", { say: `${index}${summary}` }),
      );
      await floor.write({ sessions, events: decisions });
      const view = await store.viewFloor(floor.id, { sessions: 200, decisions: 50 });
      const counts = [view.ducked, view.paused, view.queued, view.decisions].map(({ length }) => length);
      expect(counts).toEqual([11, 11, 11, 11]);
      expect(view.queued[0]?.id).toBe("q0");
      // Newest last.
      expect(view.decisions.at(-1)?.say.slice(0, 2)).toBe("14");
    });

    test("floors are listed in pages that end with the one that reaches the size limit", async () => {
      const { store } = stage;
      const flags = Object.fromEntries(
        Array.from({ length: 32 }, (_, index) => [`${"f".repeat(60)}${String(index).padStart(4, "0")}`, true]),
      );
      const ids = Array.from({ length: 300 }, (_, index) => {
        return `u:${String(index).padStart(4, "0")}${"%E8%BB%8A".repeat(120)}` as FloorId;
      });
      await Promise.all(ids.map((id) => new FloorWriter(store, id).write({ flags })));
      const first = await store.listFloors({ limit: 1_000 });
      expect(first.hasMore).toBe(true);
      const rest = await store.listFloors({ limit: 1_000, after: first.floors.at(-1)!.floorId });
      expect(rest.hasMore).toBe(false);
      expect([...first.floors, ...rest.floors].map(({ floorId }) => floorId)).toEqual(ids);
      expect(JSON.stringify(first.floors).length).toBeLessThan(1_300_000);
    });

    test("a floor shows and counts the ducked sessions, the highest priority first", async () => {
      const { store, floor } = stage;
      const ducked = (name: string, priority: number) => floor.session(name, { state: "ducked", priority, level: -14 });
      await floor.write({
        sessions: [ducked("low", 9), ducked("high", 80), floor.session("h", { state: "active" }), ducked("mid", 20)],
      });
      const idsOf = async (limit: number) =>
        (await store.viewFloor(floor.id, { sessions: limit, decisions: 1 })).ducked.map(({ id }) => id);
      expect(await idsOf(9)).toEqual(["high", "mid", "low"]);
      expect(await idsOf(1)).toEqual(["high"]);
      expect((await store.listFloors({ limit: 9 })).floors).toMatchObject([
        { ducked: 3, paused: 0, queued: 0, holder: { sessionId: "h" } },
      ]);
      const query = { page: 0, pageSize: 9, state: "ducked", includeArchived: false } as const;
      expect((await store.listSessions(query)).total).toBe(3);

      // The holder leaves and the floor is reserved: ducked sessions stay ducked, and sessions wait for the floor.
      await floor.write({ sessions: [floor.session("h", { state: "archived" })] });
      expect((await store.listFloors({ limit: 9, state: "waiting" })).floors).toMatchObject([{ ducked: 3 }]);
      const paused = floor.event("session_transition", { to: "paused" }, { session: "mid" });
      await floor.write({ sessions: [floor.session("mid", { state: "paused" })], events: [paused] });
      await floor.write({ sessions: [floor.session("low", { state: "paused" }), ducked("high", 80)] });
      const view = await store.viewFloor(floor.id, LIMITS);
      expect(view.ducked.map(({ id }) => id)).toEqual(["high"]);
      expect(view.paused.map(({ id }) => id).sort()).toEqual(["low", "mid"]);
      expect((await store.listFloors({ limit: 9 })).floors).toMatchObject([{ ducked: 1, paused: 2 }]);
    });

    test("a floor keeps the order of its paused sessions when the activity of one changes", async () => {
      const { store, floor } = stage;
      const paused = (name: string) => floor.session(name, { state: "paused" });
      for (const name of ["first", "second"]) {
        const pause = floor.event("session_transition", { from: "active.running", to: "paused" }, { session: name });
        await floor.write({ sessions: [paused(name)], events: [pause] });
      }
      const still = { from: "paused", to: "paused", event: "done" };
      const ended = floor.event("session_transition", still, { session: "first" });
      await floor.write({ sessions: [paused("first")], events: [ended] });
      const view = await store.viewFloor(floor.id, LIMITS);
      expect(view.paused.map(({ id }) => id)).toEqual(["second", "first"]);
    });

    test("a floor shows the session that it is reserved for, until the reservation ends", async () => {
      const { store, floor } = stage;
      const reserved = { sessionId: "p" as SessionId, until: NOON };
      await floor.write({ sessions: [floor.session("p", { state: "paused" })], reserved });
      expect(await store.viewFloor(floor.id, LIMITS)).toMatchObject({ reserved });
      expect((await store.listFloors({ limit: 9 })).floors).toMatchObject([{ floorId: floor.id, reserved, paused: 1 }]);
      await floor.write({ sessions: [floor.session("p", { state: "active" })] });
      expect(await store.viewFloor(floor.id, LIMITS)).not.toHaveProperty("reserved");
    });

    test("floors are listed by id, in pages, by state, and to their owners", async () => {
      const { store } = stage;
      const floors = ["u:ann", "u:ann/rear", "u:bob", "u:cid"].map((id) => new FloorWriter(store, id));
      const [ann, rear, bob, cid] = floors as [FloorWriter, FloorWriter, FloorWriter, FloorWriter];
      const alone = new FloorWriter(store, "s:alone");
      await ann.write({
        sessions: [
          ann.session("holder", { state: "active", ownerId: "ann" }),
          ann.session("p1", { state: "paused", ownerId: "ann" }),
          ann.session("q1", { queuedAt: NOON, ownerId: "ann" }),
        ],
        flags: { emergency: true },
      });
      await rear.write({ sessions: [rear.session("r", { state: "paused", ownerId: "ann" })] });
      await bob.write({ sessions: [bob.session("b", { queuedAt: NOON, ownerId: "bob" })] });
      await cid.write({ sessions: [cid.session("c", { state: "archived", ownerId: "cid" })] });
      await alone.write({ sessions: [alone.session("alone", { state: "active", ownerId: "ann" })] });
      const idsOf = async (query: Partial<StoredFloorQuery>) => {
        const page = await store.listFloors({ limit: 9, ...query });
        return page.floors.map(({ floorId }) => floorId as string);
      };

      const first = await store.listFloors({ limit: 2 });
      expect(first.hasMore).toBe(true);
      const { agentId } = ann.session("holder");
      const none = { head: 0, flags: {}, ducked: 0, paused: 0, queued: 0 };
      expect(first.floors).toEqual([
        { ...none, floorId: "s:alone", ownerId: "ann", holder: { sessionId: "alone", agentId } },
        {
          ...{ ...none, floorId: "u:ann", flags: { emergency: true }, paused: 1, queued: 1 },
          holder: { sessionId: "holder", agentId },
        },
      ]);
      expect(await idsOf({ after: "u:ann" as FloorId })).toEqual(["u:ann/rear", "u:bob", "u:cid"]);
      expect(await idsOf({ state: "held" })).toEqual(["s:alone", "u:ann"]);
      expect(await idsOf({ state: "waiting" })).toEqual(["u:ann/rear", "u:bob"]);
      expect(await idsOf({ state: "idle" })).toEqual(["u:cid"]);
      expect(await idsOf({ ownerId: "ann" })).toEqual(["s:alone", "u:ann", "u:ann/rear"]);
      expect(await idsOf({ ids: ["u:bob", "u:none"] as FloorId[] })).toEqual(["u:bob"]);
      expect(await idsOf({ ownerId: "bob", state: "held" })).toEqual([]);
    });

    test("a floor's log is read from its end, including deleted sessions' last events", async () => {
      const { store, floor } = stage;
      const other = new FloorWriter(store, "u:bob");
      await other.write({ events: [other.event("floor_updated", {})] });
      await floor.write({ events: [floor.event("floor_updated", { flags: {} })] });
      const created = floor.event("session_created", {}, { session: "a" });
      await floor.write({ sessions: [floor.session("a")], events: [created] });
      await floor.delete("a");
      await floor.write({ events: [floor.event("floor_updated", { flags: {} })] });
      const placesOf = async (before: number | undefined, limit: number) =>
        (await store.readFloorLogBack(floor.id, before, limit)).entries.map(({ floorSeq }) => floorSeq);
      expect(await placesOf(undefined, 9)).toEqual([4, 3, 1]);
      expect(await placesOf(undefined, 2)).toEqual([4, 3]);
      expect(await placesOf(3, 2)).toEqual([1]);
      expect(await placesOf(1, 2)).toEqual([]);
      const whole = await store.readFloorLogBack(floor.id, undefined, 9);
      const onward = await store.readFloorLog(floor.id, 0, 9);
      expect(whole).toEqual({ ...onward, entries: onward.entries.toReversed() });
      const none = { entries: [], head: 0, lowWater: 0 };
      expect(await store.readFloorLogBack("u:nobody" as FloorId, undefined, 9)).toEqual(none);
    });
  });
}
