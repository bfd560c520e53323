import { expect, onTestFinished, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import type { Store } from "../../../src/store/store.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { has, heldHeads, place as openPlace } from "../../support/nodes/connection-stage.ts";
import { Chance } from "../../support/runner/chance.ts";
import { turn } from "../../support/runner/virtual-clock.ts";
import { DAY, NOON } from "../../support/stores/floor-writer.ts";
import { openTemporaryStore } from "../../support/stores/temporary-store.ts";

/** A floor with a session `a`, and a gateway that serves it. */
async function place(replace?: (store: Store) => Partial<Store>, store?: Store) {
  const stage = await openPlace(replace, store);
  const { url, feed } = stage;
  await feed.create("a");
  /** A connected reader of a session. */
  const read = (session = "a") => SessionReader.of(stage, session);
  /** A stream of the session `a` from a position. */
  const openAt = (position: string) => EventStream.open(`${url}/session/a/events`, { "Last-Event-ID": position });
  /** Resolves when the reader has the whole log of the session `a`. */
  const caughtUp = (reader: SessionReader) => reader.until(has({ a: feed.writer.head }));
  return { ...stage, read, openAt, caughtUp };
}

/** The same, with a reader that has the session's first event. */
async function reading() {
  const where = await place();
  const reader = await where.read();
  await reader.until(has({ a: 1 }));
  return { ...where, reader };
}

/** The same, with a reader that has received the start of a message. */
async function hearing() {
  const where = await reading();
  const { reader } = where;
  await where.feed.open("a", "m");
  where.feed.delta("a", "m", 0, "la ");
  await reader.until(() => textNow(reader) === "la ");
  return where;
}

const textNow = (reader: SessionReader, id = "m") => reader.transcript.writing.get(id);

test("a session's stream replays a long history in pages, and continues live without a gap", async () => {
  const { feed, read, caughtUp } = await place();
  const total = 3 * BOUNDS.replayPage;
  for (let n = 0; n < total; n += 64) await feed.log("a", 64);
  const readers = await Promise.all([read(), read(), read()]);
  for (let n = 0; n < 20; n++) await feed.log("a", 1 + (n % 3));
  for (const reader of readers) await caughtUp(reader);
});

test("a position of a deleted session is not valid in a later session with the same id", async () => {
  const { bus, feed, read, store, url, openAt, caughtUp } = await place(undefined, await openTemporaryStore());
  const live = await read();
  await feed.log("a", 2);
  await caughtUp(live);
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
    const stream = await openAt(position);
    expect(await stream.next("reset")).toMatchObject({ data: { sessionId: "a", from: 7 } });
    stream.cut();
  }
});

test("a session's stream ends when the session is deleted between the lookup and the start of following", async () => {
  const { replace, hold } = heldHeads();
  const { feed, url } = await place(replace);
  const { asked, goOn } = hold();
  const opening = EventStream.open(`${url}/session/a/events`);
  await asked;
  await feed.delete("a");
  goOn();
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
  const { bus, feed, read, reader, caughtUp } = await hearing();
  bus.fate = () => "delay";
  feed.delta("a", "m", 3, "li");
  bus.fate = () => "deliver";
  await feed.finish("a", "m", "la li");
  await bus.deliverLate();
  feed.delta("a", "ghost", 0, "boo");
  await feed.log("a");
  await caughtUp(reader);
  const other = await read();
  await caughtUp(other);
  await feed.log("a");
  await caughtUp(other);
  expect([...reader.transcript.writing.keys(), ...other.transcript.writing.keys()]).toEqual([]);
});

test("a finished reply is not sent again to a reader that received its end before this node did", async () => {
  const { bus, clock, feed, read, reader: first, caughtUp } = await hearing();
  bus.fate = () => "lose";
  await feed.finish("a", "m", "la li");
  // The reader gets the end of the message from the store.
  const reader = await read();
  await reader.until(({ finished }) => finished.has("m"));
  await clock.advance(BOUNDS.reconcileMs);
  bus.fate = () => "deliver";
  await feed.log("a");
  await caughtUp(reader);
  await caughtUp(first);
});

test("no text is sent of a session that lost the floor", async () => {
  const { feed, reader, caughtUp } = await reading();
  await feed.transit("a", "created", "active.running");
  await feed.open("a", "m");
  feed.delta("a", "m", 0, "la ");
  await feed.transit("a", "active.running", "paused");
  feed.delta("a", "m", 3, "li ");
  await feed.transit("a", "paused", "active.running");
  feed.delta("a", "m", 3, "li ");
  await feed.log("a");
  await caughtUp(reader);
  const deltas = reader.stream.events.filter(({ type }) => type === "delta");
  expect(deltas.map(({ data }) => data.text)).toEqual(["la ", "li "]);
  expect(reader.stream.typesHeard().lastIndexOf("delta")).toBeGreaterThan(
    reader.stream.events.findLastIndex(({ data }) => data.to === "active.running"),
  );
});

test("a checkpoint without new text sends nothing to a reader", async () => {
  const { feed, reader } = await hearing();
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
    await reader.until(has({ [session]: head }));
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
