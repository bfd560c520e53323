import type { SQLInputValue } from "node:sqlite";
import { sessionOfRow, type ViewRow } from "../rows.ts";
import { fts5Query, MAX_HITS, termsOf } from "../search-words.ts";
import { filteredColumns, hidesArchived } from "../session-filter.ts";
import type { StoredSessionPage, StoredSessionQuery } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";

const HITS = `
  WITH hits (session_key) AS MATERIALIZED (
    SELECT session_key FROM sessions WHERE id = ?
    UNION SELECT rowid FROM (SELECT rowid FROM session_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS})
    UNION SELECT session_key FROM messages WHERE message_key IN
      (SELECT rowid FROM message_words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ${MAX_HITS}))`;
const EXACT_HIT = "WITH hits (session_key) AS MATERIALIZED (SELECT session_key FROM sessions WHERE id = ?)";

/** Lists and searches sessions. Each combination of filters is one statement. */
export const sessionListRead = (db: ReadConnection) => ({
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
