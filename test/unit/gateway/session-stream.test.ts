import { expect, onTestFinished, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import { bornOf, logPosition } from "../../../src/protocol/position.ts";
import type { Store } from "../../../src/store/store.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { type GatewayStage, openGateway } from "../../support/nodes/gateway-stage.ts";
import { Chance } from "../../support/runner/chance.ts";
import { turn, VirtualClock } from "../../support/runner/virtual-clock.ts";
import { DAY, NOON } from "../../support/stores/floor-writer.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";
import { openTemporaryStore, withMethods } from "../../support/stores/temporary-store.ts";

interface Place extends GatewayStage {
  store: Store;
  bus: UnreliableBus;
  clock: VirtualClock;
  feed: FloorFeed;
  /** A connected reader of the session. */
  read(session?: string): Promise<SessionReader>;
}

/** A floor whose session `a` is streaming a message, and a gateway that serves it. */
async function place(
  replace: (store: Store) => Partial<Store> = () => ({}),
  store: Store = new MemoryStore(),
): Promise<Place> {
  const bus = new UnreliableBus();
  const clock = new VirtualClock();
  const stage = await openGateway({ store: withMethods(store, replace(store)), bus, clock });
  const feed = new FloorFeed(store, bus);
  await feed.create("a");
  const read = async (session = "a") => {
    const reader = new SessionReader(`${stage.url}/session/${session}/events`);
    onTestFinished(() => reader.close());
    return await reader.open();
  };
  return { ...stage, store, bus, clock, feed, read };
}

/** The same, with a reader that has received the start of a message. */
async function hearing(): Promise<Place & { reader: SessionReader }> {
  const where = await place();
  const reader = await where.read();
  await reader.until((transcript) => transcript.seqOf("a") === 1);
  await where.feed.open("a", "m");
  where.feed.delta("a", "m", 0, "la ");
  await reader.until(() => textNow(reader) === "la ");
  return { ...where, reader };
}

const textNow = (reader: SessionReader, id = "m") => reader.transcript.writing.get(id);

test("a session's stream replays a long history in pages, and continues live without a gap", async () => {
  const { feed, read } = await place();
  const total = 3 * BOUNDS.replayPage;
  for (let n = 0; n < total; n += 64) await feed.log("a", 64);
  const readers = await Promise.all([read(), read(), read()]);
  for (let n = 0; n < 20; n++) await feed.log("a", 1 + (n % 3));
  for (const reader of readers) {
    await reader.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  }
});

test("a session's stream contains no event of another session", async () => {
  const { feed, read } = await place();
  await feed.create("b");
  const reader = await read("b");
  await feed.log("a", 2);
  await feed.log("b");
  await reader.until((transcript) => transcript.seqOf("b") === 2);
  expect(new Set(reader.stream.events.map(({ sessionId }) => sessionId))).toEqual(new Set(["b"]));
});

test.each([
  ["of another store", "zzzzz9.1"],
  ["in the future", undefined],
  ["that is malformed", "nonsense"],
])("a position %s is answered with a reset at the head", async (_, given) => {
  const { feed, store, url } = await place();
  await feed.log("a", 4);
  const headers = { "Last-Event-ID": given ?? `${store.epoch}.99` };
  const stream = await EventStream.open(`${url}/session/a/events`, headers);
  onTestFinished(() => stream.cut());
  const reset = await stream.next("reset");
  expect(reset).toMatchObject({ id: logPosition(store.epoch, 5, bornOf(NOON)), data: { sessionId: "a", from: 5 } });
  await feed.log("a");
  expect((await stream.next("session_updated")).seq).toBe(6);
});

test("a session's stream ends with the last event and bye; a reader that reconnects then has every event", async () => {
  const { feed, read, store, url } = await place();
  const reader = await read();
  await feed.transit("a", "created", "archived");
  expect(await reader.stream.over()).toBe("clean");
  expect(reader.stream.typesHeard()).toEqual(["session_created", "session_transition", "bye"]);
  expect(reader.stream.events.at(-1)?.data).toEqual({ reason: "ended" });
  const again = await EventStream.open(`${url}/session/a/events`, { "Last-Event-ID": reader.position! });
  expect(again.status).toBe(204);
  const fresh = await EventStream.open(`${url}/session/a/events?lastEventId=${store.epoch}.0`);
  expect(await fresh.over()).toBe("clean");
  expect(fresh.typesHeard()).toEqual(["session_created", "session_transition", "bye"]);
});

test("a deleted session's stream sends its last event to readers that lack it", async () => {
  const { feed, store, url } = await place();
  await feed.log("a", 2);
  await feed.delete("a");
  const late = await EventStream.open(`${url}/session/a/events`, { "Last-Event-ID": `${store.epoch}.1` });
  expect(await late.over()).toBe("clean");
  expect(late.events).toMatchObject([
    { type: "session_transition", seq: 4, id: `${store.epoch}.4.0`, data: { to: "deleted" } },
    { type: "bye", data: { reason: "ended" } },
  ]);
  const again = await EventStream.open(`${url}/session/a/events`, { "Last-Event-ID": late.position! });
  expect(again.status).toBe(204);
});

test("a position of a deleted session is not valid in a later session with the same id", async () => {
  const { bus, feed, read, store, url } = await place(undefined, await openTemporaryStore());
  const live = await read();
  await feed.log("a", 2);
  await live.until((transcript) => transcript.seqOf("a") === 3);
  const loaded = (await (await fetch(`${url}/session/a`)).json()) as { position: string };
  const listed = (await (await fetch(`${url}/session/a/messages`)).json()) as { position: string };
  expect([loaded.position, listed.position]).toEqual([live.position, live.position]);
  await feed.delete("a");
  const late = await EventStream.open(`${url}/session/a/events`);
  await late.over();
  // The id is free again a day later.
  while (await store.prune({ now: NOON, receiptsBefore: NOON + DAY, limit: 10 })) {}
  const next = new FloorFeed(store, bus, "u:bob");
  await next.create("a", { createdAt: NOON + DAY, userId: "bob" });
  await next.log("a", 6);
  for (const position of [loaded.position, late.position!]) {
    const stream = await EventStream.open(`${url}/session/a/events`, { "Last-Event-ID": position });
    expect(await stream.next("reset")).toMatchObject({ data: { sessionId: "a", from: 7 } });
    stream.cut();
  }
});

test("a session's stream ends when the session is deleted between the lookup and the start of following", async () => {
  const found = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const { feed, url } = await place((own) => ({
    heads: async (ids) => {
      found.resolve();
      await goOn.promise;
      return await own.heads(ids);
    },
  }));
  const opening = EventStream.open(`${url}/session/a/events`);
  await found.promise;
  await feed.delete("a");
  goOn.resolve();
  const stream = await opening;
  onTestFinished(() => stream.cut());
  expect(await stream.over()).toBe("clean");
  expect(stream.events).toMatchObject([{ type: "session_transition", data: { to: "deleted" } }, { type: "bye" }]);
});

test("a reader that joins during a reply gets its text so far once, and then deltas", async () => {
  const { feed, read } = await place();
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la li ");
  await feed.checkpoint("a", "m", "la li ");
  const reader = await read();
  await reader.until(() => textNow(reader) === "la li ");
  feed.delta("a", "m", 6, "lu ");
  feed.delta("a", "m", 9, "lo");
  await reader.until(() => textNow(reader) === "la li lu lo");
  const received = reader.stream.events.filter(({ type, data }) => type === "message" || data.messageId === "m");
  expect(received.map(({ type, data }) => `${type} ${data.content ?? data.text}`)).toEqual([
    "message la li ",
    "delta lu ",
    "delta lo",
  ]);
  expect(received[0]!.data).toMatchObject({ id: "m", streaming: true, status: "running" });
});

test("a reader that joined before the first checkpoint gets the rest of the reply after it", async () => {
  const { feed, read } = await place();
  await feed.open("a", "m");
  // Sent while no follower was there, and not stored yet.
  feed.delta("a", "m", 0, "la ");
  const reader = await read();
  await reader.until((transcript) => transcript.seqOf("a") === 1);
  feed.delta("a", "m", 3, "li ");
  await feed.checkpoint("a", "m", "la ");
  feed.delta("a", "m", 6, "lu");
  await reader.until(() => textNow(reader) === "la li lu");
});

test("a lost piece of a reply is recovered by the next checkpoint", async () => {
  const { bus, feed, reader } = await hearing();
  bus.fate = () => "lose";
  feed.delta("a", "m", 3, "li ");
  bus.fate = () => "deliver";
  feed.delta("a", "m", 6, "lu ");
  await feed.checkpoint("a", "m", "la li lu ");
  await reader.until(() => textNow(reader) === "la li lu ");
  feed.delta("a", "m", 9, "lo");
  await reader.until(() => textNow(reader) === "la li lu lo");
});

test("the lost last piece of a reply is sent when the bus is back, even without further text (history 3007586)", async () => {
  const { bus, feed, reader } = await hearing();
  bus.fate = () => "lose";
  feed.delta("a", "m", 3, "li ");
  await feed.checkpoint("a", "m", "la li ");
  bus.fate = () => "deliver";
  bus.recover();
  await reader.until(() => textNow(reader) === "la li ");
  feed.delta("a", "m", 6, "lu");
  await reader.until(() => textNow(reader) === "la li lu");
});

test("late pieces of a finished reply are not sent", async () => {
  const { bus, feed, read } = await place();
  const reader = await read();
  await reader.until((transcript) => transcript.seqOf("a") === 1);
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la ");
  bus.fate = () => "delay";
  feed.delta("a", "m", 3, "li");
  bus.fate = () => "deliver";
  await feed.finish("a", "m", "la li");
  await bus.deliverLate();
  feed.delta("a", "ghost", 0, "boo");
  await feed.log("a");
  await reader.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  const other = await read();
  await other.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  await feed.log("a");
  await other.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  expect([...reader.transcript.writing.keys(), ...other.transcript.writing.keys()]).toEqual([]);
});

test("a finished reply is not sent again to a reader that received its end before this node did", async () => {
  const { bus, clock, feed, read, reader: first } = await hearing();
  bus.fate = () => "lose";
  await feed.finish("a", "m", "la li");
  // The reader gets the end of the message from the store.
  const reader = await read();
  await reader.until(({ finished }) => finished.has("m"));
  await clock.advance(BOUNDS.reconcileMs);
  bus.fate = () => "deliver";
  await feed.log("a");
  await reader.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  await first.until((transcript) => transcript.seqOf("a") === feed.writer.head);
});

test("pieces of a replaced attempt are not sent", async () => {
  const { feed, read } = await place();
  const reader = await read();
  await reader.until((transcript) => transcript.seqOf("a") === 1);
  await feed.open("a", "m1");
  feed.delta("a", "m1", 0, "old ");
  await feed.finish("a", "m1", "old ", { goesOn: true });
  await feed.open("a", "m2", "run", 2);
  feed.delta("a", "m2", 0, "new ", { attempt: 2 });
  feed.delta("a", "m3", 0, "zombie ", { attempt: 1 });
  feed.delta("a", "m2", 4, "er", { attempt: 2 });
  await reader.until(() => textNow(reader, "m2") === "new er");
  expect([...reader.transcript.writing.keys()]).toEqual(["m2"]);
});

test("no text is sent of a session that lost the floor", async () => {
  const { feed, read } = await place();
  const reader = await read();
  await feed.transit("a", "created", "active.running");
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la ");
  await feed.transit("a", "active.running", "paused");
  feed.delta("a", "m", 3, "li ");
  await feed.transit("a", "paused", "active.running");
  feed.delta("a", "m", 3, "li ");
  await feed.log("a");
  await reader.until((transcript) => transcript.seqOf("a") === feed.writer.head);
  const deltas = reader.stream.events.filter(({ type }) => type === "delta");
  expect(deltas.map(({ data }) => data.text)).toEqual(["la ", "li "]);
  expect(reader.stream.typesHeard().lastIndexOf("delta")).toBeGreaterThan(
    reader.stream.events.findLastIndex(({ data }) => data.to === "active.running"),
  );
});

test("a checkpoint without new text sends nothing to a reader", async () => {
  const { feed, read } = await place();
  const reader = await read();
  await reader.until((transcript) => transcript.seqOf("a") === 1);
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la ");
  await feed.checkpoint("a", "m", "la ");
  feed.delta("a", "m", 3, "li");
  await reader.until(() => textNow(reader) === "la li");
  expect(reader.stream.typesHeard()).toEqual(["session_created", "delta", "delta"]);
});

const WORDS = ["la ", "li ", "航 ", "🎷", "do re mi ", "\n"];

/** One random history of a floor, with readers that are cut off at random. */
async function play(seed: number, isBusReliable: boolean): Promise<void> {
  const { bus, clock, feed, read } = await place();
  const chance = new Chance(seed);
  await feed.create("b");
  const readers = await Promise.all([read(), read(), read("b")]);
  if (!isBusReliable) bus.fate = () => chance.pick(["deliver", "deliver", "deliver", "lose", "repeat", "delay"]);
  const writing: Record<string, { id: string; text: string; run: number } | undefined> = {};
  const whole = new Map<string, string>();
  let messages = 0;
  for (let step = 0; step < 120; step++) {
    const session = chance.pick(["a", "b"]);
    const draft = writing[session];
    if (!draft && chance.percent(50)) {
      messages += 1;
      writing[session] = { id: `m${messages}`, text: "", run: messages };
      await feed.open(session, `m${messages}`, `run${messages}`);
    } else if (draft && chance.percent(70)) {
      const piece = chance.pick(WORDS);
      feed.delta(session, draft.id, draft.text.length, piece, { runId: `run${draft.run}` });
      draft.text += piece;
      if (chance.percent(30)) await feed.checkpoint(session, draft.id, draft.text);
    } else if (draft && chance.percent(40)) {
      await feed.finish(session, draft.id, draft.text);
      whole.set(draft.id, draft.text);
      writing[session] = undefined;
    } else {
      await feed.log(session, 1 + chance.below(3));
    }
    if (chance.percent(20)) {
      const reader = chance.pick(readers);
      reader.byQuery = chance.percent(50);
      await reader.open();
    }
    if (chance.percent(30)) await turn();
    if (chance.percent(30)) await bus.deliverLate((count) => chance.below(count));
    for (const reader of readers) reader.check();
  }
  bus.fate = () => "deliver";
  bus.loseLate();
  await turn();
  await clock.advance(BOUNDS.reconcileMs);
  for (const [session, draft] of Object.entries(writing)) {
    if (!draft) continue;
    await feed.checkpoint(session, draft.id, `${draft.text} and`);
    feed.delta(session, draft.id, draft.text.length + 4, " on", { runId: `run${draft.run}` });
    draft.text += " and on";
  }
  for (const [reader, session] of [
    [readers[0]!, "a"],
    [readers[1]!, "a"],
    [readers[2]!, "b"],
  ] as const) {
    const draft = writing[session];
    const { head } = (await feed.logOf(session))!;
    await reader.until((transcript) => transcript.seqOf(session) === head);
    if (draft) await reader.until(() => textNow(reader, draft.id) === draft.text);
    for (const [id, text] of reader.transcript.finished) expect(text).toBe(whole.get(id));
    expect([...reader.transcript.writing.keys()]).toEqual(draft ? [draft.id] : []);
    reader.close();
  }
}

test.each([1, 2])("readers that come and go have every event once and every text right (history %i)", (seed) =>
  play(seed, true),
);

test.each([1, 2, 3, 4])(
  "readers over a bus that loses, repeats, delays and reorders have every event and text right (history %i)",
  (seed) => play(seed, false),
);
