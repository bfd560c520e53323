import { describe, expect, test } from "vitest";
import type { MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { PruneLimits, StagedId } from "../../../src/store/store.ts";
import { DAY, FloorWriter, HOUR, makeMessage, NOON, type WrittenChange } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const A = "a" as SessionId;
const STAGED: StagedId = "~one";
const IMAGE = { hash: "5".repeat(64), mimeType: "image/png", bytes: 3 };
const EVERYTHING = { page: 0, pageSize: 50, includeArchived: true };

export function stagedContract(stage: StoreStage): void {
  const messages = (count: number, from = 0) =>
    Array.from({ length: count }, (_, n) => makeMessage("a", `m${from + n}`, { content: `word${from + n}` }));
  const contents = async (id: SessionId = A) =>
    (await stage.store.listMessages(id, { limit: 100 }))?.messages.map(({ content }) => content);
  const prune = (limits: Partial<PruneLimits>) =>
    stage.store.prune({ now: NOON, receiptsBefore: NOON - DAY, limit: 100, ...limits });

  /** A change by which staged messages become a session. */
  const adopt = (id: string = A, stagedAs: StagedId = STAGED, change: WrittenChange = {}) =>
    stage.floor.write({
      sessions: [stage.floor.session(id)],
      staged: [{ sessionId: id as SessionId, stagedAs }],
      ...change,
    });

  describe("staged sessions", () => {
    test("staged sessions are visible only once a change adopts them, and then have all their messages, in order", async () => {
      const { store, floor } = stage;
      await floor.write({ sessions: [floor.session("other")] });
      await store.stageMessages(STAGED, messages(3), NOON);
      await store.stageMessages(STAGED, messages(2, 3), NOON + 1);
      expect((await store.listSessions(EVERYTHING)).sessions.map(({ id }) => id)).toEqual(["other"]);
      expect((await store.listSessions({ ...EVERYTHING, q: "word1" })).total).toBe(0);
      expect((await store.listFloors({ limit: 10 })).floors.map(({ floorId }) => floorId)).toEqual([floor.id]);
      expect(await store.whereIs(A)).toBeUndefined();
      expect(await store.listMessages(A, { limit: 9 })).toBeUndefined();

      const session = floor.session("a", { messageCount: 5 });
      const event = floor.event("session_created", session, { session: "a" });
      const change = { newIds: [A], sessions: [session], events: [event] };
      expect(await adopt(A, STAGED, change)).toBe("committed");
      expect(await contents()).toEqual(["word0", "word1", "word2", "word3", "word4"]);
      expect((await store.loadSession(A))?.session).toEqual(session);
      expect((await store.whereIs(A))?.floorId).toBe(floor.id);
      expect((await store.listSessions({ ...EVERYTHING, q: "word1" })).sessions).toEqual([session]);
      expect((await store.listSessions({ ...EVERYTHING, q: session.title })).total).toBe(2);
      const add = { kind: "add" as const, message: makeMessage("a", "next", { content: "and on" }) };
      expect(await floor.write({ sessions: [session], messages: [add] })).toBe("committed");
      expect((await contents())?.at(-1)).toBe("and on");
    });

    test("staged sessions become sessions on a new floor, and survive a restart", async () => {
      const floor = new FloorWriter(stage.store, "s:a");
      await stage.store.stageMessages(STAGED, messages(1), NOON);
      const staged = [{ sessionId: A, stagedAs: STAGED }];
      expect(await floor.write({ sessions: [floor.session("a")], staged })).toBe("committed");
      if (stage.isLasting) await stage.reopen();
      expect(await contents()).toEqual(["word0"]);
      expect((await stage.store.whereIs(A))?.floorId).toBe("s:a");
    });

    // W6, with the next.
    test("a change with missing staged sessions is a conflict, and leaves nothing", async () => {
      const { store, floor } = stage;
      await floor.write();
      expect(await adopt()).toBe("conflict");
      expect(await store.loadSession(A)).toBeUndefined();
      expect((await store.loadFloor(floor.id))?.version).toBe(1);
    });

    test("a staged session becomes a session once, and never by a session whose id is in use", async () => {
      const { store, floor } = stage;
      await floor.write({ sessions: [floor.session("a")] });
      await store.stageMessages(STAGED, messages(1), NOON);
      expect(await adopt("a", STAGED, { newIds: [A] })).toBe("conflict");
      const b = "b" as SessionId;
      expect(await adopt(b, STAGED, { newIds: [b] })).toBe("committed");
      expect(await adopt("c")).toBe("conflict");
      expect(await contents(b)).toEqual(["word0"]);
    });

    test("a staged session shows the images copied for it, which are deleted with it", async () => {
      const { store, floor } = stage;
      const source = "source" as SessionId;
      await store.putBlob(source, { ...IMAGE, bytes: new Uint8Array([1, 2, 3]), createdAt: NOON });
      expect(await store.copyBlob(source, A, IMAGE.hash, NOON)).toBe(true);
      expect(await store.copyBlob(source, A, "6".repeat(64), NOON)).toBe(false);
      await store.stageMessages(STAGED, [makeMessage("a", "m", { images: [IMAGE] })], NOON);
      await adopt();
      // An image that no message uses is pruned after a day; the copy is in use.
      await prune({ now: NOON + 9 * DAY });
      expect((await store.getBlob(A, IMAGE.hash))?.bytes).toEqual(new Uint8Array([1, 2, 3]));
      expect(await store.getBlob(source, IMAGE.hash)).toBeUndefined();
      await floor.delete("a");
      await prune({ now: NOON + 9 * DAY });
      expect(await store.getBlob(A, IMAGE.hash)).toBeUndefined();
    });

    test("a staged session that is idle for a while is pruned in pieces, and releases its images", async () => {
      const { store } = stage;
      await store.putBlob(A, { ...IMAGE, bytes: new Uint8Array([1]), createdAt: NOON });
      await store.stageMessages(STAGED, [...messages(4), makeMessage("a", "m9", { images: [IMAGE] })], NOON);
      await store.stageMessages("~two", messages(1), NOON + HOUR);
      expect(await prune({ stagedBefore: NOON })).toBe(false);
      expect(await prune({ stagedBefore: NOON + 1, limit: 2 })).toBe(true);
      while (await prune({ stagedBefore: NOON + 1, limit: 2 }));
      await prune({ now: NOON + DAY });
      expect(await store.getBlob(A, IMAGE.hash)).toBeUndefined();
      expect(await adopt()).toBe("conflict");
      expect(await adopt("a", "~two")).toBe("committed");
    });

    test("a discarded staged session is pruned next, and one that became a session is kept", async () => {
      const { store } = stage;
      await store.stageMessages(STAGED, messages(1), NOON);
      await store.stageMessages("~two", messages(1), NOON);
      await adopt("a", "~two");
      for (const id of [STAGED, "~two", "~three"] as const) await store.discardStaged(id);
      await prune({ stagedBefore: 1 });
      expect(await contents()).toEqual(["word0"]);
      expect(await adopt("b")).toBe("conflict");
    });

    test("one pass prunes any number of small staged sessions", async () => {
      const { store } = stage;
      const ids: StagedId[] = ["~one", "~two", "~three"];
      for (const id of ids) await store.stageMessages(id, messages(1), NOON);
      await prune({ stagedBefore: NOON + 1 });
      for (const stagedAs of ids) expect(await adopt("a", stagedAs)).toBe("conflict");
    });

    test("a staged session has each message id once: a second message with the id is refused, and adds nothing", async () => {
      const { store } = stage;
      await store.stageMessages(STAGED, messages(2), NOON);
      await expect(store.stageMessages(STAGED, [...messages(1, 2), ...messages(1)], NOON)).rejects.toThrow();
      await adopt();
      expect(await contents()).toEqual(["word0", "word1"]);
      expect(await store.findMessage(A, "m2" as MessageId)).toBeUndefined();
    });
  });
}
