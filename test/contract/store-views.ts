import { describe, expect, test } from "vitest";
import type { FloorId, MessageId, SessionId } from "../../src/protocol/ids.ts";
import type { LogLine } from "../../src/protocol/message.ts";
import type { Session } from "../../src/protocol/session.ts";
import { FloorWriter, makeMessage, NOON } from "../support/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
const id = (text: string) => text as MessageId;
const LIMITS = { sessions: 10, decisions: 10 };

export function viewContract(stage: StoreStage): void {
  /** A session `a` with messages `m1` to `m9`, written in two commits; their ids sort otherwise than they came. */
  async function talk(): Promise<FloorWriter> {
    const floor = new FloorWriter(stage.store);
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

    test("come in the order in which they were written, the newest page first", async () => {
      await talk();
      expect(await list({ limit: 3 })).toEqual(["m3 m8 m1", true]);
      expect(await list({ limit: 9 })).toEqual(["m9 m2 m7 m4 m5 m6 m3 m8 m1", false]);
    });

    test("are paged backwards from a message and forwards from one", async () => {
      await talk();
      expect(await list({ before: "m3", limit: 2 })).toEqual(["m5 m6", true]);
      expect(await list({ before: "m5", limit: 4 })).toEqual(["m9 m2 m7 m4", false]);
      expect(await list({ before: "m9", limit: 4 })).toEqual(["", false]);
      expect(await list({ after: "m9", limit: 2 })).toEqual(["m2 m7", true]);
      expect(await list({ after: "m3", limit: 2 })).toEqual(["m8 m1", false]);
      expect(await list({ after: "m1", limit: 2 })).toEqual(["", false]);
      expect(await list({ after: "m2", before: "m5", limit: 9 })).toEqual(["m7 m4", false]);
      expect(await list({ after: "m2", before: "m3", limit: 2 })).toEqual(["m7 m4", true]);
    });

    test("an unknown place to start from is not found; without the session there is nothing to list", async () => {
      await talk();
      await expect(list({ after: "nothing", limit: 2 })).rejects.toMatchObject({ code: "not_found" });
      await expect(list({ before: "nothing", limit: 2 })).rejects.toMatchObject({ code: "not_found" });
      expect(await stage.store.listMessages("b" as SessionId, { limit: 2 })).toBeUndefined();
    });

    test("a session is shown with its newest ones and the head they belong to", async () => {
      const floor = await talk();
      const view = await stage.store.viewSession(A, 2);
      expect(view).toMatchObject({ session: floor.session("a"), head: 1, hasMore: true });
      expect(view?.messages).toEqual([makeMessage("a", "m8"), makeMessage("a", "m1")]);
      expect(await stage.store.viewSession(A, 9)).toMatchObject({ hasMore: false });
      expect(await stage.store.viewSession("b" as SessionId, 9)).toBeUndefined();
    });

    test("log lines are paged in their order; a line that comes again is the same line", async () => {
      const floor = await talk();
      const lines = ["9", "2", "5"].map((name, n): LogLine => {
        return { id: name, stream: n === 1 ? "stderr" : "stdout", text: `line ${n}\n`, timestamp: NOON + n };
      });
      const logs = lines.map((line) => ({ sessionId: A, messageId: id("m1"), line }));
      await floor.write({ logs: logs.slice(0, 2) });
      await floor.write({ logs: logs.slice(1) });
      const { store } = stage;
      expect(await store.listLogs(A, id("m1"), { limit: 2 })).toEqual({ logs: lines.slice(0, 2), hasMore: true });
      expect(await store.listLogs(A, id("m1"), { after: "2", limit: 2 })).toEqual({
        logs: lines.slice(2),
        hasMore: false,
      });
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
    test("a floor nobody has used is empty", async () => {
      const empty = { head: 0, flags: {}, paused: [], queued: [], decisions: [] };
      expect(await stage.store.viewFloor("u:nobody" as FloorId, LIMITS)).toEqual(empty);
    });

    test("show their holder, who was paused last first, and who has waited longest first", async () => {
      const { store } = stage;
      const floor = new FloorWriter(store);
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
      // A name is no pause.
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

    test("show their last decisions, the newest last, and nobody else's", async () => {
      const { store } = stage;
      const [ann, bob] = [new FloorWriter(store, "u:ann"), new FloorWriter(store, "u:bob")];
      const decide = (floor: FloorWriter, say: string) => floor.event("arbitration", { say });
      await bob.write({ events: [decide(bob, "bob's")] });
      await ann.write({
        events: [decide(ann, "1"), ann.event("floor_updated", {}), decide(ann, "2"), decide(ann, "3")],
      });
      const { decisions } = await store.viewFloor(ann.id, { sessions: 1, decisions: 2 });
      expect(decisions).toEqual([{ say: "2" }, { say: "3" }]);
    });
  });

  describe("connections and blobs", () => {
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

    test("of several bindings at once one is saved", async () => {
      const saves = Array.from({ length: 10 }, () => stage.store.saveConnection(row));
      expect((await Promise.all(saves)).filter((outcome) => outcome === "saved")).toHaveLength(1);
    });

    test("a blob is kept for its session and hash", async () => {
      const { store } = stage;
      const blob = {
        hash: "ab".repeat(32),
        mimeType: "image/png",
        bytes: new Uint8Array([0, 255, 7]),
        createdAt: NOON,
      };
      await store.putBlob(A, blob);
      await store.putBlob(A, blob);
      expect(await store.getBlob(A, blob.hash)).toEqual(blob);
      expect(await store.getBlob("b" as SessionId, blob.hash)).toBeUndefined();
      expect(await store.getBlob(A, "cd".repeat(32))).toBeUndefined();
    });
  });
}
