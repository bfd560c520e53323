import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Host } from "../../src/actors/host/host.ts";
import { MemoryBus } from "../../src/bus/memory-bus.ts";
import { optimiseEarly } from "../../src/cli/early-optimisation.ts";
import { readCatalog } from "../../src/config/catalog/catalog-file.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { toWire } from "../../src/protocol/frames.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import { encodeFloorMessage, floorTopic } from "../../src/protocol/internal/floor-message.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { createLog } from "../../src/system/log.ts";
import { SystemClock } from "../../src/system/system-clock.ts";
import { serveParent } from "../support/child.ts";
import { FRAME_BYTES } from "../support/readers.ts";

/**
 * A real gateway on the real bus. Publishes what a host publishes after a commit, without the commit.
 * Argument: the number of floors.
 */
// As `interlock serve` does.
optimiseEarly();
const clock = new SystemClock();
const log = createLog("warn");
const store = await openSqliteStore({ file: ":memory:", clock, log });
const bus = new MemoryBus();
const reading = readCatalog("agents: [{ name: music }]");
if (!reading.ok) throw new Error("the catalogue is faulty");
const { catalog } = reading;
const newId = () => randomUUID().replaceAll("-", "");
const metrics = { command() {}, batch() {}, conflict() {}, lapsed() {}, broken() {}, budgetSpent() {}, counted() {} };
const host = new Host({
  store,
  bus,
  clock,
  newId,
  catalog: () => catalog,
  interactionTimeoutMs: 300_000,
  arm() {},
  maxFloors: 10_000,
  log,
  metrics,
});
const gateway = createGateway({
  send: (envelope) => host.dispatch(envelope),
  store,
  bus,
  clock,
  stopwatch: clock,
  newId,
  random: Math.random,
  catalog: () => catalog,
  definitions: { all: () => [], file: () => catalog, refresh: async () => {}, announce: async () => {} },
  catalogStatus: () => ({ hash: catalog.hash, loadedAt: 0 }),
  isAvailable: () => true,
  missing: () => [],
  metrics: async () => ({ contentType: "text/plain", text: "" }),
  absentRoles: () => [],
  callNodes: async () => [],
  version: "bench",
  log,
  origin: { host: "127.0.0.1", hosts: [], origins: [] },
  proxies: [],
  addressConnections: 20_000,
  maxBodyBytes: 1_000_000,
  commandDeadlineMs: 5_000,
  onCut() {},
});
const { port } = await gateway.listen("127.0.0.1", 0);

/** Ids and topics are computed once, because a host has them in memory and does not compute them per delivery. */
const places = Array.from({ length: Number(process.argv[2]) }, (_, index) => {
  const floorId = `s:s${index}` as FloorId;
  return { sessionId: `s${index}` as SessionId, floorId, topic: floorTopic(store.epoch, floorId) };
});
for (const { sessionId, floorId } of places) {
  const command = { type: "session.create" as const, sessionId, session: { sessionId }, activate: false };
  await host.dispatch({
    floorId,
    commandId: newId(),
    bodyHash: "",
    timeoutAt: clock.now() + 5_000,
    command,
  });
}

/** The place of the last event in each floor's log; `session_created` is the first event. */
let place = 1;

serveParent(`http://127.0.0.1:${port}`, {
  async emit(events, floors) {
    const json = JSON.stringify({ title: "x".repeat(FRAME_BYTES - 150) });
    for (let event = 0; event < events; event++) {
      const last = place + 1;
      for (const { sessionId, floorId, topic } of places.slice(0, floors)) {
        const entry = { floorSeq: last, sessionId, seq: last, type: "session_updated" as const, at: clock.now(), json };
        const message = { kind: "commit" as const, floorId, prev: place, last, entries: [toWire(entry)], at: entry.at };
        void bus.publish(topic, encodeFloorMessage(message, bus.isLocal));
      }
      place = last;
      await nextTurn();
    }
  },
  async stop() {
    await gateway.close(0);
    await store.close();
  },
});
