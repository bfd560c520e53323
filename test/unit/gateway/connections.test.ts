import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { Connections } from "../../../src/gateway/streams/connections.ts";
import type { ConnectionId, FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { MemoryStore } from "../../support/stores/memory-store.ts";

const SONG = { sessionId: "song" as SessionId, floorId: "u:ann" as FloorId };
const ID = "connection" as ConnectionId;

async function open() {
  const store = new MemoryStore();
  const options = { store, bus: new MemoryBus(), clock: new VirtualClock(), newConnectionId: () => ID };
  const connections = new Connections(options);
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
