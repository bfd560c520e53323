import { expect, onTestFinished, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { FloorRow, StoredFloorQuery } from "../../../src/store/store.ts";
import { EventStream } from "../../support/clients/event-stream.ts";
import { place as openPlace } from "../../support/nodes/connection-stage.ts";
import { turn } from "../../support/runner/virtual-clock.ts";

const PATH = "/floor/u%3Aann/events";

async function place() {
  const { store, feed, url } = await openPlace();
  const open = (headers?: Record<string, string>) => EventStream.during(`${url}${PATH}`, headers);
  return { store, feed, open, url: `${url}${PATH}` };
}

test("a reader of a floor resumes at its position, past events that the stream does not show", async () => {
  const { feed, open, store } = await place();
  await feed.create("a");
  const stream = await open();
  await stream.next("session_created");
  stream.cut();
  await feed.log("a", 3);
  await feed.transit("a", "created", "active.idle");
  const again = await open({ "Last-Event-ID": stream.position! });
  await again.next("session_transition");
  expect(again.events.map(({ type, id }) => `${type} ${id}`)).toEqual([`session_transition ${store.epoch}.5`]);
});

test("a floor's stream tells the position after events that it does not show, without data", async () => {
  const { feed, open, store } = await place();
  await feed.create("a");
  const stream = await open();
  await stream.next("session_created");
  await feed.log("a", 3);
  await stream.until(({ position }) => position === `${store.epoch}.4`);
  await feed.log("a");
  await stream.until(({ position }) => position === `${store.epoch}.5`);
  expect(stream.typesHeard()).toEqual(["session_created"]);
});

test("a reader of a floor gets one position for a whole history of events that are not shown", async () => {
  const { feed, url, store } = await place();
  await feed.create("a");
  await feed.log("a", 300);
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const { body } = await fetch(url, { headers: { "Last-Event-ID": `${store.epoch}.1` }, signal: leaving.signal });
  let text = "";
  for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes(`id: ${store.epoch}.301\n`)) break;
  }
  expect(text.match(/^id: .*$/gm)).toEqual([`id: ${store.epoch}.301`]);
});

/** The number of rows that are listed, and whether the store can be read. */
async function floors() {
  const state = { count: 1, isAway: false };
  const flags = { ["x".repeat(8_000)]: true };
  const holder = { sessionId: "a" as SessionId, agentId: "music" as AgentId };
  const rest = { holder, ducked: 0, paused: 0, queued: 0, flags, head: 1 };
  const row = (n: number): FloorRow => ({ floorId: `u:${n}` as FloorId, ...rest });
  const listFloors = async ({ state: wanted, after }: StoredFloorQuery) => {
    if (state.isAway) throw new AppError("unavailable");
    const isAll = wanted !== "held" || after !== undefined;
    return { floors: isAll ? [] : Array.from({ length: state.count }, (_, n) => row(n)), hasMore: false };
  };
  const { url, clock } = await openPlace(() => ({ listFloors }));
  return { state, clock, open: () => EventStream.during(`${url}/floors/events`) };
}

test("the stream of all floors is sent away while the store cannot be read: an empty list would call each floor idle", async () => {
  const { state, clock, open } = await floors();
  state.isAway = true;
  const early = await open();
  await early.over();
  expect(early.events.map(({ type, data }) => `${type} ${data.reason}`)).toEqual(["bye overloaded"]);
  state.isAway = false;
  const watching = await open();
  await watching.next("floor");
  // The last read of a watched list failed, so the list is not current.
  state.isAway = true;
  await clock.advance(1_000);
  const late = await open();
  await late.over();
  expect(late.typesHeard()).toEqual(["bye"]);
  state.isAway = false;
  await (await open()).next("floor");
  expect(watching.typesHeard()).toEqual(["reset", "floor"]);
});

test("a reader that cannot take all floors at once gets each of them as it reads", async () => {
  const { state, open } = await floors();
  state.count = 2_000;
  const stream = await open();
  stream.stall();
  for (let turns = 0; turns < 20; turns++) await turn();
  stream.read();
  await stream.until(({ events }) => events.length > state.count);
  expect(new Set(stream.events.map(({ data }) => data["floorId"])).size).toBe(state.count + 1);
  expect(stream.typesHeard().filter((type) => type === "reset")).toHaveLength(1);
});
