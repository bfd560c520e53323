import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { sessionOfRow, type ViewRow } from "../rows.ts";
import { fts5Query, MAX_HITS, termsOf } from "../search-words.ts";
import { filteredColumns, hidesArchived } from "../session-filter.ts";
import type { StoredSessionPage, StoredSessionQuery } from "../store.ts";
import { prepareQuery, type Query } from "./query.ts";

const HITS = `
  WITH hits (session_key) AS MATERIALIZED (
    SELECT session_key FROM sessions WHERE id = ?
    UNION SELECT rowid FROM (SELECT rowid FROM session_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS})
    UNION SELECT session_key FROM messages WHERE message_key IN
      (SELECT rowid FROM message_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS}))`;
const EXACT_HIT = "WITH hits (session_key) AS MATERIALIZED (SELECT session_key FROM sessions WHERE id = ?)";

/** Lists and searches sessions. Each combination of filters is one statement, prepared once. */
export class SqliteSessionList {
  readonly #db: DatabaseSync;
  readonly #totals = new Map<string, Query<{ total: number }>>();
  readonly #pages = new Map<string, Query<ViewRow>>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Call it inside a read transaction, because the page and the total are two queries. */
  list(query: StoredSessionQuery): StoredSessionPage {
    const { page, pageSize } = query;
    const hits = hitsOf(query);
    const filter = filterOf(query);
    const rest = `${hits.join} ${filter.sql}`;
    const values = [...hits.values, ...filter.values];
    const { total } = this.#prepare(this.#totals, `${hits.sql} SELECT count(*) AS total FROM ${rest}`).get(...values)!;
    const rows = this.#prepare(
      this.#pages,
      `${hits.sql} SELECT view FROM ${rest} ORDER BY last_activity_at DESC, session_key DESC LIMIT ? OFFSET ?`,
    ).all(...values, pageSize, page * pageSize);
    return { sessions: rows.map(sessionOfRow), total };
  }

  #prepare<Row>(prepared: Map<string, Query<Row>>, sql: string): Query<Row> {
    let query = prepared.get(sql);
    if (!query) {
      query = prepareQuery(this.#db, sql);
      prepared.set(sql, query);
    }
    return query;
  }
}

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
