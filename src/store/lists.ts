import type { FloorState } from "../protocol/floor.ts";
import { withColumns } from "./columns.ts";
import { sessionOfRow, type ViewRow } from "./rows.ts";
import { termsOf, type WordHits } from "./search-words.ts";
import type { StoredFloorQuery, StoredRunPage, StoredRunQuery, StoredSessionQuery, StoredUsageQuery } from "./store.ts";

/** A list as a statement of every store. Each combination of filters is a statement of its own. */
interface List {
  name?: string;
  text: string;
  values: (string | number | readonly string[])[];
}

/** The columns of sessions that a list compares, with their values, as far as the query names them. */
function filteredColumns(query: StoredSessionQuery): [column: string, value: string][] {
  const columns = {
    state: query.state,
    agent_id: query.agentId,
    user_id: query.userId,
    owner_id: query.ownerId,
    workspace_id: query.workspaceId,
  };
  return Object.entries(columns).filter((entry): entry is [string, string] => entry[1] !== undefined);
}

/** The sessions that a search hits: by their exact id, or by words. */
function hitsOf(q: string, id: string, wordHits: WordHits, put: (value: string) => string): string {
  const byId = `SELECT session_key FROM sessions WHERE id = ${put(id)}`;
  const terms = termsOf(q);
  return terms.length === 0 ? byId : `${byId} UNION ${wordHits(terms, put)}`;
}

/** A list of sessions. The number of all that it finds comes with each row, and alone if the page is empty. */
export function sessionList(query: StoredSessionQuery, wordHits: WordHits): List {
  const { q, page, pageSize } = query;
  const values: (string | number)[] = [];
  const put = (value: string | number) => `$${values.push(value)}`;
  const hits = q === undefined ? undefined : hitsOf(q, query.id ?? q.trim(), wordHits, put);
  const filtered = filteredColumns(query);
  const hidesArchived = query.state === undefined && !query.includeArchived;
  const conditions = [
    "state <> 'staged'",
    ...filtered.map(([column, value]) => `${column} = ${put(value)}`),
    ...(hidesArchived ? ["state <> 'archived'"] : []),
    ...(hits ? ["sessions.session_key = hits.session_key"] : []),
  ];
  // SQLite reads the tables of a CROSS JOIN in their order: no session that is not hit.
  const found = `FROM ${hits ? "hits CROSS JOIN " : ""}sessions WHERE ${conditions.join(" AND ")}`;
  const text = `
    ${hits ? `WITH hits (session_key) AS MATERIALIZED (${hits})` : ""}
    SELECT counted.total, listed.view
    FROM (SELECT count(*) AS total ${found}) counted
    LEFT JOIN (
      SELECT view, last_activity_at, sessions.session_key ${found}
      ORDER BY last_activity_at DESC, sessions.session_key DESC LIMIT ${put(pageSize)} OFFSET ${put(page * pageSize)}
    ) listed ON true
    ORDER BY listed.last_activity_at DESC, listed.session_key DESC`;
  // The number of hits depends on the word, so a search is planned for its values.
  if (hits) return { text, values };
  const name = ["list", ...filtered.map(([column]) => column), hidesArchived ? "shown" : "all"].join("_");
  return { name, text, values };
}

/** Up to its WHERE: the floors, `f`, with their holders and the numbers of their other sessions. */
const FLOOR_ROWS = `
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
const IS_IN_STATE: Record<FloorState, string> = {
  held: `f.floor_key IN (${HELD})`,
  waiting: `f.floor_key NOT IN (${HELD}) AND f.floor_key IN (${WAITED_FOR})`,
  idle: `f.floor_key NOT IN (${HELD}) AND f.floor_key NOT IN (${WAITED_FOR})`,
};

export function floorList({ after, ids, state, ownerId, limit }: StoredFloorQuery): List {
  const values: List["values"] = [after ?? "", limit + 1];
  const conditions = ["f.id > $1"];
  const name = ["floors", state ?? "all"];
  if (ownerId !== undefined) {
    conditions.push(`f.floor_key IN (SELECT floor_key FROM sessions WHERE owner_id = $${values.push(ownerId)})`);
    name.push("owner");
  }
  if (ids !== undefined) {
    conditions.push(`f.id = ANY ($${values.push(ids)})`);
    name.push("ids");
  }
  if (state !== undefined) conditions.push(IS_IN_STATE[state]);
  const text = `${FLOOR_ROWS} WHERE ${conditions.join(" AND ")} ORDER BY f.id LIMIT $2`;
  return { name: name.join("_"), text, values };
}

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

export function runList({ kind, ownerId, userId, runId, from, to, after, limit }: StoredRunQuery): List {
  const values: (string | number)[] = [];
  const put = (value: string | number) => `$${values.push(value)}`;
  const [column, direction, beyond] = kind === "failed" ? ["failed_at", "DESC", "<"] : ["runs_at", "ASC", ">"];
  const conditions = [`${column} IS NOT NULL`];
  // Not by the indexes of owners and users, which have all their sessions: those with runs are fewer, and in order.
  if (ownerId !== undefined) conditions.push(`coalesce(owner_id, '') = ${put(ownerId)}`);
  if (userId !== undefined) conditions.push(`coalesce(user_id, '') = ${put(userId)}`);
  if (from !== undefined) conditions.push(`${column} >= ${put(from)}`);
  if (to !== undefined) conditions.push(`${column} <= ${put(to)}`);
  if (after) conditions.push(`(${column}, id) ${beyond} (${put(after.at)}, ${put(after.sessionId)})`);
  // Ids need no escapes in JSON.
  if (runId !== undefined) conditions.push(`strpos(memory, ${put(`"${runId}"`)}) > 0`);
  const text = `SELECT view, memory, ${column} AS at FROM sessions WHERE ${conditions.join(" AND ")}
    ORDER BY ${column} ${direction}, id ${direction} LIMIT ${put(limit + 1)}`;
  return { text, values };
}

export function usageList({ from, to, ownerId, agentId, after, limit }: StoredUsageQuery): List {
  const values: (string | number)[] = [from, to, limit + 1];
  const put = (value: string | number) => `$${values.push(value)}`;
  const conditions = ["day BETWEEN $1 AND $2"];
  if (ownerId !== undefined) conditions.push(`owner_id = ${put(ownerId)}`);
  if (agentId !== undefined) conditions.push(`agent_id = ${put(agentId)}`);
  if (after) {
    const day = put(after.day);
    const key = `(${put(after.ownerId)}, ${put(after.agentId)})`;
    conditions.push(`(day < ${day} OR (day = ${day} AND (owner_id, agent_id) > ${key}))`);
  }
  const text = withColumns(`
    SELECT {{usage_keys: $name AS "$field"}}, {{usage: CAST(sum($name) AS bigint) AS $name}} FROM usage
    WHERE ${conditions.join(" AND ")} GROUP BY {{usage_keys: $name}}
    ORDER BY day DESC, owner_id, agent_id LIMIT $3`);
  return { text, values };
}
