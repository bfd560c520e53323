import type { AgentId, FloorId, MessageId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { commonReads } from "../../../src/store/reads.ts";
import type { StoredSessionQuery } from "../../../src/store/store.ts";

/** Lists of sessions that each need an index of their own. */
const SESSION_QUERIES: StoredSessionQuery[] = [
  {},
  { includeArchived: true },
  { userId: "u7" },
  { ownerId: "o7" },
  { ownerId: "o7", userId: "u7", state: "paused" as const },
  { state: "archived" as const },
  { agentId: "a1" as AgentId },
  { workspaceId: "w7" },
  { q: "jazz" },
  { q: "…" },
  { q: "导航 t7", ownerId: "o7", state: "created" as const },
].map((query) => ({ page: 0, pageSize: 10, includeArchived: false, ...query }));

/** Call every read that is the same in all stores. */
export async function askReads(reads: ReturnType<typeof commonReads>, floor: FloorId, session: SessionId) {
  await reads.loadFloor(floor);
  await reads.loadSession(session);
  await reads.loadSessions([session]);
  await reads.findMessage(session, "m" as MessageId);
  await reads.dueRunRequests({ until: 100, limit: 10 });
  await reads.dueRunRequests({
    until: 100,
    after: { dueAt: 1, id: "e1" as RunRequestId },
    floorHashes: [1, 2],
    limit: 10,
  });
  await reads.dueAlarms({ until: 100, limit: 10 });
  await reads.dueAlarms({ until: 100, after: { dueAt: 1, id: floor }, floorHashes: [1, 2], limit: 10 });
  await reads.loadDue(floor, [session], 10);
  await reads.loadJumps();
  await reads.definitionsVersion();
  await reads.loadConnection("c" as never);
  await reads.getBlob(session, "a".repeat(64));
  await reads.heads([floor, "u:1" as FloorId]);
  await reads.findWindows(["runs 1"]);
  for (const state of [undefined, "held", "waiting", "idle"] as const) {
    await reads.listFloors({ state, limit: 10 });
    await reads.listFloors({ state, ownerId: "o1", limit: 10 });
    await reads.listFloors({ state, ids: [floor], limit: 10 });
    await reads.listFloors({ state, ownerId: "o1", ids: [floor], limit: 10 });
  }
  for (const query of SESSION_QUERIES) await reads.listSessions(query);
  const days = { from: 0, to: 99, limit: 10 };
  for (const of of [{}, { ownerId: "o1" }]) {
    const use = { day: 3, ownerId: "o1", agentId: "a1" as AgentId };
    for (const more of [{}, { agentId: use.agentId }, { after: use }])
      await reads.listUsage({ ...days, ...of, ...more });
  }
}
