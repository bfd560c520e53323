import { expect, test } from "vitest";
import { BOUNDS } from "../../../src/config/bounds.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { FloorFeed } from "../../support/floors/floor-feed.ts";
import { has, place } from "../../support/nodes/connection-stage.ts";
import { Chance } from "../../support/runner/chance.ts";
import { turn } from "../../support/runner/virtual-clock.ts";

test("events of several sessions of one floor arrive in the floor's order, also across disconnections", async () => {
  const { bus, clock, store, feed, connect, load } = await place();
  const chance = new Chance(7);
  const elsewhere = new FloorFeed(store, bus, "u:zoe");
  await elsewhere.create("z");
  const ids = ["a", "b", "c"];
  for (const id of ids) await feed.create(id);
  const { reader, connectionId } = await connect("", { a: 1, b: 1, c: 1, z: 1 });
  for (const id of ["a", "z", "b", "c"]) await load(connectionId, id);
  await feed.log("a");
  await reader.until(has({ a: 2 }));
  bus.fate = () => chance.pick(["deliver", "deliver", "deliver", "lose", "repeat", "delay"]);
  let active: string | undefined;
  const state = (id: string) => (id === active ? "active.idle" : "paused");
  for (let step = 0; step < 250; step++) {
    const next = chance.pick(ids);
    if (next !== active) {
      const steps: [string, string, string][] = active ? [[active, "active.idle", "paused"]] : [];
      await feed.transitAll(...steps, [next, state(next), "active.idle"]);
      active = next;
    }
    if (chance.percent(30)) await elsewhere.log("z");
    if (chance.percent(15)) {
      reader.byQuery = chance.percent(50);
      await reader.open();
    }
    if (chance.percent(40)) await turn();
    if (chance.percent(30)) await bus.deliverLate((count) => chance.below(count));
    reader.check();
  }
  bus.fate = () => "deliver";
  await clock.advance(BOUNDS.reconcileMs);
  for (const id of [...ids, "z"]) {
    const { head } = (await feed.logOf(id))!;
    await reader.until(has({ [id]: head }));
  }
  expect(reader.transcript.stateOf(active!)).toBe("active.idle");
});

test("a client that was away while the floor changed hands twice gets its sessions' events in the floor's order", async () => {
  const { feed, bound } = await place();
  const { reader } = await bound("a", "b");
  await feed.transit("a", "created", "active.idle");
  await reader.until(has({ a: 2 }));
  reader.close();
  await feed.transitAll(["a", "active.idle", "paused"], ["b", "created", "active.idle"]);
  await feed.transitAll(["b", "active.idle", "paused"], ["a", "paused", "active.idle"]);
  await reader.open();
  await reader.until(has({ b: 3, a: 4 }));
  const transitions = reader.stream.events.filter(({ type }) => type === "session_transition");
  expect(transitions.map(({ sessionId, data }) => `${sessionId} ${data.to}`)).toEqual([
    "a paused",
    "b active.idle",
    "b paused",
    "a active.idle",
  ]);
});

test("a session that is bound while another's history is read loses no event", async () => {
  let held: { asked: PromiseWithResolvers<void>; goOn: PromiseWithResolvers<void> } | undefined;
  const { clock, feed, store, connect, load, rowOf } = await place((own) => ({
    readSessionLog: async (id, after, limit) => {
      const slice = await own.readSessionLog(id, after, limit);
      if (limit === BOUNDS.replayPage && held) {
        const { asked, goOn } = held;
        held = undefined;
        asked.resolve();
        await goOn.promise;
      }
      return slice;
    },
  }));
  for (const id of ["a", "b"]) await feed.create(id);
  await feed.log("b", 2);
  held = { asked: Promise.withResolvers(), goOn: Promise.withResolvers() };
  const { asked, goOn } = held;
  const { reader, connectionId } = await connect("", { a: 1 });
  await load(connectionId, "a");
  await asked.promise;
  // Bound from its first event, like a session that was created through this connection.
  const row = await rowOf(connectionId);
  await store.saveConnection({
    ...row,
    slots: [...row.slots, { ...row.slots[0]!, sessionId: "b" as SessionId, from: 0 }],
  });
  await clock.advance(1_000);
  goOn.resolve();
  await feed.log("b");
  await feed.log("a");
  await reader.until(has({ b: 4, a: 2 }));
});
