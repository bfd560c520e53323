import type { AgentId } from "../../../src/protocol/ids.ts";
import type { StoredSessionQuery } from "../../../src/store/store.ts";

/** Lists of sessions that each need an index of their own. */
export const SESSION_QUERIES: StoredSessionQuery[] = [
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
