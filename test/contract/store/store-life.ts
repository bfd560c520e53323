import { describe, expect, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

export function lifeContract(stage: StoreStage): void {
  describe("opening and closing", () => {
    test("a store has a short name and a secret of its own", () => {
      expect(stage.store.epoch).toMatch(/^[a-z0-9]{1,6}$/);
      expect(stage.store.secret.length).toBeGreaterThanOrEqual(32);
    });

    test("a commit is present when the store is opened again; a store in memory begins anew", async () => {
      const { epoch, secret } = stage.store;
      const { floor } = stage;
      const events = [floor.event("session_created", { n: 1 }, { session: "a" })];
      const messages = [{ kind: "add" as const, message: makeMessage("a", "m", { content: "正在导航中" }) }];
      await floor.write({ sessions: [floor.session("a")], events, messages });
      const store = await stage.reopen();
      if (!stage.isLasting) return expect(await store.readSessionLog("a" as SessionId, 0, 10)).toBeUndefined();
      expect([store.epoch, store.secret]).toEqual([epoch, secret]);
      expect((await store.readSessionLog("a" as SessionId, 0, 10))?.entries).toEqual(events);
      const query = { page: 0, pageSize: 1, includeArchived: false, q: "导航" };
      expect((await store.listSessions(query)).total).toBe(1);
    });

    test("closing waits for earlier calls, and later calls are refused", async () => {
      const { store } = stage;
      const floors = Array.from({ length: 300 }, (_, index) => new FloorWriter(store, `u:${index}`));
      const writes = floors.map((floor) => floor.write());
      const closed = store.close();
      expect(new Set(await Promise.all(writes))).toEqual(new Set(["committed"]));
      await closed;
      await expect(floors[0]!.write()).rejects.toMatchObject({ code: "unavailable" });
      await expect(store.loadFloor("u:1" as FloorId)).rejects.toMatchObject({ code: "unavailable" });
      await expect(store.readFloorLog("u:1" as FloorId, 0, 1)).rejects.toMatchObject({ code: "unavailable" });
      await store.close();
    });
  });
}
