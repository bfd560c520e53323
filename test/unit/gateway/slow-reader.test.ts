import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { LOG_BYTES } from "../../../src/store/row-page.ts";
import type { Store } from "../../../src/store/store.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Transcript } from "../../support/clients/transcript.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { has, place as openPlace } from "../../support/nodes/connection-stage.ts";
import { openGateway } from "../../support/nodes/gateway-stage.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";
import { withMethods } from "../../support/stores/temporary-store.ts";

/** Large enough to fill a kernel's buffers quickly, and not to share a bus message. */
const HEAVY = "x".repeat(40_000);

async function place(replace: (store: Store) => Partial<Store> = () => ({})) {
  const store = new MemoryStore();
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  // Both move together, but only the clock jumps.
  const stopwatch = { now: () => clock.now() - jumped, after: clock.after.bind(clock) };
  let jumped = 0;
  const jump = (byMs: number) => {
    clock.jump(byMs);
    jumped += byMs;
  };
  const stage = await openGateway({ store: withMethods(store, replace(store)), bus, clock, stopwatch });
  const sockets: Socket[] = [];
  stage.gateway.app.server.on("connection", (socket: Socket) => sockets.push(socket));
  const feed = new FloorFeed(store, bus);
  await feed.create("a");
  const open = (path = "/session/a/events", transcript?: Transcript) => SessionReader.at(stage, path, transcript);
  const caughtUp = (reader: SessionReader) => reader.until(has({ a: feed.writer.head }));
  const read = async () => {
    const reader = await open();
    await caughtUp(reader);
    return { reader, socket: sockets.at(-1)! };
  };
  return { ...stage, clock, jump, feed, open, caughtUp, read };
}

/** The same, with a reader that reads and one that is stalled, whose socket is full. */
async function stalled() {
  const where = await place();
  const { reader: slow, socket } = await where.read();
  const { reader: quick } = await where.read();
  slow.stream.stall();
  while (!(await isFull(socket))) await where.feed.log("a", 1, HEAVY);
  return { ...where, slow, quick };
}

/** Resolves when the socket holds more unsent data than a reader may leave, and cannot send it. */
async function isFull(socket: Socket): Promise<boolean> {
  for (let turns = 0; turns < 20; turns++) {
    if (socket.writableLength <= BOUNDS.unsentBytes) return false;
    await turn();
  }
  return true;
}

test("a stalled reader gets no deltas, and once it reads again one message with the whole text", async () => {
  const { feed, read } = await place();
  const { reader: slow, socket } = await read();
  const { reader: quick } = await read();
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "begin ");
  await slow.until(({ writing }) => writing.get("m") === "begin ");
  slow.stream.stall();
  while (!(await isFull(socket))) await feed.log("a", 1, HEAVY);
  let text = "begin ";
  for (let n = 0; n < 500; n++) {
    feed.delta("a", "m", text.length, `${n} `);
    text += `${n} `;
  }
  await quick.until(({ writing }) => writing.get("m") === text);
  slow.stream.read();
  await slow.until(({ writing }) => writing.get("m") === text);
  expect(slow.transcript.seqOf("a")).toBe(feed.writer.head);
  const received = slow.stream.events.filter(({ type }) => type === "delta" || type === "message");
  expect(received.map(({ type }) => type)).toEqual(["delta", "message"]);
  feed.delta("a", "m", text.length, "end");
  await slow.until(({ writing }) => writing.get("m") === `${text}end`);
});

test.each([
  ["forward", 1],
  ["back", -1],
])(
  "a stalled reader has its time limit, and others get heartbeats, although the clock jumps %s by an hour",
  async (_, hours) => {
    const { clock, jump, cuts, gateway, slow, quick } = await stalled();
    await clock.advance(1_000);
    jump(hours * 3_600_000);
    await clock.advance(1_000);
    expect([gateway.streams.count, cuts()]).toEqual([2, 0]);
    await clock.advance(BOUNDS.stallMs);
    expect([gateway.streams.count, cuts()]).toEqual([1, 1]);
    const beats = quick.stream.comments;
    await clock.advance(BOUNDS.heartbeatMs);
    while (quick.stream.comments === beats) await turn();
    slow.stream.read();
    expect(await slow.stream.over()).toBe("cut");
  },
);

test("a stalled reader is cut off at once when the events it lacks are no longer kept, and no other reader is", async () => {
  const { cuts, feed, gateway, slow, quick, caughtUp } = await stalled();
  for (let n = 0; n < 2 * BOUNDS.keptEvents; n += 64) await feed.log("a", 64);
  await caughtUp(quick);
  expect([gateway.streams.count, cuts()]).toEqual([1, 1]);
  slow.stream.read();
  expect(await slow.stream.over()).toBe("cut");
  await slow.open();
  await caughtUp(slow);
});

test("a slow reader costs no more memory than its limit, however much it misses", async () => {
  const { feed, caughtUp, read } = await place();
  const slow = await Promise.all(Array.from({ length: 20 }, read));
  const { reader: quick } = await read();
  for (const { reader } of slow) reader.stream.stall();
  let most = 0;
  const look = () => {
    const held = slow.map(({ socket }) => (socket.destroyed ? 0 : socket.writableLength));
    most = Math.max(most, ...held);
  };
  for (let n = 0; n < 500; n++) {
    await feed.log("a", 1, HEAVY);
    look();
    if (n % 10 === 9) await turn();
    // The kernel buffers some megabytes before anything waits here.
    if (n % 250 !== 249) continue;
    // The readers read occasionally, and get more.
    for (const { reader } of slow) reader.stream.read();
    for (let turns = 0; turns < 10; turns++) {
      await turn();
      look();
    }
    for (const { reader } of slow) reader.stream.stall();
  }
  await caughtUp(quick);
  expect(most).toBeGreaterThan(BOUNDS.unsentBytes);
  expect(most).toBeLessThan(BOUNDS.unsentBytes + 2 * HEAVY.length);
});

