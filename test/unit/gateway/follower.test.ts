import { expect, onTestFinished, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { type FloorListener, Follower } from "../../../src/gateway/streams/follower.ts";
import { Followers } from "../../../src/gateway/streams/followers.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { FloorId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import { floorTopic } from "../../../src/protocol/internal/floor-message.ts";
import { ANSWER_BYTES } from "../../../src/store/row-page.ts";
import type { Store } from "../../../src/store/store.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { Chance } from "../../support/runner/chance.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";
import { withMethods } from "../../support/stores/temporary-store.ts";

/** Reads a follower to its end on request. */
class Reading implements FloorListener {
  readonly places: number[] = [];
  readonly #follower: Follower;
  #index: number;
  droppedUpTo = 0;

  constructor(follower: Follower) {
    this.#follower = follower;
    this.#index = follower.endIndex;
    follower.listen(this);
  }

  isLive = false;

  advance(): void {
    for (let entry = this.#follower.at(this.#index); entry; entry = this.#follower.at(this.#index)) {
      this.places.push(entry.floorSeq);
      this.#index += 1;
    }
  }

  delta(): void {}
  redraw(): void {}
  liveEvent(): void {}

  dropped(upTo: number): void {
    this.droppedUpTo = upTo;
  }
}

/** A floor with a session `a`, whose store cannot be read while `isOut`. */
async function place() {
  const own = new MemoryStore();
  const state = { isOut: false };
  const unlessOut =
    <Given extends unknown[], Answer>(read: (...given: Given) => Promise<Answer>) =>
    (...given: Given) =>
      state.isOut ? Promise.reject(new AppError("unavailable")) : read.apply(own, given);
  const store = withMethods(own, { heads: unlessOut(own.heads), readFloorLog: unlessOut(own.readFloorLog) });
  const bus = new UnreliableBus();
  const feed = new FloorFeed(store, bus);
  await feed.create("a");
  return { store, bus, feed, state, log: new KeptLog() };
}

/** The same, with a reader of its follower. */
async function placeWithReader() {
  const where = await place();
  const follower = await follow(where.store, where.bus, where.log);
  return { ...where, follower, reading: new Reading(follower) };
}

async function follow(store: Store, bus: UnreliableBus, log = new KeptLog()): Promise<Follower> {
  const follower = await Follower.open("u:ann" as FloorId, { bus, store, now: () => NOON, log });
  onTestFinished(() => follower.close());
  return follower;
}

const upTo = (last: number, from = 1) => Array.from({ length: last - from + 1 }, (_, n) => from + n);

test("a follower delivers each event once and in order, although the bus loses, repeats and reorders messages", async () => {
  const store = new MemoryStore();
  for (let seed = 1; seed <= 10; seed++) {
    const chance = new Chance(seed);
    const bus = new UnreliableBus();
    const feed = new FloorFeed(store, bus, `u:ann-${seed}`);
    const options = { bus, store, now: () => NOON, log: new KeptLog() };
    await feed.create(`a-${seed}`);
    const follower = await Follower.open(feed.id, options);
    const reading = new Reading(follower);
    bus.fate = () => chance.pick(["deliver", "deliver", "lose", "repeat", "delay"]);
    for (let step = 0; step < 40; step++) {
      await feed.log(`a-${seed}`, 1 + chance.below(3));
      if (chance.percent(40)) await bus.deliverLate((count) => chance.below(count));
      expect(reading.places, `seed ${seed}`).toEqual(upTo(reading.places.length + 1, 2));
    }
    while (bus.lateCount > 0) await bus.deliverLate((count) => chance.below(count));
    follower.learnHead(feed.writer.head);
    await turn();
    await turn();
    expect(reading.places, `seed ${seed}`).toEqual(upTo(feed.writer.head, 2));
    follower.close();
  }
});

test("a follower misses no commit while it reads the head of the log", async () => {
  const { store, bus, feed } = await place();
  const looked = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const slow = withMethods(store, {
    heads: async (ids) => {
      const heads = await store.heads(ids);
      looked.resolve();
      await goOn.promise;
      return heads;
    },
  });
  const opening = follow(slow, bus);
  await looked.promise;
  await feed.log("a", 2);
  await turn();
  goOn.resolve();
  const follower = await opening;
  expect(follower.floorSeq).toBe(3);
});

test("a follower reads again what was committed during its read if the bus lost the later message", async () => {
  const { bus, feed, log, state, follower, reading } = await placeWithReader();
  bus.fate = () => "lose";
  await feed.log("a");
  state.isOut = true;
  follower.learnHead(feed.writer.head);
  await turn();
  expect(reading.places).toEqual([]);
  expect(log.lines).toEqual(["a floor's log could not be read"]);
  state.isOut = false;
  follower.learnHead(feed.writer.head);
  await turn();
  expect(reading.places).toEqual([2]);
});

test("a follower skips deleted events, and does not wait for them", async () => {
  const { bus, feed, follower, reading } = await placeWithReader();
  await feed.create("b");
  await turn();
  bus.fate = () => "lose";
  await feed.log("b", 4);
  await feed.delete("b");
  await feed.log("a");
  follower.learnHead(feed.writer.head);
  await turn();
  // The four events were deleted with their session; the session's last event stayed.
  expect(reading.places).toEqual([2, 7, 8]);
  bus.fate = () => "deliver";
  await feed.log("a");
  await turn();
  expect(reading.places).toEqual([2, 7, 8, 9]);
});

test("a follower keeps only the newest events, and reports which are gone", async () => {
  const { feed, follower, reading } = await placeWithReader();
  const total = BOUNDS.keptEvents + 100;
  for (let n = 0; n < total; n += 50) await feed.log("a", 50);
  await turn();
  expect(reading.places).toHaveLength(total + (50 - (total % 50 || 50)));
  expect(follower.endIndex - reading.droppedUpTo).toBe(BOUNDS.keptEvents);
  expect(follower.at(reading.droppedUpTo - 1)).toBeUndefined();
  expect(follower.at(reading.droppedUpTo)?.floorSeq).toBe(follower.keptFrom + 1);
});

test("a follower's memory is limited in bytes, also with few events", async () => {
  const { feed, follower } = await placeWithReader();
  for (let n = 0; n < 40; n++) await feed.log("a", 1, "x".repeat(50_000));
  await turn();
  const kept = upTo(feed.writer.head).filter((seq) => seq > follower.keptFrom);
  expect(kept.length * 50_000).toBeLessThanOrEqual(BOUNDS.keptBytes);
  expect(kept.length).toBeGreaterThan(15);
  expect(follower.at(follower.indexAfter(follower.keptFrom))?.floorSeq).toBe(kept[0]);
});

test("a follower drops events that every listener has received", async () => {
  const { feed, follower, reading } = await placeWithReader();
  reading.isLive = true;
  await feed.log("a", 3);
  await turn();
  expect(follower.keptFrom).toBe(follower.floorSeq);
  expect(follower.at(follower.endIndex - 1)).toBeUndefined();
  expect(reading.places).toEqual([2, 3, 4]);
});

test("a malformed message is logged, and the next one is processed", async () => {
  const { store, bus, feed, log, follower } = await placeWithReader();
  await bus.publish(floorTopic(store.epoch, feed.id), new TextEncoder().encode("not json\n"));
  await feed.log("a");
  await turn();
  expect(log.lines).toEqual(["a message of a floor could not be decoded"]);
  expect(follower.floorSeq).toBe(2);
});

test("a follower that fails to open leaves nothing behind", async () => {
  const { store, bus, state } = await place();
  state.isOut = true;
  await expect(follow(store, bus)).rejects.toThrow(AppError);
  expect(bus.memory.topicCount).toBe(0);
});

function node(store: Store, bus: UnreliableBus) {
  const clock = new VirtualClock();
  const log = new KeptLog();
  const losses = { count: 0 };
  const onBehind = () => {
    losses.count += 1;
  };
  const followers = new Followers({ bus, store, clock, log, onBehind });
  followers.start();
  onTestFinished(() => followers.stop());
  return { clock, followers, log, losses };
}

/** A floor, and a node with a reader of it. */
async function placeOnNode() {
  const where = await place();
  const own = node(where.store, where.bus);
  const follower = await own.followers.join(where.feed.id);
  return { ...where, ...own, follower, reading: new Reading(follower) };
}

test("the followers of a node recover a lost last message within a second", async () => {
  const { bus, feed, clock, reading } = await placeOnNode();
  bus.fate = () => "lose";
  await feed.log("a");
  await turn();
  expect(reading.places).toEqual([]);
  await clock.advance(BOUNDS.reconcileMs);
  expect(reading.places).toEqual([2]);
});

test("a commit whose message is on its way is read at once, and is not counted as lost unless it does not come", async () => {
  const { bus, feed, clock, losses, follower, reading } = await placeOnNode();
  bus.fate = () => "delay";
  await feed.log("a");
  await clock.advance(BOUNDS.reconcileMs);
  expect([reading.places, losses.count]).toEqual([[2], 0]);
  // A reader's page says so at any time.
  follower.learnHead(feed.writer.head);
  await bus.deliverLate();
  await turn();
  await clock.advance(2 * BOUNDS.reconcileMs);
  expect([reading.places, losses.count]).toEqual([[2], 0]);
  await feed.log("a");
  await clock.advance(BOUNDS.reconcileMs);
  expect([reading.places, losses.count]).toEqual([[2, 3], 0]);
  await clock.advance(BOUNDS.reconcileMs);
  expect(losses.count).toBe(1);
  // Once lost, it is not counted again.
  await bus.deliverLate();
  await turn();
  await clock.advance(2 * BOUNDS.reconcileMs);
  expect([reading.places, losses.count]).toEqual([[2, 3], 1]);
});

test("a commit that a later message skips is counted as lost at once, also if the store's head was read before", async () => {
  const { bus, feed, clock, losses, reading } = await placeOnNode();
  bus.fates.push("lose", "deliver", "lose");
  await feed.log("a");
  await feed.log("a");
  await turn();
  expect([reading.places, losses.count]).toEqual([[2, 3], 1]);
  await feed.log("a");
  await clock.advance(BOUNDS.reconcileMs);
  expect([reading.places, losses.count]).toEqual([[2, 3, 4], 1]);
  await feed.log("a");
  await turn();
  expect([reading.places, losses.count]).toEqual([[2, 3, 4, 5], 2]);
  await clock.advance(2 * BOUNDS.reconcileMs);
  expect(losses.count).toBe(2);
});

test("the followers of a node catch up at once when the bus is back", async () => {
  const { bus, feed, reading } = await placeOnNode();
  bus.fate = () => "lose";
  await feed.log("a");
  bus.recover();
  await turn();
  expect(reading.places).toEqual([2]);
});

test("the followers of a node log once a minute that the store does not answer", async () => {
  const { state, clock, log } = await placeOnNode();
  state.isOut = true;
  for (let second = 0; second < 65; second += 1) await clock.advance(BOUNDS.reconcileMs);
  expect(log.lines).toEqual(Array(2).fill("followed floors could not be reconciled"));
});

test("the followers of a node poll the store for a thousand floors at a time, and reach every floor", async () => {
  const { store, bus } = await place();
  const asked: number[] = [];
  const seen = new Set<FloorId>();
  const counting = withMethods(store, {
    heads: async (ids) => {
      if (ids.length > 1) {
        asked.push(ids.length);
        for (const id of ids) seen.add(id);
      }
      return await store.heads(ids);
    },
  });
  const { clock, followers } = node(counting, bus);
  const ids = Array.from({ length: 2_500 }, (_, n) => `u:user-${n}` as FloorId);
  await Promise.all(ids.map((id) => followers.join(id)));
  await clock.advance(3 * BOUNDS.reconcileMs);
  expect(asked).toEqual([1_000, 1_000, 1_000]);
  expect(seen.size).toBe(2_500);
});

test("the followers of a node follow a floor once for all its readers, and release it with the last", async () => {
  const { store, bus, feed } = await place();
  const { followers } = node(store, bus);
  const [one, other] = await Promise.all([followers.join(feed.id), followers.join(feed.id)]);
  expect(other).toBe(one);
  followers.leave(feed.id);
  expect([followers.count, bus.memory.topicCount]).toEqual([1, 1]);
  followers.leave(feed.id);
  await turn();
  expect([followers.count, bus.memory.topicCount]).toEqual([0, 0]);
});

test("a floor that cannot be followed now can be followed later", async () => {
  const { store, bus, feed, state } = await place();
  state.isOut = true;
  const { followers } = node(store, bus);
  const joins = await Promise.allSettled([followers.join(feed.id), followers.join(feed.id)]);
  expect(joins.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect([followers.count, bus.memory.topicCount]).toEqual([0, 0]);
  state.isOut = false;
  await followers.join(feed.id);
  expect(followers.count).toBe(1);
});

test("a follower whose last reader leaves while it opens is closed once it is open", async () => {
  const { store, bus, feed } = await place();
  const { followers } = node(store, bus);
  const joining = followers.join(feed.id);
  followers.leave(feed.id);
  await joining;
  await turn();
  expect([followers.count, bus.memory.topicCount]).toEqual([0, 0]);
});

test("a follower has all unfinished messages of its floor, from any number of pages", async () => {
  const store = new MemoryStore();
  const floor = new FloorWriter(store);
  const agent = { kind: "master" as const, name: "music", depth: 0, path: ["music"] };
  const content = "x".repeat(ANSWER_BYTES / 2);
  for (let n = 0; n < 5; n++) {
    const about = { role: "assistant" as const, status: "running" as const, runId: `r${n}` as RunId, agent };
    const message = makeMessage("a", `m${n}`, { ...about, content: `${n} ${content}` });
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }] });
  }
  const follower = await follow(store, new UnreliableBus());
  const texts = follower.drafts.of("a" as SessionId).map(({ text }) => text.slice(0, 2));
  expect(texts).toEqual(["0 ", "1 ", "2 ", "3 ", "4 "]);
});

test("a floor whose follower cannot be opened does not prevent others from catching up", async () => {
  const { store, bus, feed } = await place();
  const other = new FloorWriter(store, "u:aaa");
  await other.write();
  const stuck = Promise.withResolvers<never>();
  const shaky = withMethods(store, {
    loadDrafts: (id, after) => (id === other.id ? stuck.promise : store.loadDrafts(id, after)),
  });
  const { clock, followers } = node(shaky, bus);
  const opening = followers.join(other.id);
  const reading = new Reading(await followers.join(feed.id));
  bus.fate = () => "lose";
  await feed.log("a");
  await clock.advance(BOUNDS.reconcileMs);
  expect(reading.places).toEqual([2]);
  stuck.reject(new AppError("unavailable"));
  await expect(opening).rejects.toThrow(AppError);
});
