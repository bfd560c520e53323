import { describe, expect, test } from "vitest";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Blob, PruneLimits } from "../../../src/store/store.ts";
import { DAY, FloorWriter, HOUR, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;

export function pruneContract(stage: StoreStage): void {
  const prune = (limits: Partial<PruneLimits> = {}) =>
    stage.store.prune({ now: NOON, receiptsBefore: NOON - DAY, limit: 100, ...limits });
  const seqsOf = async (id: string) => {
    const log = await stage.store.readSessionLog(id as SessionId, 0, 100);
    return [log?.entries.map(({ seq }) => seq), log?.lowWater];
  };

  test("the newest time is that of the newest event, and is kept when its session is deleted", async () => {
    const { store, floor } = stage;
    expect(await store.newestTime()).toBe(0);
    const event = floor.event("session_created", {}, { session: "a", at: NOON });
    await floor.write({ sessions: [floor.session("a")], events: [event] });
    expect(await store.newestTime()).toBe(NOON);
    await floor.delete("a", NOON + 5);
    expect(await store.newestTime()).toBe(NOON + 5);
  });

  test("the jumps of the clock are stored, and replaced by the next ones", async () => {
    const { store } = stage;
    expect(await store.loadJumps()).toEqual({ jumpedMs: 0, doubtUntil: 0 });
    for (const jumps of [
      { jumpedMs: NOON, doubtUntil: NOON + DAY },
      { jumpedMs: NOON + 1, doubtUntil: NOON },
    ]) {
      await store.saveJumps(jumps);
      expect(await store.loadJumps()).toEqual(jumps);
    }
  });

  describe("forgetting a user", () => {
    const B = "b" as SessionId;
    const logOf = (id: string) => stage.store.readFloorLog(id as FloorId, 0, 100);

    test("all that is about a user is deleted once it has no sessions, and nothing about others", async () => {
      const { store } = stage;
      const own = ["u:a%25n", "u:a%25n/back", "s:b"].map((id) => new FloorWriter(store, id));
      const others = ["u:a%25na", "u:a%25n0", "u:a", "s:c"].map((id) => new FloorWriter(store, id));
      const connection = { slots: [], version: 0, expiresAt: NOON };
      await store.saveConnection({ ...connection, id: "own" as ConnectionId, userId: "a%n" });
      await store.saveConnection({ ...connection, id: "other" as ConnectionId, userId: "a" });
      const receipts = [...own, ...others].map((floor, index) =>
        floor.receipt(`r${index}`, { caller: index < own.length ? "operator" : "other" }),
      );
      for (const [index, floor] of [...own, ...others].entries()) {
        await floor.write({ receipts: [receipts[index]!], events: [floor.event("arbitration", { index })] });
      }
      receipts.push(own[0]!.receipt("own", { caller: "owner:a%n" }));
      await own[0]!.write({ receipts: receipts.slice(-1) });
      const blob = { hash: "h", mimeType: "image/png", bytes: Buffer.from("x"), createdAt: NOON };
      const sessions = [[A, own[0]!] as const, [B, own[2]!] as const];
      for (const [id, floor] of sessions) {
        await floor.write({
          sessions: [floor.session(id, { userId: id === A ? "a%n" : undefined, ownerId: "a%n" })],
          events: [floor.event("session_created", {}, { session: id })],
        });
        await store.putBlob(id, blob);
      }
      expect(await store.forgetUser("a%n")).toBe("conflict");
      expect((await logOf("u:a%25n")).entries.length).toBe(2);

      for (const [id, floor] of sessions) await floor.delete(id);
      expect(await store.forgetUser("a%n")).toEqual({ remains: expect.any(Array) });
      for (const floor of own)
        expect(await logOf(floor.id)).toEqual({ entries: [], head: floor.head, lowWater: floor.head });
      for (const { id } of others) expect((await logOf(id)).entries.length).toBe(1);
      const left = await store.findReceipts(receipts);
      expect(left.map(({ commandId }) => commandId).sort()).toEqual(["r3", "r4", "r5", "r6"]);
      expect([await store.whereIs(A), await store.whereIs(B)]).toEqual([undefined, undefined]);
      expect([await store.getBlob(A, "h"), await store.getBlob(B, "h")]).toEqual([undefined, undefined]);
      expect(await store.loadConnection("own" as ConnectionId)).toBeUndefined();
      expect(await store.loadConnection("other" as ConnectionId)).toBeDefined();
      // The floor goes on, with its version and places.
      expect(await own[0]!.write({ events: [own[0]!.event("arbitration", {})] })).toBe("committed");
      expect((await logOf("u:a%25n")).entries.map(({ floorSeq }) => floorSeq)).toEqual([own[0]!.head]);
      expect(await store.forgetUser("nobody")).toEqual({ remains: expect.any(Array) });
    });
  });

  describe("pruning", () => {
    test("receipts are pruned when they expire, in pieces", async () => {
      const { store, floor } = stage;
      const old = Array.from({ length: 5 }, (_, n) => floor.receipt(`old${n}`, { at: NOON - DAY - 5 + n }));
      await floor.write({ receipts: [...old, floor.receipt("new", { at: NOON - DAY })] });
      const left = async () =>
        (await store.findReceipts([...old, floor.receipt("new")])).map(({ commandId }) => commandId);
      expect([await prune({ limit: 2 }), (await left()).sort()]).toEqual([true, ["new", "old2", "old3", "old4"]]);
      expect(await prune({ limit: 2 })).toBe(true);
      expect([await prune({ limit: 2 }), await left()]).toEqual([false, ["new"]]);
      expect([await prune({ limit: 2 }), await left()]).toEqual([false, ["new"]]);
    });

    test("tombstones are pruned when they expire, and the id is then as if never used", async () => {
      const { store, floor } = stage;
      await floor.write({ sessions: [floor.session("a")] });
      await floor.delete("a", NOON - DAY);
      await prune();
      expect(await store.whereIs(A)).toBeDefined();
      await prune({ receiptsBefore: NOON - DAY + 1 });
      expect(await store.whereIs(A)).toBeUndefined();
      expect((await store.readFloorLog(floor.id, 0, 10)).entries).toEqual([]);
    });

    test("connections are pruned when they expire", async () => {
      const { store } = stage;
      const row = { slots: [], version: 0 };
      await store.saveConnection({ ...row, id: "gone" as ConnectionId, expiresAt: NOON });
      await store.saveConnection({ ...row, id: "stays" as ConnectionId, expiresAt: NOON + 1 });
      await prune();
      expect(await store.loadConnection("gone" as ConnectionId)).toBeUndefined();
      expect(await store.loadConnection("stays" as ConnectionId)).toBeDefined();
    });

    test("only old events of archived sessions are pruned, the low-water marks rise, and floors keep their versions", async () => {
      const { store, floor } = stage;
      const events = [
        floor.event("data", {}, { session: "a", at: 10 }),
        floor.event("data", {}, { session: "live", at: 11 }),
        floor.event("arbitration", { say: "kept" }, { at: 12 }),
        floor.event("data", {}, { session: "a", at: 13 }),
        floor.event("data", {}, { session: "a", at: 14 }),
        floor.event("data", {}, { session: "b", at: 15 }),
      ];
      const archived = (id: string) => floor.session(id, { state: "archived", archivedAt: 20 });
      await floor.write({ sessions: [floor.session("a"), floor.session("live"), floor.session("b")], events });
      await floor.write({ sessions: [archived("a"), archived("b")] });
      await prune();
      expect(await seqsOf("a")).toEqual([[1, 2, 3], 0]);
      expect(await prune({ eventsBefore: 14 })).toBe(false);
      expect(await seqsOf("a")).toEqual([[3], 2]);
      expect(await seqsOf("b")).toEqual([[1], 0]);
      expect(await seqsOf("live")).toEqual([[1], 0]);
      const log = await store.readFloorLog(floor.id, 0, 10);
      expect([log.entries.map(({ floorSeq }) => floorSeq), log.lowWater, log.head]).toEqual([[2, 3, 5, 6], 4, 6]);
      await prune({ eventsBefore: 99 });
      expect(await seqsOf("a")).toEqual([[], 3]);
      expect((await store.readSessionLog(A, 0, 10))?.head).toBe(3);
      expect((await store.readFloorLog(floor.id, 0, 10)).lowWater).toBe(6);
      expect((await store.viewFloor(floor.id, { sessions: 1, decisions: 9 })).decisions).toEqual([{ say: "kept" }]);
      await prune({ now: NOON + 999 * DAY, receiptsBefore: NOON + 999 * DAY, eventsBefore: NOON + 999 * DAY });
      expect((await store.loadFloor(floor.id))?.version).toBe(2);
    });

    test("a long log is pruned in pieces", async () => {
      const { floor } = stage;
      const events = [...Array(7).keys()].map((at) => floor.event("data", {}, { session: at < 5 ? "a" : "b", at }));
      const sessions = ["a", "b"].map((id) => floor.session(id, { state: "archived" }));
      await floor.write({ sessions, events });
      const pieces = [];
      for (let more = true; more; pieces.push([...(await seqsOf("a")), ...(await seqsOf("b"))])) {
        more = await prune({ eventsBefore: 99, limit: 3 });
      }
      expect(pieces[0]).toEqual([[4, 5], 3, [1, 2], 0]);
      expect(pieces[1]).toEqual([[], 5, [2], 1]);
      expect(pieces.at(-1)).toEqual([[], 5, [], 2]);
    });

    test("an image is kept as long as a message shows it", async () => {
      const { store, floor } = stage;
      const blobs = [NOON - 30 * DAY, NOON - 30 * DAY, NOON - 30 * DAY, NOON - HOUR].map((createdAt, n) => {
        return { hash: `${n}`.repeat(64), mimeType: "image/png", bytes: new Uint8Array([n + 1]), createdAt };
      });
      const [shown, shownTwice] = blobs as [Blob, Blob];
      for (const each of blobs) await store.putBlob(A, each);
      const there = async () => {
        const found = await Promise.all(blobs.map(({ hash }) => store.getBlob(A, hash)));
        return found.map((each) => each?.bytes[0]);
      };
      const showing = (id: string, ...blobs: { hash: string }[]) => {
        const images = blobs.map(({ hash }) => ({ hash, mimeType: "image/png", bytes: 1 }));
        return makeMessage("a", id, { images });
      };
      await floor.write({
        sessions: [floor.session("a")],
        messages: [
          { kind: "add", message: showing("m1", shown, shownTwice) },
          { kind: "add", message: showing("m2", shownTwice) },
        ],
      });
      await prune();
      expect(await there()).toEqual([1, 2, undefined, 4]);
      await floor.write({ messages: [{ kind: "put", message: showing("m1", shownTwice) }] });
      await floor.write({ messages: [{ kind: "remove", sessionId: A, id: "m2" as never }] });
      await prune();
      expect(await there()).toEqual([undefined, 2, undefined, 4]);
      await floor.delete("a");
      await prune();
      expect(await there()).toEqual([undefined, undefined, undefined, undefined]);
    });

    test("an image that waits for its message is not pruned", async () => {
      const { store } = stage;
      const blob = { hash: "a".repeat(64), mimeType: "image/png", bytes: new Uint8Array([1]), createdAt: NOON - 5_000 };
      await store.putBlob(A, blob);
      await prune();
      expect(await store.getBlob(A, blob.hash)).toEqual(blob);
      await prune({ now: NOON + HOUR });
      expect(await store.getBlob(A, blob.hash)).toBeUndefined();
      // Sent again much later: it waits for its message again.
      const floor = new FloorWriter(store);
      await floor.write({ sessions: [floor.session("a")] });
      await store.putBlob(A, blob);
      await store.putBlob(A, { ...blob, createdAt: NOON + 3 * DAY });
      await prune({ now: NOON + 3 * DAY + HOUR });
      expect(await store.getBlob(A, blob.hash)).toBeDefined();
    });
  });
}
