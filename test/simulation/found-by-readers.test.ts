/**
 * Faults that histories found in what readers get, each reduced to the necessary steps. The numbers are the seeds of
 * the histories that found them, in the simulation of that time.
 */

import { describe, expect, onTestFinished, test } from "vitest";
import { ConnectionFloor } from "../../src/gateway/streams/connection-floor.ts";
import { Follower } from "../../src/gateway/streams/follower.ts";
import { SseWriter } from "../../src/gateway/streams/sse-writer.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import { logPosition, parseConnectionPosition } from "../../src/protocol/position.ts";
import type { Store } from "../../src/store/store.ts";
import { EventStream } from "../support/clients/event-stream.ts";
import { FloorFeed } from "../support/floors/floor-feed.ts";
import { UnreliableBus } from "../support/networks/unreliable-bus.ts";
import { openGateway } from "../support/nodes/gateway-stage.ts";
import { turn, VirtualClock } from "../support/runner/virtual-clock.ts";
import { NOON } from "../support/stores/floor-writer.ts";
import { MemoryStore } from "../support/stores/memory-store.ts";
import { KeptLog } from "../support/stores/sqlite-place.ts";
import { withMethods } from "../support/stores/temporary-store.ts";
import { Wire } from "./clients/wire.ts";
import { GatewaySide } from "./nodes/gateway-side.ts";
import { Life } from "./nodes/life.ts";
import { SimClock } from "./sim-clock.ts";

test("a follower that opens just after a run ended ignores late deltas of the run (history 370)", async () => {
  const { feed, follow } = openSide();
  await feed.create("a");
  await feed.open("a", "m");
  await feed.finish("a", "m", "");
  await feed.transit("a", "active.idle", "paused");
  const follower = await follow();
  feed.delta("a", "m", 0, "of the message that is finished");
  feed.delta("a", "n", 0, "of the run that is complete");
  feed.delta("a", "o", 0, "of a session that is paused", { runId: "other" });
  await turn();
  expect(follower.drafts.of("a" as SessionId)).toEqual([]);
  await feed.transit("a", "paused", "active.running");
  feed.delta("a", "o", 0, "of one that goes on", { runId: "other" });
  await turn();
  expect(follower.drafts.of("a" as SessionId)).toMatchObject([{ text: "of one that goes on" }]);
});

/** A gateway over a store and a bus, and a floor with writes. */
function openSide(replace: (store: MemoryStore) => Partial<Store> = () => ({})) {
  const store = new MemoryStore();
  const bus = new UnreliableBus();
  const clock = new SimClock();
  const life = new Life("n1", clock, 0);
  const served = withMethods(store, replace(store));
  let ids = 0;
  const newId = () => `id${ids++}`;
  const gateway = new GatewaySide({
    bus,
    store: served,
    clock: life.clock,
    log: new KeptLog(),
    newId,
    random: () => 0,
    resumePosition: (position) => position,
    respond: (response) => response,
  });
  onTestFinished(() => gateway.stop());
  const pass = () => clock.runUntil(clock.now() + 50, () => false);
  /** A reader, its events so far and its positions. */
  const read = async (open: (wire: Wire) => Promise<unknown>) => {
    let heard = "";
    const receive = (text: string) => {
      heard += text;
    };
    const wire = new Wire(life, clock, { receive, overrun() {}, ended() {} });
    void open(wire);
    await pass();
    const placesOf = (session: string) => {
      const matches = heard.matchAll(new RegExp(`"sessionId":"${session}","seq":(\\d+)`, "g"));
      return [...matches].map(([, seq]) => Number(seq));
    };
    const position = () => [...heard.matchAll(/^id: (.*)$/gm)].at(-1)?.[1];
    return { heard: () => heard, placesOf, position, leave: () => wire.leave() };
  };
  const follow = async (of: Store = store) => {
    const follower = await Follower.open("u:ann" as FloorId, { bus, store: of, now: () => NOON, log: new KeptLog() });
    onTestFinished(() => follower.close());
    return follower;
  };
  /** A reader of a connection to sessions of the floor, each from this place; `add` binds another one. */
  const bind = async (follower: Follower, sessions: readonly string[], seq: number) => {
    let slot = 0;
    const bindingOf = (session: string) => ({
      slot: slot++,
      sessionId: session as SessionId,
      seq,
      isEndRecorded: false,
    });
    let floor: ConnectionFloor;
    const reader = await read(async (wire) => {
      const writer = new SseWriter(wire.asResponse, {}, clock.now());
      const connection = { writer, position: "p", recordEnd: async () => {}, release() {}, drop() {} };
      floor = new ConnectionFloor(connection, { store: served, clock: life.clock }, follower, sessions.map(bindingOf));
      writer.source = { advance: () => floor.track.advance() };
      floor.track.advance();
    });
    return { reader, add: (session: string) => floor.add([bindingOf(session)]) };
  };
  return { store, bus, gateway, feed: new FloorFeed(store, bus), pass, read, follow, bind, served };
}

