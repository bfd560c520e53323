import { expect, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Transcript } from "../../support/clients/transcript.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { has, heldHeads, place, slotsOf } from "../../support/nodes/connection-stage.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { DAY, NOON } from "../../support/stores/floor-writer.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

test("the slot of an ended session is freed before its last event is sent, and is no longer in the position", async () => {
  const saving = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const { feed, rowOf, bound } = await place((own) => ({
    saveConnection: async (row) => {
      if (!row.slots.some(({ ended }) => ended)) return await own.saveConnection(row);
      saving.resolve();
      await goOn.promise;
      return await own.saveConnection(row);
    },
  }));
  const { reader, connectionId } = await bound("a", "b");
  await feed.transit("a", "created", "archived");
  await feed.log("b");
  await saving.promise;
  await turn();
  expect([reader.transcript.seqOf("a"), reader.transcript.seqOf("b")]).toEqual([1, 1]);
  goOn.resolve();
  await reader.until(has({ a: 2, b: 2 }));
  expect(slotsOf(reader.position)).toEqual([{ slot: 1, seq: 2 }]);
  expect((await rowOf(connectionId)).slots.map(({ ended }) => ended)).toEqual([true, undefined]);
});

test("the last event of a slot's session is sent again only to a client that was cut off before it received it", async () => {
  const { feed, url, rowOf, bound } = await place();
  const { reader, connectionId } = await bound("a", "b");
  await feed.log("a");
  await feed.log("b");
  await reader.until(has({ b: 2 }));
  reader.close();
  await feed.transit("a", "created", "archived");
  // Another stream of the same connection gets the end, because it is recorded.
  const other = new SessionReader(`${url}/events?lastEventId=${reader.position}`, new Transcript({ a: 2, b: 2 }));
  await other.open();
  await other.until(has({ a: 3 }));
  other.close();
  expect((await rowOf(connectionId)).slots[0]!.ended).toBe(true);
  await reader.open();
  await reader.until(has({ a: 3 }));
  expect(slotsOf(reader.position)).toEqual([{ slot: 1, seq: 2 }]);
  await reader.open();
  await feed.log("b");
  await reader.until(has({ b: 3 }));
  expect(reader.stream.events.some(({ sessionId }) => sessionId === "a")).toBe(false);
});

test("a slot whose session was deleted does not carry a later session with the same id", async () => {
  const { bus, feed, store, rowOf, bound } = await place(undefined, await openTemporaryStore());
  const { reader, connectionId } = await bound("a", "b");
  await feed.log("b");
  await reader.until(has({ b: 2 }));
  reader.close();
  await feed.delete("a");
  // The id is free again a day later, and another client has kept the connection's row.
  while (await store.prune({ now: NOON, receiptsBefore: NOON + DAY, limit: 10 })) {}
  const { version, head } = feed.writer;
  const next = new FloorFeed(store, bus);
  Object.assign(next.writer, { version, head });
  await next.create("a", { createdAt: NOON + DAY });
  await next.log("a", 6);
  Object.assign(feed.writer, { version: next.writer.version, head: next.writer.head });
  await reader.open();
  await feed.log("b");
  await reader.until(has({ b: 3 }));
  expect(reader.stream.events.filter(({ sessionId }) => sessionId === "a")).toEqual([]);
  expect((await rowOf(connectionId)).slots.map(({ ended }) => ended)).toEqual([true, undefined]);
});

test("a slot ends when its session is deleted, here or while no client is connected", async () => {
  const { feed, bound } = await place();
  const { reader } = await bound("a", "b", "c");
  reader.transcript.maySkip = true;
  await feed.log("c");
  await reader.until(has({ c: 2 }));
  await feed.delete("a");
  await reader.until(has({ a: 2 }));
  expect(reader.transcript.stateOf("a")).toBe("deleted");
  reader.close();
  await feed.log("b", 3);
  await feed.delete("b");
  await reader.open();
  await reader.until(has({ b: 5 }));
  await feed.log("c");
  await reader.until(has({ c: 3 }));
  expect(reader.transcript.logs.get("b")).toHaveLength(1);
  expect(slotsOf(reader.position)).toEqual([{ slot: 2, seq: 3 }]);
});

