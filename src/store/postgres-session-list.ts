import type { Database, Statement } from "./postgres-pool.ts";
import { sessionOf, type ViewRow } from "./rows.ts";
import { termsOf, tsQuery } from "./search-words.ts";
import type { SessionPage, SessionQuery } from "./store.ts";

/**
 * How many sessions and how many messages a search looks at, the newest that match: a word that is everywhere must not
 * keep the other readers waiting.
 */
const MAX_HITS = 4_096;

/** Lists and searches sessions. Page and total are one statement, and so one view. */
export class SessionList {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async list(query: SessionQuery): Promise<SessionPage> {
    const { statement, values } = listStatement(query);
    const rows = await this.#db.query<{ total: number; view: string | null }>(statement, values);
    const found = rows.filter((row): row is { total: number } & ViewRow => row.view !== null);
    return { sessions: found.map(sessionOf), total: rows[0]!.total };
  }
}

/** Each combination of filters is a statement of its own. */
function listStatement(query: SessionQuery): { statement: Statement; values: unknown[] } {
  const values: unknown[] = [];
  const put = (value: unknown) => `$${values.push(value)}`;
  const hits = query.q === undefined ? undefined : hitsOf(query.q, put);
  const conditions: string[] = hits ? ["session_key IN (SELECT session_key FROM hits)"] : [];
  const columns = {
    state: query.state,
    agent_id: query.agentId,
    user_id: query.userId,
    owner_id: query.ownerId,
    workspace_id: query.workspaceId,
  };
  const filtered = Object.entries(columns).filter(([, value]) => value !== undefined);
  for (const [column, value] of filtered) conditions.push(`${column} = ${put(value)}`);
  const hidesArchived = query.state === undefined && !query.includeArchived;
  if (hidesArchived) conditions.push("state <> 'archived'");
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
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
  // How many hits a word has depends on the word, so a search is planned for what it looks for.
  if (hits) return { statement: { text }, values };
  const name = ["list", ...filtered.map(([column]) => column), hidesArchived ? "shown" : "all"].join("_");
  return { statement: { name, text }, values };
}

/** The sessions that a search hits: by their exact id, their own words, or those of their messages. */
function hitsOf(q: string, put: (value: unknown) => string): string {
  const byId = `SELECT session_key FROM sessions WHERE id = ${put(q.trim())}`;
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