/** The number of a log's events read from the store. */
function counted() {
  const taken = { events: 0, heaviest: 0 };
  const count = <T extends { entries: { json: string }[] } | undefined>(slice: T): T => {
    const weights = slice?.entries.map(({ json }) => json.length) ?? [];
    taken.events += weights.length;
    taken.heaviest = Math.max(
      taken.heaviest,
      weights.reduce((sum, weight) => sum + weight, 0),
    );
    return slice;
  };
  const replace = (own: Store): Partial<Store> => ({
    readSessionLog: async (id, after, limit) => count(await own.readSessionLog(id, after, limit)),
    readFloorLog: async (id, after, limit) => count(await own.readFloorLog(id, after, limit)),
  });
  return { taken, replace };
}

test.each(["/session/a/events", "/floor/u%3Aann/events"])(
  "a history that exceeds the socket buffer is read once, page by page, on %s",
  async (path) => {
    const { taken, replace } = counted();
    const { feed, open } = await place(replace);
    for (let n = 0; n < 300; n++) await feed.log("a", 1, HEAVY);
    await feed.transit("a", "created", "paused");
    const total = feed.writer.head;
    const reader = await open(path, Object.assign(new Transcript(), { maySkip: true }));
    while (reader.transcript.stateOf("a") !== "paused") {
      reader.stream.stall();
      for (let turns = 0; turns < 3; turns++) await turn();
      reader.stream.read();
      await turn();
    }
    // The first event defines the start of the log, and a follower reads the last few again.
    expect(taken.events).toBeLessThan(total + 40);
    expect(taken.heaviest).toBeLessThan(LOG_BYTES + 2 * HEAVY.length);
  },
);

test("a history that exceeds the socket buffer is read once for several sessions of one floor", async () => {
  const { taken, replace } = counted();
  const { feed, bound } = await openPlace(replace);
  const { reader } = await bound("a", "b");
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  reader.close();
  for (let n = 0; n < 150; n++) for (const id of ["a", "b"]) await feed.log(id, 1, HEAVY);
  taken.events = 0;
  await reader.open();
  await reader.until(has({ a: 152, b: 151 }));
  expect(taken.events).toBeLessThan(300 + 50);
  expect(taken.heaviest).toBeLessThan(LOG_BYTES + 2 * HEAVY.length);
});

/** Holds the first full page of a session's history until the test lets it continue. */
function heldHistory() {
  const asked = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  let isFirst = true;
  const replace = (own: Store): Partial<Store> => ({
    readSessionLog: async (id, after, limit) => {
      const slice = await own.readSessionLog(id, after, limit);
      if (limit === 1 || !isFirst) return slice;
      isFirst = false;
      asked.resolve();
      await goOn.promise;
      return slice;
    },
  });
  return { asked: asked.promise, goOn: () => goOn.resolve(), replace };
}

test("a reader of history misses nothing when more events are committed meanwhile than are kept in memory", async () => {
  const { asked, goOn, replace } = heldHistory();
  const { feed, open, caughtUp } = await place(replace);
  const reader = await open();
  await asked;
  for (let n = 0; n < 2 * BOUNDS.keptEvents; n += 64) await feed.log("a", 64);
  await turn();
  goOn();
  await caughtUp(reader);
});

test("readers that come back together read their history a page at a time, so that other work has its turn between", async () => {
  const pages = { now: 0, most: 0 };
  const { feed, open, caughtUp } = await place((own) => ({
    readSessionLog: (id, after, limit) => {
      pages.now += limit === BOUNDS.replayPage ? 1 : 0;
      pages.most = Math.max(pages.most, pages.now);
      return own.readSessionLog(id, after, limit);
    },
  }));
  for (let n = 0; n < 1_500; n += 64) await feed.log("a", 64);
  let isOver = false;
  const turns = (async () => {
    while (!isOver) {
      pages.now = 0;
      await turn();
    }
  })();
  const readers = await Promise.all(Array.from({ length: 12 }, () => open()));
  await Promise.all(readers.map(caughtUp));
  isOver = true;
  await turns;
  expect(pages.most).toBeLessThanOrEqual(2);
});

test("a reader of history gets no deltas before it has the history, and then the text of those deltas", async () => {
  const { asked, goOn, replace } = heldHistory();
  const { feed, open } = await place(replace);
  const reader = await open();
  await asked;
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la ");
  feed.delta("a", "m", 3, "li ");
  await turn();
  expect(reader.stream.events).toEqual([]);
  goOn();
  await reader.until(({ writing }) => writing.get("m") === "la li ");
  expect(reader.stream.typesHeard()).toEqual(["session_created", "message"]);
});

test("a gateway that drains sends its readers away, and cuts off one that does not read the last frame", async () => {
  const { clock, gateway, quick, slow } = await stalled();
  const closed = gateway.close(1_000);
  await clock.advance(799);
  expect(await quick.stream.over()).toBe("clean");
  expect(quick.stream.events.at(-1)).toMatchObject({ type: "bye", data: { reason: "draining" } });
  expect(gateway.streams.count).toBe(1);
  await clock.advance(1);
  await closed;
  slow.stream.read();
  expect(await slow.stream.over()).toBe("cut");
});
