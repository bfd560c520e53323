import type { FloorState } from "../protocol/floor.ts";
import { withColumns } from "./columns.ts";
import { sessionOfRow, type ViewRow } from "./rows.ts";
import type {
  StoredRunPage,
  StoredRunQuery,
  StoredSessionQuery,
  StoredUsagePage,
  StoredUsageQuery,
  UsageCount,
} from "./store.ts";

/**
 * SQL of every store: the columns of sessions that a list compares, with their values, as far as the query names them.
 */
export function filteredColumns(query: StoredSessionQuery): [column: string, value: string][] {
  const columns = {
    state: query.state,
    agent_id: query.agentId,
    user_id: query.userId,
    owner_id: query.ownerId,
    workspace_id: query.workspaceId,
  };
  return Object.entries(columns).filter((entry): entry is [string, string] => entry[1] !== undefined);
}

/** Whether a list leaves out archived sessions. */
export const hidesArchived = ({ state, includeArchived }: StoredSessionQuery): boolean =>
  state === undefined && !includeArchived;

/** SQL of every store, up to its WHERE: the floors, `f`, with their holders and the numbers of their other sessions. */
export const FLOOR_ROWS = `
  SELECT f.id AS "floorId", f.head, f.flags, f.reserved, h.id AS "sessionId", h.agent_id AS "agentId",
    (SELECT o.owner_id FROM sessions o WHERE f.id LIKE 's:%' AND o.id = substr(f.id, 3)) AS "ownerId",
    (SELECT count(*) FROM sessions p WHERE p.floor_key = f.floor_key AND p.standing > 0) AS paused,
    (SELECT count(*) FROM sessions d WHERE d.floor_key = f.floor_key AND d.standing < 0) AS ducked,
    (SELECT count(*) FROM sessions q WHERE q.floor_key = f.floor_key AND q.queued_at IS NOT NULL) AS queued
  FROM floors f LEFT JOIN sessions h ON h.floor_key = f.floor_key AND h.standing = 0`;

const HELD = "SELECT floor_key FROM sessions WHERE standing = 0";
const WAITED_FOR = `SELECT floor_key FROM sessions WHERE standing <> 0
  UNION SELECT floor_key FROM sessions WHERE queued_at IS NOT NULL`;

/** SQL: the condition that a floor `f` is in a state. */
export const IS_IN_STATE: Record<FloorState, string> = {
  held: `f.floor_key IN (${HELD})`,
  waiting: `f.floor_key NOT IN (${HELD}) AND f.floor_key IN (${WAITED_FOR})`,
  idle: `f.floor_key NOT IN (${HELD}) AND f.floor_key NOT IN (${WAITED_FOR})`,
};

export interface RunListRow extends ViewRow {
  memory: string;
  at: number;
}

export const weightOfRunRow = ({ view, memory }: RunListRow): number =>
  Buffer.byteLength(view) + Buffer.byteLength(memory);

export const runListPage = ({ page, hasMore }: { page: RunListRow[]; hasMore: boolean }): StoredRunPage => ({
  sessions: page.map(({ memory, at, ...row }) => ({ session: sessionOfRow(row), memory, at: Number(at) })),
  hasMore,
});

/**
 * A list of runs as SQL of every store.
 * @param put a value's place in the statement
 * @param placeOf the place of a text in another one, 0 if it is not there
 */
export function runList(
  { kind, ownerId, userId, runId, from, to, after, limit }: StoredRunQuery,
  put: (value: string | number) => string,
  placeOf: (text: string, part: string) => string,
): string {
  const [column, direction, beyond] = kind === "failed" ? ["failed_at", "DESC", "<"] : ["runs_at", "ASC", ">"];
  const conditions = [`${column} IS NOT NULL`];
  // Not by the indexes of owners and users, which have all their sessions: those with runs are fewer, and in order.
  if (ownerId !== undefined) conditions.push(`coalesce(owner_id, '') = ${put(ownerId)}`);
  if (userId !== undefined) conditions.push(`coalesce(user_id, '') = ${put(userId)}`);
  if (from !== undefined) conditions.push(`${column} >= ${put(from)}`);
  if (to !== undefined) conditions.push(`${column} <= ${put(to)}`);
  if (after) conditions.push(`(${column}, id) ${beyond} (${put(after.at)}, ${put(after.sessionId)})`);
  // Ids need no escapes in JSON.
  if (runId !== undefined) conditions.push(`${placeOf("memory", put(`"${runId}"`))} > 0`);
  return `SELECT view, memory, ${column} AS at FROM sessions WHERE ${conditions.join(" AND ")}
    ORDER BY ${column} ${direction}, id ${direction} LIMIT ${put(limit + 1)}`;
}

/** A list of usage as a query for both databases: its places are `?`. */
export function usageList({ from, to, ownerId, agentId, after, limit }: StoredUsageQuery) {
  const conditions = ["day BETWEEN ? AND ?"];
  const values: (string | number)[] = [from, to];
  if (ownerId !== undefined) {
    conditions.push("owner_id = ?");
    values.push(ownerId);
  }
  if (agentId !== undefined) {
    conditions.push("agent_id = ?");
    values.push(agentId);
  }
  if (after) {
    conditions.push("(day < ? OR (day = ? AND (owner_id, agent_id) > (?, ?)))");
    values.push(after.day, after.day, after.ownerId, after.agentId);
  }
  const sql = withColumns(`
    SELECT {{usage_keys: $name AS "$field"}}, {{usage: CAST(sum($name) AS bigint) AS $name}} FROM usage
    WHERE ${conditions.join(" AND ")} GROUP BY {{usage_keys: $name}}
    ORDER BY day DESC, owner_id, agent_id LIMIT ?`);
  return { sql, values: [...values, limit + 1] };
}

/** The page that these rows are of. */
export const usagePage = (rows: readonly UsageCount[], limit: number): StoredUsagePage => ({
  usage: rows.slice(0, limit),
  hasMore: rows.length > limit,
});
