import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SessionId } from "../protocol/ids.ts";
import { type SessionNews, sessionText } from "./rows.ts";
import type { WordIndex } from "./sqlite-words.ts";
import type { DeletedSession, SessionRow } from "./store.ts";

/** A session as its row stands before a change. */
export interface SessionStanding {
  key: number;
  floorKey: number;
  standing: number | null;
  view: string;
}

/** Writes the rows of sessions, and the tombstones of those that are gone. */
export class SessionWriter {
  readonly #words: WordIndex;
  readonly #find: StatementSync;
  readonly #add: StatementSync;
  readonly #put: StatementSync;
  readonly #addTombstone: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync, words: WordIndex) {
    this.#words = words;
    this.#find = db.prepare(`
      SELECT session_key AS key, floor_key AS floorKey, standing, view FROM sessions WHERE id = ?`);
    this.#add = db.prepare(`
      INSERT INTO sessions (state, agent_id, user_id, owner_id, workspace_id, last_activity_at, queued_at, standing,
        oldest_at, head, view, memory, id, floor_key)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#put = db.prepare(`
      UPDATE sessions SET state = ?, agent_id = ?, user_id = ?, owner_id = ?, workspace_id = ?, last_activity_at = ?,
        queued_at = ?, standing = ?, oldest_at = coalesce(oldest_at, ?), head = ?, view = ?, memory = ?
      WHERE session_key = ?`);
    this.#addTombstone = db.prepare(`
      INSERT OR REPLACE INTO tombstones
        (session_id, floor_key, owner_id, deleted_at, floor_seq, seq, type, request_id, at, json)
      VALUES (?, ?, (SELECT owner_id FROM sessions WHERE id = ?), ?, ?, ?, ?, ?, ?, ?)`);
    this.#remove = db.prepare("DELETE FROM sessions WHERE id = ?");
  }

  find(id: SessionId): SessionStanding | undefined {
    return this.#find.get(id) as SessionStanding | undefined;
  }

  /** The key of the row. */
  put(row: SessionRow, standing: SessionStanding | undefined, floorKey: number, news: SessionNews | undefined): number {
    const { session, memory, head } = row;
    const values = [
      session.state,
      session.agentId,
      session.userId ?? null,
      session.ownerId ?? null,
      session.workspaceId ?? null,
      session.lastActivityAt,
      session.queuedAt ?? null,
      standingOf(session.state, standing, news),
      news?.firstAt ?? null,
      head,
      JSON.stringify(session),
      memory,
    ];
    if (standing) {
      this.#put.run(...values, standing.key);
      if (!saysTheSame(standing.view, session)) {
        this.#words.dropSession(standing.key);
        this.#words.addSession(standing.key, sessionText(session));
      }
      return standing.key;
    }
    const key = Number(this.#add.run(...values, session.id, floorKey).lastInsertRowid);
    this.#words.addSession(key, sessionText(session));
    return key;
  }

  remove({ sessionId, last, at }: DeletedSession, floorKey: number): void {
    const { floorSeq, seq, type, requestId, json } = last;
    this.#addTombstone.run(
      sessionId,
      floorKey,
      sessionId,
      at,
      floorSeq,
      seq ?? 0,
      type,
      requestId ?? null,
      last.at,
      json,
    );
    this.#remove.run(sessionId);
  }
}

/** It came to be paused by its last transition; without one it is paused since before. */
function standingOf(
  state: SessionRow["session"]["state"],
  before: SessionStanding | undefined,
  news: SessionNews | undefined,
): number | null {
  if (state === "active") return 0;
  return state === "paused" ? (news?.transitionSeq ?? before?.standing ?? 1) : null;
}

/** Whether a stored view has this title and summary. Quotes in texts are escaped, so neither can be mistaken. */
function saysTheSame(view: string, { title, summary }: SessionRow["session"]): boolean {
  if (!view.includes(`"title":${JSON.stringify(title)}`)) return false;
  return summary === undefined ? !view.includes('"summary":') : view.includes(`"summary":${JSON.stringify(summary)}`);
}
