import { expect, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { ConnectionId } from "../../../src/protocol/ids.ts";
import { connectionPosition, parseConnectionPosition } from "../../../src/protocol/position.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import type { SessionReader } from "../../support/clients/session-reader.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { has, heldHeads, idOf, place, slotsOf } from "../../support/nodes/connection-stage.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { DAY } from "../../support/stores/floor-writer.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

/** A stream that continues after a position. */
const openAt = (url: string, position: string) => EventStream.during(`${url}/events`, { "Last-Event-ID": position });

/** A stream of a node that has not noticed that the reader disconnected: frames from here on are lost. */
async function streamToNobody(url: string, reader: SessionReader) {
  const nobody = await openAt(url, reader.position!);
  reader.close();
  return nobody;
}

test("a session whose binding message was lost is carried within a second", async () => {
  const { bus, clock, feed, connect, load } = await place();
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1 });
  bus.fate = () => "lose";
  await load(connectionId, "a");
  await feed.log("a");
  await clock.advance(1_000);
  await reader.until(has({ a: 2 }));
});

test("that the connections cannot be read is logged once a minute, however many are open", async () => {
  let isAway = false;
  const { clock, connect, log } = await place((own) => ({
    loadConnection: (id) => (isAway ? Promise.reject(new AppError("unavailable")) : own.loadConnection(id)),
  }));
  for (let count = 0; count < 3; count++) await connect();
  isAway = true;
  for (let seconds = 0; seconds < 5; seconds++) await clock.advance(1_000);
  expect(log.lines).toEqual(["the row of a connection could not be read"]);
  await clock.advance(60_000);
  expect(log.lines).toHaveLength(2);
});

test("sessions bound while no client is connected are carried on its return", async () => {
  const { feed, connect, load } = await place();
  for (const id of ["a", "b"]) await feed.create(id);
  const { reader, connectionId } = await connect("", { a: 1, b: 1 });
  await load(connectionId, "a");
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  reader.close();
  await load(connectionId, "b");
  await feed.log("b", 3);
  await feed.log("a");
  await reader.open();
  expect(await idOf(reader)).toBe(connectionId);
  await reader.until(has({ b: 4, a: 3 }));
  expect(slotsOf(reader.position)?.map(({ slot }) => slot)).toEqual([0, 1]);
});

test("a connection's stream names every live slot in its position, also while other slots are still being read", async () => {
  let gate: Promise<void> | undefined;
  const { store, bus, feed, connect, load } = await place((own) => ({
    heads: async (ids) => {
      if (ids[0] === "u:zoe") await gate;
      return await own.heads(ids);
    },
  }));
  const zoes = new FloorFeed(store, bus, "u:zoe");
  await feed.create("a");
  await zoes.create("z");
  const { reader, connectionId } = await connect("", { a: 1, z: 1 });
  await load(connectionId, "a");
  await load(connectionId, "z");
  await feed.log("a");
  await zoes.log("z");
  await reader.until(has({ a: 2, z: 2 }));
  reader.close();
  await feed.log("a");
  const open = Promise.withResolvers<void>();
  gate = open.promise;
  await reader.open();
  await reader.until(has({ a: 3 }));
  // The reader was cut off before the other floor was followed.
  reader.close();
  open.resolve();
  await reader.open();
  await zoes.log("z");
  await reader.until(has({ z: 3, a: 3 }));
});

test("a connection's stream adds one binding after another, however many are made at once", async () => {
  const gates = { "u:yan": Promise.withResolvers<void>(), "u:zoe": Promise.withResolvers<void>() };
  const { store, bus, feed, connect, load } = await place((own) => ({
    heads: async (ids) => {
      await gates[ids[0] as keyof typeof gates]?.promise;
      return await own.heads(ids);
    },
  }));
  const yans = new FloorFeed(store, bus, "u:yan");
  const zoes = new FloorFeed(store, bus, "u:zoe");
  await yans.create("y");
  await zoes.create("z");
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1, y: 1, z: 1 });
  await load(connectionId, "y");
  await load(connectionId, "z");
  gates["u:yan"].resolve();
  await yans.log("y");
  await reader.until(has({ y: 2 }));
  await load(connectionId, "a");
  await zoes.log("z");
  // Enough time for the third binding, if it did not wait for the second.
  for (let count = 0; count < 5; count++) await turn();
  gates["u:zoe"].resolve();
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  const received = reader.stream.events.map(({ type, sessionId }) => sessionId ?? type);
  expect(received.slice(-3)).toEqual(["z", "agent_list", "a"]);
});

