import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FloorId, SessionId } from "../src/protocol/ids.ts";
import type { Session } from "../src/protocol/session.ts";
import { sessionRowOf } from "../src/store/rows.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite-store.ts";
import type { FloorChange } from "../src/store/store.ts";
import { SystemClock } from "../src/system/system-clock.ts";
import { newSession } from "../test/support/documents/made-log.ts";
import { Child } from "./support/child.ts";
import { measureCost, type Send } from "./support/command-rate.ts";
import { Connection } from "./support/connection.ts";
import { median } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/** CPU per command as the number of sessions grows, on the command's floor and in the store. */
const ROUND_MS = 2_000;
const ROUNDS = 5;
const CLIENTS = 16;
const PER_FLOOR = 1_000;

const rename =
  (ids: readonly string[]): Send =>
  (connection, client, turn) =>
    connection.request("PATCH", `/session/${ids[client]}`, `{"title":"turn ${turn}"}`);

/**
 * Create floors with sessions on each. The last session of a floor holds it; the others are paused.
 *
 * @returns the holders' ids
 */
async function makeFloors(url: string, floors: number, sessions: number): Promise<string[]> {
  const connection = await Connection.open(url);
  const holders: string[] = [];
  for (let floor = 0; floor < floors; floor++) {
    let id = "";
    for (let index = 0; index < sessions; index++) {
      const body = { agentId: "music", userId: `u${floor}of${sessions}`, activate: true };
      ({
        session: { id },
      } = await connection.post<{ session: { id: string } }>("/session/create", body));
    }
    holders.push(id);
  }
  connection.close();
  return holders;
}

/**
 * Create floors with sessions that their users have paused, each with a deadline, at once on all floors.
 *
 * @returns the ids of one of them on each floor
 */
async function makePausedFloors(url: string, floors: number, sessions: number): Promise<string[]> {
  const makeOne = async (floor: number) => {
    const connection = await Connection.open(url);
    let id = "";
    for (let index = 0; index < sessions; index++) {
      const body = { agentId: "patient", userId: `p${floor}of${sessions}`, activate: true };
      ({
        session: { id },
      } = await connection.post<{ session: { id: string } }>("/session/create", body));
      await connection.post(`/session/${id}/pause`, {});
    }
    connection.close();
    return id;
  };
  return await Promise.all(Array.from({ length: floors }, (_, floor) => makeOne(floor)));
}

/** Write archived sessions of other floors, in the rows that a host writes. */
async function fill(file: string, sessions: number): Promise<void> {
  const log = { debug() {}, info() {}, warn() {}, error() {}, fatal() {} };
  const store = await openSqliteStore({ file, clock: new SystemClock(), log: log as never });
  for (let from = 0; from < sessions; from += PER_FLOOR) {
    const floorId = `u:old${from}` as FloorId;
    const rows = Array.from({ length: Math.min(PER_FLOOR, sessions - from) }, (_, index) => {
      const session = oldSession(`old-${from + index}`, floorId, from + index);
      return sessionRowOf({ session, memory: "{}", head: 0, runsAt: undefined, failedAt: undefined }, undefined);
    });
    const change: FloorChange = {
      floorId,
      expected: 0,
      newIds: [],
      snapshot: "{}",
      format: 1,
      head: 0,
      flags: {},
      sessions: rows,
      messages: [],
      logs: [],
      events: [],
      runRequestsAdded: [],
      runRequestsRemoved: [],
      receipts: [],
      deleted: [],
    };
    await store.commit(change);
  }
  await store.close();
}

function oldSession(id: string, floorId: FloorId, at: number): Session {
  return {
    ...newSession(at),
    id: id as SessionId,
    title: `talk ${id}`,
    agentId: "music" as Session["agentId"],
    floorId,
    state: "archived",
    priority: 20,
  };
}

/**
 * Measure the sides in turn.
 *
 * @returns µs of CPU per command, for each side
 */
async function compare(sides: readonly { child: Child; ids: readonly string[] }[]): Promise<number[]> {
  const results: number[][] = sides.map(() => []);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [index, { child, ids }] of sides.entries()) {
      const { cpuUs } = await measureCost(child, CLIENTS, ROUND_MS, rename(ids));
      // The first round warms up.
      if (round > 0) results[index]!.push(cpuUs);
    }
  }
  return results.map(median);
}

export async function benchGrowth(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "interlock-bench-"));
  const files = { large: join(folder, "large.db"), small: join(folder, "small.db") };
  await fill(files.large, 100_000);
  await fill(files.small, 10);
  const large = await Child.start("interlock.ts", [files.large]);
  const small = await Child.start("interlock.ts", [files.small]);
  const crowded = await makeFloors(small.url, CLIENTS, 30);
  const lone = await makeFloors(small.url, CLIENTS, 1);
  const [ofCrowded, ofLone] = await compare([
    { child: small, ids: crowded },
    { child: small, ids: lone },
  ]);
  const amongMany = await makePausedFloors(small.url, CLIENTS, 2_000);
  const amongTwo = await makePausedFloors(small.url, CLIENTS, 2);
  const [ofMany, ofTwo] = await compare([
    { child: small, ids: amongMany },
    { child: small, ids: amongTwo },
  ]);
  const inLarge = await makeFloors(large.url, CLIENTS, 1);
  const [ofLarge, ofSmall] = await compare([
    { child: large, ids: inLarge },
    { child: small, ids: lone },
  ]);
  await large.stop();
  await small.stop();
  rmSync(folder, { recursive: true });
  return [
    {
      what: "CPU per command on a floor with 30 sessions, compared with one with 1",
      ours: ofCrowded!,
      reference: ofLone!,
      unit: "µs",
      atMost: 1.3,
    },
    {
      what: "CPU per command on a floor with 2,000 sessions that their user paused, each with a max_pause, compared with 2",
      ours: ofMany!,
      reference: ofTwo!,
      unit: "µs",
      atMost: 1.3,
    },
    {
      what: "CPU per command with 100,000 sessions in the store, compared with 10",
      ours: ofLarge!,
      reference: ofSmall!,
      unit: "µs",
      atMost: 1.3,
    },
  ];
}
