import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { sessionOf, type ViewRow } from "./rows.ts";
import { fts5Query, termsOf } from "./search-words.ts";
import type { SessionPage, SessionQuery } from "./store.ts";

/**
 * How many sessions and how many messages a search looks at, the newest that match: a word that is everywhere must not
 * keep the other readers waiting.
 */
const MAX_HITS = 4_096;

const HITS = `
  WITH hits (session_key) AS MATERIALIZED (
    SELECT session_key FROM sessions WHERE id = ?
    UNION SELECT rowid FROM (SELECT rowid FROM session_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS})
    UNION SELECT session_key FROM messages WHERE message_key IN
      (SELECT rowid FROM message_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS}))`;
const EXACT_HIT = "WITH hits (session_key) AS MATERIALIZED (SELECT session_key FROM sessions WHERE id = ?)";

/** Lists and searches sessions. Each combination of filters is a statement of its own, prepared once. */
export class SessionList {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** To be called inside a read transaction: the page and the total are two queries. */
  list(query: SessionQuery): SessionPage {
    const { page, pageSize } = query;
    const hits = hitsOf(query.q);
    const filter = filterOf(query);
    const rest = `${hits.join} ${filter.sql}`;
    const values = [...hits.values, ...filter.values];
    const { total } = this.#prepare(`${hits.sql} SELECT count(*) AS total FROM ${rest}`).get(...values) as {
      total: number;
    };
    const rows = this.#prepare(
      `${hits.sql} SELECT view FROM ${rest} ORDER BY last_activity_at DESC, session_key DESC LIMIT ? OFFSET ?`,
    ).all(...values, pageSize, page * pageSize) as unknown as ViewRow[];
    return { sessions: rows.map(sessionOf), total };
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** Where the sessions come from: all of them, or those that a search hits. */
function hitsOf(q: string | undefined): { sql: string; join: string; values: SQLInputValue[] } {
  if (q === undefined) return { sql: "", join: "sessions", values: [] };
  const join = "hits CROSS JOIN sessions USING (session_key)";
  const id = q.trim();
  const terms = termsOf(q);
  if (terms.length === 0) return { sql: EXACT_HIT, join, values: [id] };
  const words = fts5Query(terms);
  return { sql: HITS, join, values: [id, words, words] };
}

function filterOf(query: SessionQuery): { sql: string; values: SQLInputValue[] } {
  const conditions: string[] = [];
  const values: SQLInputValue[] = [];
  const columns = {
    state: query.state,
    agent_id: query.agentId,
    user_id: query.userId,
    owner_id: query.ownerId,
    workspace_id: query.workspaceId,
  };
  for (const [column, value] of Object.entries(columns)) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (query.state === undefined && !query.includeArchived) conditions.push("state <> 'archived'");
  return { sql: conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`, values };
}
