import type { SQLInputValue } from "node:sqlite";
import {
  FLOOR_ROWS,
  filteredColumns,
  hidesArchived,
  IS_IN_STATE,
  type RunListRow,
  runList,
  runListPage,
  usageList,
  usagePage,
  weightOfRunRow,
} from "../lists.ts";
import { readPage, weightOfFloor } from "../row-page.ts";
import { type FloorListRow, floorOfRow, sessionOfRow, type ViewRow } from "../rows.ts";
import { fts5Query, MAX_HITS, termsOf } from "../search-words.ts";
import type {
  BudgetWindow,
  StoredFloorPage,
  StoredFloorQuery,
  StoredRunPage,
  StoredRunQuery,
  StoredSessionPage,
  StoredSessionQuery,
  StoredUsagePage,
  StoredUsageQuery,
  UsageCount,
} from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";

const HITS = `
  WITH hits (session_key) AS MATERIALIZED (
    SELECT session_key FROM sessions WHERE id = ?
    UNION SELECT rowid FROM (SELECT rowid FROM session_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS})
    UNION SELECT session_key FROM messages WHERE message_key IN
      (SELECT rowid FROM message_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS}))`;
const EXACT_HIT = "WITH hits (session_key) AS MATERIALIZED (SELECT session_key FROM sessions WHERE id = ?)";

const WINDOWS = "SELECT scope, used, ends_at AS endsAt FROM budgets WHERE scope IN (SELECT value FROM json_each(?))";

/** Lists of sessions, floors, runs and usage. Each combination of filters is one statement. */
export const listReads = (db: ReadConnection) => ({
  listSessions(query: StoredSessionQuery): Promise<StoredSessionPage> {
    const { page, pageSize } = query;
    const hits = hitsOf(query);
    const filter = filterOf(query);
    const rest = `${hits.join} ${filter.sql}`;
    const values = [...hits.values, ...filter.values];
    const count = `${hits.sql} SELECT count(*) AS total FROM ${rest}`;
    const list = `
      ${hits.sql} SELECT view FROM ${rest} ORDER BY last_activity_at DESC, session_key DESC LIMIT ? OFFSET ?`;
    return db.readSnapshot(() => {
      const { total } = db.prepare<{ total: number }>(count).get(...values)!;
      const rows = db.prepare<ViewRow>(list).all(...values, pageSize, page * pageSize);
      return { sessions: rows.map(sessionOfRow), total };
    });
  },

  listFloors({ after, ids, state, ownerId, limit }: StoredFloorQuery): Promise<StoredFloorPage> {
    const conditions = ["f.id > ?"];
    const values: SQLInputValue[] = [after ?? ""];
    if (ownerId !== undefined) {
      conditions.push("f.floor_key IN (SELECT floor_key FROM sessions WHERE owner_id = ?)");
      values.push(ownerId);
    }
    if (ids !== undefined) {
      conditions.push("f.id IN (SELECT value FROM json_each(?))");
      values.push(JSON.stringify(ids));
    }
    if (state !== undefined) conditions.push(IS_IN_STATE[state]);
    const sql = `${FLOOR_ROWS} WHERE ${conditions.join(" AND ")} ORDER BY f.id LIMIT ?`;
    return db.readSnapshot(() => {
      const rows = db.prepare<FloorListRow>(sql).iterate(...values, limit + 1);
      const { page, hasMore } = readPage(rows, limit, weightOfFloor);
      return { floors: page.map(floorOfRow), hasMore };
    });
  },

  listRuns(query: StoredRunQuery): Promise<StoredRunPage> {
    const values: SQLInputValue[] = [];
    const put = (value: string | number) => {
      values.push(value);
      return "?";
    };
    const sql = runList(query, put, (text, part) => `instr(${text}, ${part})`);
    return db.readWeighed(() => {
      const rows = db.prepare<RunListRow>(sql).iterate(...values);
      return runListPage(readPage(rows, query.limit, db.weighed(weightOfRunRow)));
    });
  },

  findWindows(scopes: readonly string[]): Promise<BudgetWindow[]> {
    return db.read(() => db.prepare<BudgetWindow>(WINDOWS).all(JSON.stringify(scopes)));
  },

  listUsage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const { sql, values } = usageList(query);
    return db.read(() => usagePage(db.prepare<UsageCount>(sql).all(...values), query.limit));
  },
});

/** The source of the sessions: all of them, or the hits of a search. */
function hitsOf({ q, id = q?.trim() }: StoredSessionQuery): { sql: string; join: string; values: SQLInputValue[] } {
  if (q === undefined || id === undefined) return { sql: "", join: "sessions", values: [] };
  const join = "hits CROSS JOIN sessions USING (session_key)";
  const terms = termsOf(q);
  if (terms.length === 0) return { sql: EXACT_HIT, join, values: [id] };
  const words = fts5Query(terms);
  return { sql: HITS, join, values: [id, words, words] };
}

function filterOf(query: StoredSessionQuery): { sql: string; values: SQLInputValue[] } {
  const conditions = ["state <> 'staged'"];
  const values: SQLInputValue[] = [];
  for (const [column, value] of filteredColumns(query)) {
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (hidesArchived(query)) conditions.push("state <> 'archived'");
  return { sql: `WHERE ${conditions.join(" AND ")}`, values };
}
