import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { Connections } from "../../../src/gateway/streams/connections.ts";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

const SONG = { sessionId: "song" as SessionId, floorId: "u:ann" as FloorId };
const ID = "connection" as ConnectionId;

async function open(isOpen = false) {
  const store = new MemoryStore();
  const options = { store, bus: new MemoryBus(), clock: new VirtualClock(), newConnectionId: () => ID };
  const openOf = () => (isOpen ? ID : undefined);
  const connections = new Connections({ ...options, openOf });
  const row = await connections.open({ ownerId: undefined });
  const slots = async () => (await connections.find(ID, undefined)).slots;
  return { connections, row, slots };
}

test("a created session is bound once, even if its request is repeated much later", async () => {
  const { connections, row, slots } = await open();
  await connections.bindMade(row, SONG);
  await connections.bindMade(row, SONG);
  await connections.end(ID, undefined, 0);
  // This request read the connection before any session was bound.
  await connections.bindMade(row, SONG);
  expect(await slots()).toEqual([{ ...SONG, from: 0, ended: true }]);
});

test("a session whose binding has ended is bound again when a client requests it", async () => {
  const { connections, row, slots } = await open();
  await connections.bindMade(row, SONG);
  await connections.bind(ID, undefined, { ...SONG, from: 3 });
  await connections.end(ID, undefined, 0);
  await connections.bind(ID, undefined, { ...SONG, from: 5 });
  expect(await slots()).toEqual([
    { ...SONG, from: 0, ended: true },
    { ...SONG, from: 5 },
  ]);
});

test("of two requests for the last place of a connection, one is refused only if it named the connection", async () => {
  const { connections, slots } = await open(true);
  for (let made = 0; made < 7; made += 1)
    await connections.bind(ID, undefined, { ...SONG, sessionId: `s${made}` as SessionId, from: 0 });
  const unnamed = () => connections.forNewSession(undefined, undefined);
  const [one, other, loaded, named] = [
    await unnamed(),
    await unnamed(),
    await unnamed(),
    await connections.forNewSession(ID, undefined),
  ];
  expect(await connections.reserve(one!, "one" as SessionId, Infinity)).toBe(true);
  expect(await connections.reserve(other!, "other" as SessionId, Infinity)).toBe(false);
  await connections.bindLoaded(loaded!, { ...SONG, from: 3 });
  await expect(connections.reserve(named!, "named" as SessionId, Infinity)).rejects.toThrow("too many sessions");
  await expect(connections.bindLoaded(named!, { ...SONG, from: 3 })).rejects.toThrow("too many sessions");
  expect(await slots()).toHaveLength(7);
  expect(await unnamed()).toBeUndefined();
});
