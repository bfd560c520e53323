import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SessionId } from "../../../protocol/ids.ts";
import type { Session } from "../../../protocol/session.ts";
import { valuesOf, withColumns } from "../../columns.ts";
import { sessionText, tombstoneRowOf } from "../../rows.ts";
import type { DeletedSession, SessionSqlRow } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import type { KnownRows, KnownSession } from "./known-rows.ts";
import { AFTER_ALL, type LogBlocks } from "./log-blocks.ts";
import type { WordIndex } from "./word-index.ts";

type FoundSession = Omit<KnownSession, "hasOldest"> & { view: string; hasOldest: 0 | 1 };

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
  readonly #putContent: StatementSync;
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
    this.#add = db.prepare(
      withColumns(`
      INSERT INTO sessions ({{sessions: $name}}, standing, oldest_at, runs_at, {{session_content: $name}}, id, floor_key)
      VALUES ({{sessions: ?}}, ?, ?, ?, {{session_content: ?}}, ?, ?)`),
    );
    this.#put = db.prepare(
      withColumns(`
      UPDATE sessions SET {{sessions: $name = ?}}, standing = ?, oldest_at = coalesce(oldest_at, ?),
        runs_at = min(coalesce(runs_at, ?), ?), {{session_content: $name = ?}}
      WHERE session_key = ?`),
    );
    // Updates no indexed column.
    this.#putContent = db.prepare(
      withColumns("UPDATE sessions SET {{session_content: $name = ?}} WHERE session_key = ?"),
    );
    this.#addTombstone = db.prepare(
      withColumns(`
      INSERT OR REPLACE INTO tombstones (session_id, floor_key, owner_id, {{tombstones: $name}})
      VALUES (?1, ?2, (SELECT owner_id FROM sessions WHERE id = ?1), {{tombstones: ?}})`),
    );
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
    const { id, text, oldest_at: firstAt = null, runs_at: runsAt = null } = row;
    const standing = standingOf(row, before);
    const indexed = [...valuesOf("sessions", row), standing];
    const content = valuesOf("session_content", row);
    const columns = [...indexed, runsAt].join("\n");
    const hasOldest = before?.hasOldest === true || firstAt !== null;
    let key: number;
    if (!before) {
      key = Number(this.#add.run(...indexed, firstAt, runsAt, ...content, id, floorKey).lastInsertRowid);
      this.#words.addSession(key, text);
    } else {
      key = before.key;
      const isFoundAsBefore = before.columns === columns && before.hasOldest === hasOldest;
      const { changes } = isFoundAsBefore
        ? this.#putContent.run(...content, key)
        : this.#put.run(...indexed, firstAt, runsAt, runsAt, ...content, key);
      if (changes === 0) throw new Error(`session ${id} has no row`);
      if (before.text !== text) {
        this.#words.dropSession(key);
        this.#words.addSession(key, text);
      }
    }
    this.#known.sessions.set(id, { key, floorKey, standing, text, columns, hasOldest });
    return key;
  }

  remove(gone: DeletedSession, floorKey: number): void {
    const { sessionId } = gone;
    this.#addTombstone.run(sessionId, floorKey, ...valuesOf("tombstones", tombstoneRowOf(gone)));
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