test("a position of an unknown connection starts a new connection, with a reset", async () => {
  const { store, url } = await place();
  const unknown = { epoch: store.epoch, connectionId: "nobody" as ConnectionId, slots: [{ slot: 0, seq: 3 }] };
  const stream = await openAt(url, connectionPosition(unknown));
  const reset = await stream.next("reset");
  const { connectionId } = (await stream.next("connected")).data;
  expect(reset).toMatchObject({ id: `${store.epoch}.${connectionId}..0`, data: {} });
  expect(connectionId).not.toBe("nobody");
  expect(stream.typesHeard()).toEqual(["connected", "agent_list", "reset"]);
});

test("a connection's stream resets only the slot whose position is invalid", async () => {
  const { feed, store, url, bound } = await place();
  const { reader, connectionId } = await bound("a", "b");
  reader.close();
  for (const id of ["a", "b"]) await feed.log(id, 3);
  const slots = [
    { slot: 0, seq: 77 },
    { slot: 1, seq: 2 },
  ];
  const position = { epoch: store.epoch, connectionId: connectionId as ConnectionId, slots };
  const stream = await openAt(url, connectionPosition(position));
  await stream.next("session_updated", ({ sessionId, seq }) => sessionId === "b" && seq === 4);
  await feed.log("a");
  await stream.next("session_updated", ({ sessionId }) => sessionId === "a");
  const received = stream.events.filter(({ sessionId }) => sessionId !== undefined);
  expect(received.map(({ type, sessionId, seq }) => `${type} ${sessionId} ${seq ?? ""}`)).toEqual([
    "reset a ",
    "session_updated b 3",
    "session_updated b 4",
    "session_updated a 5",
  ]);
  expect(received[0]!.data).toEqual({ sessionId: "a", from: 4 });
  expect(slotsOf(received[0]!.id)).toEqual([
    { slot: 0, seq: 4 },
    { slot: 1, seq: 2 },
  ]);
});

test("a connection's row is kept while a client reads its stream, and for a day after", async () => {
  const { clock, feed, store, connect, load, rowOf } = await place(undefined, await openTemporaryStore());
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1 });
  for (let tens = 0; tens < 7; tens++) {
    clock.jump((10 * DAY) / 24);
    await clock.advance(1_000);
    await store.prune({ now: clock.now(), receiptsBefore: 0, limit: 100 });
  }
  expect((await load(connectionId, "a")).status).toBe(200);
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  expect((await rowOf(connectionId)).expiresAt).toBeGreaterThan(clock.now() + DAY / 3);
});

test("a connection's stream leaves no follower behind when its client disconnects while a floor is being opened", async () => {
  const { replace, hold } = heldHeads();
  const { bus, feed, gateway, connect, load } = await place(replace);
  await feed.create("a");
  const before = bus.memory.topicCount;
  const { reader, connectionId } = await connect();
  const { asked, goOn } = hold();
  await load(connectionId, "a");
  await asked;
  reader.close();
  while (gateway.streams.count > 0) await turn();
  goOn();
  await turn();
  expect([gateway.followers.count, bus.memory.topicCount]).toEqual([0, before]);
});

test("a returning client gets the events of sessions that were bound and ended meanwhile, each once", async () => {
  const { url, feed, connect, load } = await place();
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1, b: 1, c: 1 });
  await load(connectionId, "a");
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  const nobody = await streamToNobody(url, reader);
  for (const id of ["b", "c"]) {
    await feed.create(id);
    await load(connectionId, id);
    await feed.log(id);
    if (id === "b") await feed.transit(id, "created", "archived");
    else await feed.delete(id);
    await nobody.next("session_transition", ({ sessionId }) => sessionId === id);
  }
  reader.transcript.maySkip = true;
  await reader.open();
  await reader.until(has({ b: 3 }));
  await reader.until((transcript) => transcript.stateOf("c") === "deleted");
  await reader.open();
  await feed.log("a");
  await reader.until(has({ a: 3 }));
  expect(reader.stream.typesHeard()).not.toContain("reset");
  expect(reader.stream.events.map(({ sessionId }) => sessionId)).not.toContain("b");
  expect(slotsOf(reader.position)).toEqual([{ slot: 0, seq: 3 }]);
});