test("a slot ends when its session is deleted between the lookup and the start of following", async () => {
  const { replace, hold } = heldHeads();
  const { feed, connect, load, rowOf } = await place(replace);
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1 });
  const { asked, goOn } = hold();
  await load(connectionId, "a");
  await asked;
  await feed.delete("a");
  goOn();
  await reader.until(has({ a: 2 }));
  expect((await rowOf(connectionId)).slots[0]!.ended).toBe(true);
});

test("a slot is freed without an event when the deleted session's last event is also gone", async () => {
  const { clock, feed, store, rowOf, bound } = await place(undefined, await openTemporaryStore());
  const { reader, connectionId } = await bound("a", "b");
  await feed.log("b");
  await reader.until(has({ b: 2 }));
  reader.close();
  await feed.delete("a");
  await store.prune({ now: clock.now(), receiptsBefore: clock.now() + DAY, limit: 100 });
  await reader.open();
  await feed.log("b");
  await reader.until(has({ b: 3 }));
  expect(slotsOf(reader.position)).toEqual([{ slot: 1, seq: 3 }]);
  expect((await rowOf(connectionId)).slots[0]!.ended).toBe(true);
});

test("ended slots leave room: eight live sessions fit, a ninth does not, and archived ones do not count", async () => {
  const { feed, connect, load, rowOf } = await place();
  const ids = Array.from({ length: 30 }, (_, n) => `s${n}`);
  for (const id of ids) await feed.create(id);
  const { reader, connectionId } = await connect("", Object.fromEntries(ids.map((id) => [id, 1])));
  for (const id of ids.slice(0, 8)) expect((await load(connectionId, id)).status).toBe(200);
  expect(await load(connectionId, "s8")).toMatchObject({ status: 409, errorCode: "too_many_bindings" });
  await feed.transit("s0", "created", "archived");
  await reader.until(has({ s0: 2 }));
  expect((await load(connectionId, "s8")).status).toBe(200);
  await feed.transit("s1", "created", "archived");
  await reader.until(has({ s1: 2 }));
  for (const id of ids.slice(9)) {
    await feed.transit(id, "created", "archived");
    expect((await load(connectionId, id)).status, id).toBe(200);
    await reader.until(() => true);
    await expect.poll(async () => (await rowOf(connectionId)).slots.filter(({ ended }) => !ended).length).toBe(7);
  }
  await feed.log("s8");
  await reader.until(has({ s8: 2 }));
  expect(slotsOf(reader.position)).toHaveLength(7);
});

test("of two sessions that are loaded at once for the last place of a connection that nobody named, both are loaded", async () => {
  const gate: { asked: number; opens?: PromiseWithResolvers<void> } = { asked: 0 };
  const { feed, connect, load, rowOf } = await place((own) => ({
    loadConnection: async (id) => {
      const row = await own.loadConnection(id);
      gate.asked += 1;
      if (gate.asked === 2) gate.opens?.resolve();
      if (gate.asked <= 2) await gate.opens?.promise;
      return row;
    },
  }));
  const ids = Array.from({ length: 9 }, (_, n) => `s${n}`);
  for (const id of ids) await feed.create(id);
  const { connectionId } = await connect("", Object.fromEntries(ids.map((id) => [id, 1])));
  for (const id of ids.slice(0, 7)) await load(connectionId, id);
  Object.assign(gate, { asked: 0, opens: Promise.withResolvers() });
  const loaded = await Promise.all(ids.slice(7).map((id) => load(undefined, id)));
  expect(loaded.map(({ status }) => status)).toEqual([200, 200]);
  expect((await rowOf(connectionId)).slots).toHaveLength(8);
});

test("an ended session is not bound again when a browser reconnects with its original query", async () => {
  const { feed, connect, rowOf } = await place();
  for (const id of ["a", "b"]) await feed.create(id);
  const { reader, connectionId } = await connect("?sessionId=a&sessionId=b", { a: 1, b: 1 });
  await reader.stream.until(({ events }) => events.filter(({ type }) => type === "agent_list").length === 3);
  await feed.transit("a", "created", "archived");
  await feed.log("b");
  await reader.until(has({ a: 2 }));
  for (let n = 0; n < 3; n++) {
    await reader.until(has({ b: 2 + n }));
    await reader.open();
    await feed.log("b");
  }
  await reader.until(has({ b: 5 }));
  expect((await rowOf(connectionId)).slots).toHaveLength(2);
});
