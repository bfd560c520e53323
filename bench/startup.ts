import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Host } from "../src/actors/host/host.ts";
import { MemoryBus } from "../src/bus/memory-bus.ts";
import { readCatalog } from "../src/config/catalog/catalog-file.ts";
import type { FloorId, SessionId } from "../src/protocol/ids.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import { createLog } from "../src/system/log.ts";
import { SystemClock } from "../src/system/system-clock.ts";
import { Child } from "./support/child.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** From the start of the process to the first answer, with 10 and with 100,000 sessions in the store. */
const ROUNDS = 7;
const FLOORS = 500;

async function fill(file: string, sessions: number): Promise<void> {
  const clock = new SystemClock();
  const log = createLog("warn");
  const store = await openSqliteStore({ file, clock, log });
  const reading = readCatalog("agents: [{ name: music }]");
  if (!reading.ok) throw new Error("the catalogue is faulty");
  let serial = 0;
  const host = new Host({
    store,
    bus: new MemoryBus(),
    clock,
    newId: () => `fill${serial++}`,
    catalog: () => reading.catalog,
    interactionTimeoutMs: 300_000,
    arm() {},
    maxFloors: FLOORS,
    log,
    metrics: { command() {}, batch() {}, conflict() {}, lapsed() {}, broken() {}, budgetSpent() {}, counted() {} },
  });
  const floors = Math.min(FLOORS, sessions);
  for (let created = 0; created < sessions; created += floors) {
    await Promise.all(
      Array.from({ length: floors }, (_, floor) => {
        const sessionId = `s${created + floor}` as SessionId;
        const userId = `user${floor}`;
        return host.dispatch({
          floorId: `u:${userId}` as FloorId,
          commandId: `fill${created + floor}`,
          bodyHash: "",
          timeoutAt: clock.now() + 60_000,
          command: { type: "session.create", sessionId, session: { sessionId, userId }, activate: false },
        });
      }),
    );
  }
  await store.close();
}

async function startMs(file: string): Promise<number> {
  const begun = performance.now();
  const child = await Child.start("interlock.ts", [file]);
  const ms = performance.now() - begun;
  await child.stop();
  return ms;
}

export async function benchStartup(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
  const few = join(folder, "few.db");
  const many = join(folder, "many.db");
  await fill(few, 10);
  await fill(many, 100_000);
  const ms: { few: number[]; many: number[] } = { few: [], many: [] };
  for (let round = 0; round <= ROUNDS; round++) {
    const measured = { few: await startMs(few), many: await startMs(many) };
    if (round === 0) continue;
    ms.few.push(measured.few);
    ms.many.push(measured.many);
  }
  rmSync(folder, { recursive: true });
  return [
    {
      what: "start with 100,000 sessions, compared with 10",
      ours: median(ms.many),
      reference: median(ms.few),
      unit: "ms",
      atMost: 1.2,
    },
  ];
}