test("a connection's stream resets when more sessions were bound and ended than a position can name", async () => {
  const { url, feed, load, bound } = await place();
  const { reader, connectionId } = await bound("a");
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  const nobody = await streamToNobody(url, reader);
  for (let n = 0; n < BOUNDS.liveSlots; n++) {
    const id = `b${n}`;
    await feed.create(id);
    await load(connectionId, id);
    await feed.transit(id, "created", "archived");
    await nobody.next("session_transition", ({ sessionId }) => sessionId === id);
  }
  await feed.log("a");
  await reader.open();
  await reader.until(has({ a: 3 }));
  expect(reader.stream.events.filter(({ type }) => type === "reset").map(({ data }) => data)).toEqual([{}]);
  expect(slotsOf(reader.position)).toEqual([{ slot: 0, seq: 3 }]);
});

test("a connection survives a jump ahead of the wall clock", async () => {
  const { clock, feed, connect, load } = await place();
  await feed.create("a");
  const { reader, connectionId } = await connect("", { a: 1 });
  clock.jump(400 * DAY);
  expect((await load(connectionId, "a")).status).toBe(200);
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  await reader.open();
  expect(await idOf(reader)).toBe(connectionId);
});

test("a position stays under 128 bytes for any eight slots", async () => {
  const { store } = await place();
  const slots = Array.from({ length: 8 }, (_, n) => ({ slot: 9_992 + n, seq: 2_821_109_907_455 }));
  const whole = { epoch: store.epoch, connectionId: "x".repeat(12) as ConnectionId, slots, known: 10_000 };
  const position = connectionPosition(whole);
  expect(position.length).toBeLessThan(128);
  expect(position).toMatch(/^[A-Za-z0-9._-]+$/);
  expect(parseConnectionPosition(position)).toEqual(whole);
  const { known: _, ...without } = whole;
  expect(parseConnectionPosition(connectionPosition(without))).toEqual(without);
});

test.each(["/events", "/session/a/events", "/floor/u%3Aann/events"])(
  "a stream of %s that is temporarily unavailable is ended with a delay to retry, not refused",
  async (path) => {
    let isOut = true;
    const out = () => (isOut ? Promise.reject(new AppError("unavailable")) : undefined);
    const { feed, url, gateway } = await place((own) => ({
      saveConnection: (row) => out() ?? own.saveConnection(row),
      heads: (ids) => out() ?? own.heads(ids),
    }));
    await feed.create("a");
    const stream = await EventStream.open(`${url}${path}`);
    expect(await stream.over()).toBe("clean");
    expect(stream.status).toBe(200);
    expect(stream.events).toMatchObject([{ type: "bye", data: { reason: "overloaded" } }]);
    expect(stream.retries.at(-1)).toBe(stream.events[0]!.data.reconnectInMs);
    isOut = false;
    const again = await EventStream.during(`${url}${path}`);
    await again.until(({ position, events }) => position !== undefined || events.length > 0);
    expect([gateway.streams.count, gateway.followers.count]).toEqual([1, path === "/events" ? 0 : 1]);
  },
);

test("a reader that comes while the gateway drains is sent away at once, and is told when to come back", async () => {
  const { clock, feed, url, gateway } = await place();
  await feed.create("a");
  const former = await EventStream.during(`${url}/session/a/events`);
  await former.next("session_created");
  // The clock stands, so that the former reader keeps the gateway open.
  const closed = gateway.close(4_000);
  for (const path of ["/events", "/session/a/events", "/floor/u%3Aann/events"]) {
    const late = await EventStream.during(`${url}${path}`);
    expect([late.status, await late.over()]).toEqual([200, "clean"]);
    expect(late.events).toMatchObject([{ type: "bye", data: { reason: "draining" } }]);
    expect(late.retries.at(-1)).toBe(late.events[0]!.data.reconnectInMs);
  }
  expect(former.ending).toBeUndefined();
  await clock.advance(0);
  expect(await former.over()).toBe("clean");
  await closed;
});
