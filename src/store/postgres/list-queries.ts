import {
  filteredColumns,
  hidesArchived,
  type RunListRow,
  runList,
  runListPage,
  usageList,
  usagePage,
  weightOfRunRow,
} from "../lists.ts";
import { readPage } from "../row-page.ts";
import { sessionOfRow, type ViewRow } from "../rows.ts";
import { MAX_HITS, termsOf, tsQuery } from "../search-words.ts";
import type {
  BudgetWindow,
  StoredRunPage,
  StoredRunQuery,
  StoredSessionPage,
  StoredSessionQuery,
  StoredUsagePage,
  StoredUsageQuery,
  UsageCount,
} from "../store.ts";
import type { Database, Statement } from "./connections/connection-pool.ts";

const WINDOWS = {
  name: "budget_windows",
  text: `SELECT scope, used, ends_at AS "endsAt" FROM budgets WHERE scope = ANY ($1)`,
};

/** Lists of sessions, runs and usage. Each combination of filters is a statement of its own. */
export const listQueries = (db: Database) => ({
  /** The page and the total come from one statement, and thus one snapshot. */
  async listSessions(query: StoredSessionQuery): Promise<StoredSessionPage> {
    const { statement, values } = listStatement(query);
    const rows = await db.query<{ total: number; view: string | null }>(statement, values);
    const found = rows.filter((row): row is { total: number } & ViewRow => row.view !== null);
    return { sessions: found.map(sessionOfRow), total: rows[0]!.total };
  },

  async listRuns(query: StoredRunQuery): Promise<StoredRunPage> {
    const values: (string | number)[] = [];
    const put = (value: string | number) => `$${values.push(value)}`;
    const text = runList(query, put, (whole, part) => `strpos(${whole}, ${part})`);
    const rows = await db.query<RunListRow>({ text }, values);
    return runListPage(readPage(rows, query.limit, weightOfRunRow));
  },

  findWindows(scopes: readonly string[]): Promise<BudgetWindow[]> {
    return db.query(WINDOWS, [scopes]);
  },

  async listUsage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const { sql, values } = usageList(query);
    let count = 0;
    const text = sql.replace(/\?/g, () => `$${++count}`);
    return usagePage(await db.query<UsageCount>({ text }, values), query.limit);
  },
});

/** Each combination of filters is a statement of its own. */
function listStatement(query: StoredSessionQuery): { statement: Statement; values: unknown[] } {
  const values: unknown[] = [];
  const put = (value: unknown) => `$${values.push(value)}`;
  const hits = query.q === undefined ? undefined : hitsOf(query.q, query.id ?? query.q.trim(), put);
  const conditions = ["state <> 'staged'", ...(hits ? ["session_key IN (SELECT session_key FROM hits)"] : [])];
  const filtered = filteredColumns(query);
  for (const [column, value] of filtered) conditions.push(`${column} = ${put(value)}`);
  if (hidesArchived(query)) conditions.push("state <> 'archived'");
  const where = `WHERE ${conditions.join(" AND ")}`;
  const { page, pageSize } = query;
  const text = `
    ${hits ?? ""}
    SELECT counted.total, listed.view
    FROM (SELECT count(*) AS total FROM sessions ${where}) counted
    LEFT JOIN LATERAL (
      SELECT view, last_activity_at, session_key FROM sessions ${where}
      ORDER BY last_activity_at DESC, session_key DESC LIMIT ${put(pageSize)} OFFSET ${put(page * pageSize)}
    ) listed ON true
    ORDER BY listed.last_activity_at DESC, listed.session_key DESC`;
  // The number of hits depends on the word, so a search is planned for its values.
  if (hits) return { statement: { text }, values };
  const name = ["list", ...filtered.map(([column]) => column), hidesArchived(query) ? "shown" : "all"].join("_");
  return { statement: { name, text }, values };
}

/** The sessions that a search hits: by their exact id, their own words, or the words of their messages. */
function hitsOf(q: string, id: string, put: (value: unknown) => string): string {
  const byId = `SELECT session_key FROM sessions WHERE id = ${put(id)}`;
  const terms = termsOf(q);
  if (terms.length === 0) return `WITH hits AS MATERIALIZED (${byId})`;
  const words = `${put(tsQuery(terms))}::tsquery`;
  const newest = (table: string, key: string) => `
      SELECT session_key FROM (
        SELECT session_key FROM ${table} WHERE words @@ ${words} ORDER BY ${key} DESC LIMIT ${MAX_HITS}) ${table}`;
  return `
    WITH hits AS MATERIALIZED (
      ${byId}
      UNION ${newest("session_words", "session_key")}
      UNION ${newest("messages", "message_key")})`;
}
