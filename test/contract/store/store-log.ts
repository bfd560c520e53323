import { describe, expect, test } from "vitest";
import type { FloorId, MessageId, SessionId } from "../../../src/protocol/ids.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
const M = "m" as MessageId;

export function logContract(stage: StoreStage): void {
  describe("logs", () => {
    test("events are read back unchanged, in the session's log and in the floor's", async () => {
      const { store, floor } = stage;
      const events = [
        floor.event("session_created", { title: 'say "安" \\ \u2028 🎷' }, { session: "a" }),
        floor.event("arbitration", { outcome: "rejected" }),
        floor.event("user_question_request", { question: "?" }, { session: "a", requestId: "q-1" }),
        floor.event("session_created", {}, { session: "b" }),
      ];
      await floor.write({ sessions: [floor.session("a"), floor.session("b")], events });
      expect(await store.readFloorLog(floor.id, 0, 10)).toEqual({ entries: events, head: 4, lowWater: 0 });
      const own = [events[0], events[2]];
      expect(await store.readSessionLog(A, 0, 10)).toEqual({ entries: own, head: 2, lowWater: 0 });
      expect(await store.readFloorLog("u:nobody" as FloorId, 0, 10)).toEqual({ entries: [], head: 0, lowWater: 0 });
    });

    test("a log is read in pages, from any place in it", async () => {
      const { store, floor } = stage;
      const events = Array.from({ length: 9 }, (_, n) => floor.event("data", { n }, { session: n % 2 ? "b" : "a" }));
      await floor.write({ sessions: [floor.session("a"), floor.session("b")], events });
      expect((await store.readFloorLog(floor.id, 3, 4)).entries).toEqual(events.slice(3, 7));
      expect((await store.readSessionLog(A, 1, 2))?.entries).toEqual([events[2], events[4]]);
      expect(await store.readSessionLog(A, 5, 10)).toEqual({ entries: [], head: 5, lowWater: 0 });
      expect((await store.readFloorLog(floor.id, 99, 10)).entries).toEqual([]);
    });

    test("an event of any size comes back whole", async () => {
      const { store, floor } = stage;
      const texts = ["航".repeat(21_840), "航".repeat(22_000), "x".repeat(65_600), "y".repeat(300_000)];
      const events = texts.map((content) => floor.event("tool_result", { content }, { session: "a" }));
      await floor.write({ sessions: [floor.session("a")], events });
      expect((await store.readSessionLog(A, 0, 10))?.entries).toEqual(events);
    });

    test("a message's event stays the same when the message changes or is deleted", async () => {
      const { store, floor } = stage;
      const long = ['"正在导航中" '.repeat(20), "\n\\u0000 ".repeat(12_000), "blue ".repeat(99), "\ud800".repeat(99)];
      const contents = [...long, "short"];
      const messages = contents.map((content, n) => makeMessage("a", `m${n}`, { content }));
      const events = messages.map((message) =>
        floor.event("message", { ...message, streaming: false }, { session: "a" }),
      );
      const adds = messages.map((message) => ({ kind: "add" as const, message }));
      await floor.write({ sessions: [floor.session("a")], messages: adds, events });
      const log = async () => (await store.readSessionLog(A, 0, 10))?.entries;
      expect(await log()).toEqual(events);
      for (const change of [
        { kind: "append", sessionId: A, id: "m0" as MessageId, text: "more" },
        { kind: "put", message: makeMessage("a", "m2", { content: "other" }) },
        { kind: "remove", sessionId: A, id: "m1" as MessageId },
      ] as const) {
        await floor.write({ messages: [change] });
        expect(await log(), change.kind).toEqual(events);
      }
      expect((await store.readFloorLog(floor.id, 0, 10)).entries).toEqual(events);
    });

    test("an event contains the text of its message at that point, although the same change altered it later", async () => {
      const { store, floor } = stage;
      const message = makeMessage("a", "m", { content: "so long a text that it would be kept once ".repeat(4) });
      const events = [floor.event("message", message, { session: "a" })];
      await floor.write({
        sessions: [floor.session("a")],
        messages: [
          { kind: "add", message },
          { kind: "append", sessionId: A, id: M, text: "and more" },
        ],
        events,
      });
      expect((await store.readSessionLog(A, 0, 10))?.entries).toEqual(events);
      expect((await store.findMessage(A, M))?.content).toBe(`${message.content}and more`);
    });

    test("the heads of many floors are read at once, without floors that have no row", async () => {
      const { store } = stage;
      for (const [id, length] of [["u:ann", 3] as const, ["u:bob", 1] as const]) {
        const floor = new FloorWriter(store, id);
        await floor.write({ events: Array.from({ length }, () => floor.event("floor_updated", {})) });
      }
      const heads = await store.heads(["u:bob", "u:nobody", "u:ann"] as FloorId[]);
      expect(Object.fromEntries(heads)).toEqual({ "u:ann": 3, "u:bob": 1 });
      expect(await store.heads([])).toEqual(new Map());
    });

    test("a deleted session leaves only its last event, for late readers", async () => {
      const { store, floor } = stage;
      const message = makeMessage("a", "m", { content: "saxophone ".repeat(30) });
      const created = floor.event("session_created", {}, { session: "a" });
      const said = floor.event("message", message, { session: "a" });
      const other = floor.event("session_created", {}, { session: "b" });
      await floor.write({
        sessions: [floor.session("a", { ownerId: "o" }), floor.session("b")],
        messages: [{ kind: "add", message }],
        logs: [{ sessionId: A, messageId: M, line: { id: "1", stream: "stdout", text: "x", timestamp: NOON } }],
        events: [created, said, other],
      });
      expect(await store.whereIs(A)).toEqual({ floorId: floor.id, ownerId: "o" });
      const last = await floor.delete("a");
      expect(await store.whereIs(A)).toEqual({ floorId: floor.id, ownerId: "o", tombstone: { head: 3, last } });
      expect(await store.loadSession(A)).toBeUndefined();
      expect(await store.findMessage(A, M)).toBeUndefined();
      expect(await store.readSessionLog(A, 0, 10)).toBeUndefined();
      expect(await store.viewSession(A, 10)).toBeUndefined();
      expect(await store.readFloorLog(floor.id, 0, 10)).toEqual({ entries: [other, last], head: 4, lowWater: 0 });
    });
  });
}
