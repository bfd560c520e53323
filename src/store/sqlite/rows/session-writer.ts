import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SessionId } from "../../../protocol/ids.ts";
import type { Session } from "../../../protocol/session.ts";
import { sessionText } from "../../rows.ts";
import type { DeletedSession, SessionSqlRow } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import type { KnownRows, KnownSession } from "./known-rows.ts";
import { AFTER_ALL, type LogBlocks } from "./log-blocks.ts";
import type { WordIndex } from "./word-index.ts";

type FoundSession = Omit<KnownSession, "hasOldest"> & { view: string; hasOldest: 0 | 1 };

/** The columns that find a session, and `standing`. */
const INDEXED = [
  "state",
  "agent_id",
  "user_id",
  "owner_id",
  "workspace_id",
  "last_activity_at",
  "queued_at",
  "due_at",
  "runs_at",
  "failed_at",
] as const satisfies (keyof SessionSqlRow)[];

/** The value of `standing` for a ducked session. */
const DUCKED = -1;

/** Writes the rows of sessions, and the tombstones of deleted ones. */
export class SessionWriter {
  readonly #words: WordIndex;
  readonly #known: KnownRows;
  readonly #blocks: LogBlocks;
  readonly #find: Query<FoundSession>;
  readonly #add: StatementSync;
  readonly #put: StatementSync;
  readonly #putView: StatementSync;
  readonly #addTombstone: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync, words: WordIndex, known: KnownRows, blocks: LogBlocks) {
    this.#words = words;
    this.#known = known;
    this.#blocks = blocks;
    this.#find = prepareQuery(
      db,
      `
      SELECT session_key AS key, floor_key AS floorKey, standing, view, oldest_at IS NOT NULL AS hasOldest
      FROM sessions WHERE id = ?`,
    );
    this.#add = db.prepare(`
      INSERT INTO sessions (${INDEXED.join()}, standing, oldest_at, head, view, memory, id, floor_key)
      VALUES (${"?, ".repeat(INDEXED.length)}?, ?, ?, ?, ?, ?, ?)`);
    this.#put = db.prepare(`
      UPDATE sessions SET ${INDEXED.map((column) => `${column} = ?`).join()}, standing = ?,
        oldest_at = coalesce(oldest_at, ?), head = ?, view = ?, memory = ?
      WHERE session_key = ?`);
    // Updates no indexed column.
    this.#putView = db.prepare("UPDATE sessions SET head = ?, view = ?, memory = ? WHERE session_key = ?");
    this.#addTombstone = db.prepare(`
      INSERT OR REPLACE INTO tombstones
        (session_id, floor_key, owner_id, deleted_at, floor_seq, seq, type, request_id, at, json)
      VALUES (?, ?, (SELECT owner_id FROM sessions WHERE id = ?), ?, ?, ?, ?, ?, ?, ?)`);
    this.#remove = db.prepare("DELETE FROM sessions WHERE id = ?");
  }

  find(id: SessionId): KnownSession | undefined {
    const known = this.#known.sessions.get(id);
    if (known) return known;
    const row = this.#find.get(id);
    if (!row) return undefined;
    const { key, floorKey, standing, view, hasOldest } = row;
    const text = sessionText(JSON.parse(view) as Session);
    return { key, floorKey, standing, text, columns: undefined, hasOldest: hasOldest === 1 };
  }

  /**
   * @param before the session's current row
   * @returns the key of the row
   */
  put(row: SessionSqlRow, before: KnownSession | undefined, floorKey: number): number {
    const { id, head, view, memory, text, oldest_at: firstAt = null } = row;
    const standing = standingOf(row, before);
    const indexed = [...INDEXED.map((column) => row[column] ?? null), standing];
    const columns = indexed.join("\n");
    const hasOldest = before?.hasOldest === true || firstAt !== null;
    let key: number;
    if (!before) {
      key = Number(this.#add.run(...indexed, firstAt, head, view, memory, id, floorKey).lastInsertRowid);
      this.#words.addSession(key, text);
    } else {
      key = before.key;
      const isFoundAsBefore = before.columns === columns && before.hasOldest === hasOldest;
      const { changes } = isFoundAsBefore
        ? this.#putView.run(head, view, memory, key)
        : this.#put.run(...indexed, firstAt, head, view, memory, key);
      if (changes === 0) throw new Error(`session ${id} has no row`);
      if (before.text !== text) {
        this.#words.dropSession(key);
        this.#words.addSession(key, text);
      }
    }
    this.#known.sessions.set(id, { key, floorKey, standing, text, columns, hasOldest });
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
    const found = this.find(sessionId);
    if (found) this.#blocks.removeEvents(floorKey, found.key, AFTER_ALL);
    this.#remove.run(sessionId);
    this.#known.sessions.delete(sessionId);
  }
}

/**
 * A session's position on its floor: 0 for the holder, -1 for a ducked session; for a paused one, the
 * `floorSeq` of the transition that paused it. A change without a transition keeps that number.
 */
function standingOf({ state, paused_at: movedAt }: SessionSqlRow, before: KnownSession | undefined): number | null {
  if (state === "active") return 0;
  if (state === "ducked") return DUCKED;
  if (state !== "paused") return null;
  const wasPausedAt = before?.standing && before.standing > 0 ? before.standing : undefined;
  return movedAt ?? wasPausedAt ?? 1;
}
