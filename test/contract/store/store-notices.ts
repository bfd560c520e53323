import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { ClaimedNotice, Store, WebhookNotice } from "../../../src/store/store.ts";
import { FloorWriter, NOON } from "../../support/stores/floor-writer.ts";
import type { StoreStage } from "./store-contract.ts";

const LEASE_MS = 1_000;

const notice = (id: string, over: Partial<WebhookNotice> = {}): WebhookNotice => ({
  ...{ id, hook: "h", subject: "a", at: NOON, payload: `{"id":"${id}"}`, ...over },
});

let claims = 0;
function take(
  store: Store,
  now = NOON,
  over: { hook?: string; receiver?: string; limit?: number } = {},
): Promise<ClaimedNotice[]> {
  claims += 1;
  const until = now + LEASE_MS;
  return store.claimNotices({ hook: "h", receiver: "r", claim: `claim-${claims}`, now, until, limit: 10, ...over });
}
const idsOf = (claimed: readonly ClaimedNotice[]) => claimed.map(({ id }) => id).sort();

export function noticeContract(stage: StoreStage): void {
  describe("notices of webhooks", () => {
    /** Write notices in one commit, with the sessions that they are about. */
    const write = (notices: WebhookNotice[], floor = stage.floor) =>
      floor.write({ sessions: [floor.session("a"), floor.session("b")], notices });

    test("of each lane the oldest is claimed once, and the next one after it is settled", async () => {
      const { store } = stage;
      await write([notice("1"), notice("2"), notice("3", { subject: "b" }), notice("4", { hook: "other" })]);
      await write([notice("5")]);
      const claimed = await take(store);
      expect(idsOf(claimed)).toEqual(["1", "3"]);
      const [first] = claimed.filter(({ id }) => id === "1");
      expect(first).toMatchObject({ subject: "a", at: NOON, payload: '{"id":"1"}', failures: 0 });
      expect(await take(store)).toEqual([]);
      await store.settleNotice(first!, NOON);
      const [second] = await take(store);
      expect(second!.id).toBe("2");
      await store.settleNotice(second!, NOON + 5);
      expect(await take(store, NOON + 4)).toEqual([]);
      const [last] = await take(store, NOON + 5);
      expect(last!.id).toBe("5");
      await store.settleNotice(last!, NOON);
      expect(await store.countNotices()).toMatchObject([
        { hook: "h", pending: 1 },
        { hook: "other", pending: 1 },
      ]);
    });

    test("a commit that is a conflict adds no notice", async () => {
      const { store, floor } = stage;
      const change = floor.change({ sessions: [floor.session("a")], notices: [notice("1")] });
      expect(await store.commit({ ...change, expected: 4 })).toBe("conflict");
      expect(await store.countNotices()).toEqual([]);
      expect(await take(store)).toEqual([]);
    });

    test("one that was not accepted is due again later, in its place, with its reason", async () => {
      const { store } = stage;
      await write([notice("1"), notice("2")]);
      const [first] = await take(store);
      await store.settleNotice(first!, NOON, { dueAt: NOON + 50, failures: 1, reason: "status 500" });
      expect(await store.countNotices()).toEqual([
        { hook: "h", pending: 2, oldestAt: NOON, failures: 1, reason: "status 500" },
      ]);
      expect(await take(store, NOON + 49)).toEqual([]);
      const [again] = await take(store, NOON + 50);
      expect(again).toMatchObject({ id: "1", failures: 1 });
      await store.settleNotice(again!, NOON + 50);
      expect(await store.countNotices()).toEqual([{ hook: "h", pending: 1, oldestAt: NOON, failures: 0 }]);
      expect(await take(store, NOON + 50)).toMatchObject([{ id: "2", failures: 0 }]);
    });

    test("what a node took and did not settle is claimed by another when its time is over, and the first changes nothing", async () => {
      const { store } = stage;
      await write([notice("1"), notice("2")]);
      const [late] = await take(store);
      expect(await take(store, NOON + LEASE_MS - 1)).toEqual([]);
      const [mine] = await take(store, NOON + LEASE_MS);
      expect(mine).toMatchObject({ id: "1" });
      await store.settleNotice(late!, NOON, { dueAt: NOON, failures: 7, reason: "late" });
      expect(await take(store, NOON + LEASE_MS)).toEqual([]);
      // It was accepted, so it is not sent again, but the lane is still the other's.
      await store.settleNotice(late!, NOON);
      expect(await take(store, NOON + LEASE_MS)).toEqual([]);
      await store.settleNotice(mine!, NOON + LEASE_MS);
      expect(await take(store, NOON + LEASE_MS)).toMatchObject([{ id: "2", failures: 0 }]);
    });

    test("many at once take each lane once", async () => {
      const { store } = stage;
      await write(Array.from({ length: 40 }, (_, n) => notice(`${n}`, { subject: `s${n % 20}` })));
      const all = await Promise.all(Array.from({ length: 8 }, () => take(store, NOON, { limit: 5 })));
      // One that finds a lane being changed leaves it out, so some may be left.
      const rest = await take(store, NOON, { limit: 40 });
      const ids = [...all.flat(), ...rest].map(({ id }) => Number(id));
      expect(ids.toSorted((one, other) => one - other)).toEqual(Array.from({ length: 20 }, (_, n) => n));
    });

    // W9.
    test("a deleted session's notices go with it, and that of its deletion stays", async () => {
      const { store, floor } = stage;
      await write([notice("1"), notice("2", { hook: "other" }), notice("3", { subject: "b" })]);
      const last = floor.event("session_transition", { to: "deleted" }, { session: "a" });
      const deleted = [{ sessionId: "a" as SessionId, last, at: NOON }];
      await floor.write({ deleted, notices: [notice("end")] });
      expect(idsOf(await take(store))).toEqual(["3", "end"]);
      expect(await take(store, NOON, { hook: "other" })).toEqual([]);
    });

    test("a forgotten user's notices go, also those of its decisions, and no other's", async () => {
      const { store, floor } = stage;
      const bob = new FloorWriter(store, "u:bob");
      await bob.write({ notices: [notice("bob", { subject: "u:bob" })] });
      await write([notice("1"), notice("2", { subject: floor.id as FloorId })]);
      await floor.delete("a");
      await floor.delete("b");
      await floor.write({ notices: [notice("3", { subject: floor.id })] });
      expect(await store.forgetUser("ann")).not.toBe("conflict");
      expect(idsOf(await take(store))).toEqual(["bob"]);
    });

    test("the oldest of a hook are dropped, up to a number or a time, and their lanes go on", async () => {
      const { store } = stage;
      await write([notice("1"), notice("2", { subject: "b" }), notice("3", { hook: "other" })]);
      const [failed] = await take(store, NOON, { limit: 1 });
      await store.settleNotice(failed!, NOON, { dueAt: NOON + 9_999, failures: 3, reason: "no" });
      await write([notice("4", { at: NOON + 5 }), notice("5", { at: NOON + 6 })]);
      const drop = (before: number, limit: number) =>
        store.dropNotices({ hook: "h", before, keep: 0, now: NOON + 9, limit });
      expect(await drop(NOON, 10)).toBe(0);
      expect(await drop(NOON + 1, 1)).toBe(1);
      expect(await drop(NOON + 1, 10)).toBe(1);
      expect(await store.countNotices()).toMatchObject([
        { hook: "h", pending: 2, oldestAt: NOON + 5, failures: 0 },
        { hook: "other", pending: 1 },
      ]);
      expect(await take(store, NOON + 9)).toMatchObject([{ id: "4", failures: 0 }]);
      expect(await drop(Number.MAX_SAFE_INTEGER, 2)).toBe(2);
      expect(await store.countNotices()).toMatchObject([{ hook: "other" }]);
      await write([notice("6")]);
      expect(idsOf(await take(store))).toEqual(["6"]);
    });

    test("of several that drop at once what is too much, each leaves as many as are to be kept", async () => {
      const { store } = stage;
      await write(Array.from({ length: 30 }, (_, n) => notice(`${n}`, { subject: `s${n % 10}`, at: NOON + n })));
      const drop = () => store.dropNotices({ hook: "h", before: NOON + 99, keep: 20, now: NOON + 99, limit: 50 });
      await Promise.all([drop(), drop(), drop()]);
      expect(await store.countNotices()).toMatchObject([{ hook: "h", pending: 20, oldestAt: NOON + 10 }]);
    });

    test("a disabled hook's notices are kept and not claimed, until it is enabled or has another receiver", async () => {
      const { store } = stage;
      await write([notice("1"), notice("2", { hook: "other" })]);
      const gone = { hook: "h", receiver: "r", at: NOON + 7 };
      expect(await store.disabledHooks()).toEqual([]);
      expect(await store.disableHook(gone)).toBe(true);
      expect(await store.disableHook({ ...gone, at: NOON + 8 })).toBe(false);
      expect(await store.disabledHooks()).toEqual([gone]);
      expect(await take(store)).toEqual([]);
      expect(idsOf(await take(store, NOON, { hook: "other" }))).toEqual(["2"]);
      expect(await store.countNotices()).toMatchObject([{ hook: "h", pending: 1 }, { hook: "other" }]);
      const [moved] = await take(store, NOON, { receiver: "new" });
      expect(moved!.id).toBe("1");
      await store.settleNotice(moved!, NOON, { dueAt: NOON, failures: 1, reason: "status 410" });
      expect(await store.enableHook("other")).toBe(false);
      expect(await store.enableHook("h")).toBe(true);
      expect(await store.disabledHooks()).toEqual([]);
      expect(idsOf(await take(store))).toEqual(["1"]);
    });

    test("notices written while their lane is emptied are kept", async () => {
      const { store } = stage;
      const sent: string[] = [];
      let isWriting = true;
      const deliver = async () => {
        for (;;) {
          const wasWriting = isWriting;
          const claimed = await take(store);
          for (const each of claimed) {
            sent.push(each.id);
            await store.settleNotice(each, NOON);
          }
          if (claimed.length === 0 && !wasWriting) return;
          // A read of SQLite does not leave the iteration of the event loop, which the writes need.
          await setImmediate();
        }
      };
      const delivering = deliver();
      const ids = Array.from({ length: 60 }, (_, n) => `n${n}`);
      for (const id of ids) await write([notice(id)]);
      isWriting = false;
      await delivering;
      expect(sent).toEqual(ids);
      expect(await store.countNotices()).toEqual([]);
    });
  });
}
