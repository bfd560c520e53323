import { expect } from "vitest";
import type { RunId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import type { Store } from "../../../src/store/store.ts";
import { FloorWriter, NOON } from "./floor-writer.ts";

/** What the later migrations do, backwards: the schema is that of the first one again. */
export const TO_FIRST_SCHEMA = `
  DROP TABLE usage; DROP TABLE budgets;
  DROP INDEX sessions_by_run;
  DROP INDEX sessions_by_failure;
  ALTER TABLE sessions DROP COLUMN runs_at;
  ALTER TABLE sessions DROP COLUMN failed_at;
  DROP TABLE webhook_notices;
  DROP TABLE webhook_lanes;
  DROP TABLE webhooks_disabled;
  ALTER TABLE floors RENAME COLUMN floor_hash TO partition;
  ALTER TABLE effects RENAME COLUMN floor_hash TO partition`;

/** A session's memory as the first schema had it. The text of a user looks like the key that is renamed. */
export const FIRST_MEMORY = String.raw`{"untitled":true,"claim":{"agentId":"music"},"note":"\"claim\":{","args":{"claim":{}}}`;
const MEMORY = FIRST_MEMORY.replace('"claim":{"agentId"', '"numbers":{"agentId"');
const ANN = "ann" as SessionId;
/** Memories of sessions with runs, and one that only speaks of them. */
const WITH_RUNS = [
  '{"turns":[],"run":{"id":"r"}}',
  '{"turns":[{"runId":"r"}]}',
  '{"turns":[],"summarizing":{"id":"r"}}',
];
const NO_RUNS = String.raw`{"turns":[],"note":"\"run\":{\"turns\":[{"}`;

/** Write a floor with an alarm, a session of that memory, and a run request. */
export async function writeAsFirst(store: Store): Promise<FloorWriter> {
  const floor = new FloorWriter(store);
  const runRequest = {
    ...{ id: "e1" as RunRequestId, kind: "run", floorId: floor.id, dueAt: NOON, sessionId: ANN, runId: "r1" as RunId },
    priority: 1,
  } as RunRequest;
  await floor.write({
    sessions: [floor.session(ANN)],
    memory: FIRST_MEMORY,
    runRequestsAdded: [runRequest],
    alarm: NOON,
  });
  for (const [index, memory] of WITH_RUNS.entries())
    await floor.write({
      sessions: [floor.session(`busy${index}`, { lastActivityAt: NOON + index })],
      memory,
      alarm: NOON,
    });
  const failure = { errorCode: "run_lost" as const, message: "Gone.", runId: "r1" as RunId };
  await floor.write({ sessions: [floor.session("failed", { failure })], memory: NO_RUNS, alarm: NOON });
  return floor;
}

/** The store has what `writeAsFirst` wrote, in the words of the present, and goes on with it. */
export async function expectUpgraded(store: Store, floor: FloorWriter): Promise<void> {
  const [row] = await store.loadSessions([ANN]);
  expect(row!.memory).toBe(MEMORY);
  const listed = async (kind: "unfinished" | "failed") =>
    (await store.listRuns({ kind, limit: 10 })).sessions.map(({ session, at }) => `${session.id} ${at - NOON}`);
  expect(await listed("unfinished")).toEqual(["busy0 0", "busy1 1", "busy2 2"]);
  expect(await listed("failed")).toEqual(["failed 0"]);
  const due = { until: NOON, limit: 10 };
  expect((await store.dueRunRequests(due)).map(({ id }) => id)).toEqual(["e1"]);
  expect((await store.dueAlarms(due)).map(({ id }) => id)).toEqual([floor.id]);
  floor.continueIn(store);
  await floor.write({ sessions: [floor.session(ANN)], memory: "{}", alarm: NOON });
  const other = new FloorWriter(store, "u:bob");
  await other.write({ alarm: NOON });
  expect((await store.dueAlarms(due)).map(({ id }) => id)).toEqual([floor.id, other.id]);
}