test("a reader that reconnects to a gateway behind its position does not see a finished message as unfinished", async () => {
  const { gateway, feed, bus, pass, read } = openSide();
  const target = { floorId: "u:ann" as FloorId, sessionId: "a" as SessionId };
  await feed.create("a");
  await feed.open("a", "m");
  // Another reader follows the floor, so the unfinished text is known.
  const other = await read((wire) => gateway.open(target, undefined, wire));
  feed.delta("a", "m", 0, "la la");
  await pass();
  expect(other.heard()).toContain('"delta"');
  bus.fate = () => "lose";
  await feed.finish("a", "m", "la la la");
  bus.fate = () => "deliver";
  const position = logPosition("sim1", (await feed.logOf("a"))!.head);
  const reader = await read((wire) => gateway.open(target, position, wire));
  expect(reader.heard()).not.toContain('"streaming":true');
  // The follower noticed that messages had been lost.
  expect(other.heard()).toContain('"complete"');
});

describe("a connection", () => {
  test("a resumed connection that was bound to more sessions meanwhile continues from its own positions", async () => {
    let view: Promise<void> = Promise.resolve();
    const { gateway, feed, pass, read } = openSide((store) => ({
      viewSession: async (id, messages) => {
        await view;
        return store.viewSession(id, messages);
      },
    }));
    for (const session of ["a", "b"]) await feed.create(session);
    const before = await read((wire) => gateway.openConnection(undefined, wire));
    const id = parseConnectionPosition(before.position()!)!.connectionId;
    await gateway.bind(id, "a" as SessionId, feed.id);
    await pass();
    expect(before.placesOf("a")).toEqual([1]);
    before.leave();
    // The agents' list is sent before everything else, and that takes time.
    const slow = Promise.withResolvers<void>();
    view = slow.promise;
    const after = await read((wire) => gateway.openConnection(before.position(), wire));
    await gateway.bind(id, "b" as SessionId, feed.id);
    await pass();
    slow.resolve();
    await pass();
    await feed.log("a");
    await pass();
    expect(after.placesOf("a")).toEqual([2]);
    expect(after.placesOf("b")).toEqual([1]);
    expect(parseConnectionPosition(after.position()!)?.slots.map(({ seq }) => seq)).toEqual([2, 1]);
  });

  test("a connection that is bound to a session while its floor's history is read gets all events, from the first", async () => {
    let log: Promise<void> = Promise.resolve();
    const { feed, pass, bind, follow, served } = openSide((store) => ({
      readFloorLog: async (id, after, limit) => {
        const slice = await store.readFloorLog(id, after, limit);
        await log;
        return slice;
      },
    }));
    for (const session of ["c", "a", "b"]) await feed.create(session);
    await feed.log("c");
    const follower = await follow(served);
    const slow = Promise.withResolvers<void>();
    log = slow.promise;
    const { reader, add } = await bind(follower, ["a", "b"], 0);
    add("c");
    slow.resolve();
    await pass();
    expect(["a", "b", "c"].map(reader.placesOf)).toEqual([[1], [1], [1, 2]]);
  });

  test("a connection to several sessions that change during its reads misses nothing (history 502468)", async () => {
    const { feed, pass, bind, follow } = openSide((own) => ({
      readSessionLog: async (id, after, limit) => {
        // One of them was read: then both change.
        if (id === "b" && own.headOf(feed.id) === 2) await happen();
        return own.readSessionLog(id, after, limit);
      },
    }));
    const happen = () => {
      const event = (session: string) => feed.writer.event("session_updated", { title: session }, { session });
      return feed.commit([event("a"), event("b"), event("a")]);
    };
    for (const session of ["a", "b"]) await feed.create(session);
    const follower = await follow();
    const { reader } = await bind(follower, ["a", "b"], 1);
    await pass();
    expect(["a", "b"].map(reader.placesOf)).toEqual([[2, 3], [2]]);
  });
});

test("a reader that connects while its session is deleted gets the session's last event", async () => {
  const store = new MemoryStore();
  const bus = new UnreliableBus();
  const feed = new FloorFeed(store, bus);
  await feed.create("a");
  let isThere = true;
  const viewSession = async (id: SessionId, messages: number) => {
    if (isThere) await feed.delete("a");
    isThere = false;
    return store.viewSession(id, messages);
  };
  const { url } = await openGateway({ store: withMethods(store, { viewSession }), bus, clock: new VirtualClock() });
  const stream = EventStream.begin(`${url}/session/a/events?lastEventId=sim1.1`);
  onTestFinished(() => stream.cut());
  await stream.until(({ ending }) => ending !== undefined);
  expect(stream.typesHeard()).toEqual(["session_transition", "bye"]);
});
