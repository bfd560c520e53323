import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Message } from "../../../protocol/message.ts";
import type { StagedId, StagedSession } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import type { MessageRowWriter } from "./message-row-writer.ts";

/** The floor of staged sessions; no floor of clients has this key. */
const STAGING_FLOOR = 0;

/** Writes staged sessions: histories whose sessions do not exist yet. */
export class StagedWriter {
  readonly #messages: MessageRowWriter;
  readonly #find: Query<{ key: number }>;
  readonly #add: StatementSync;
  readonly #touch: StatementSync;
  readonly #publish: StatementSync;
  readonly #copyBlob: StatementSync;
  readonly #oldest: Query<{ key: number }>;
  readonly #removeMessages: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync, messages: MessageRowWriter) {
    this.#messages = messages;
    this.#find = prepareQuery(db, "SELECT session_key AS key FROM sessions WHERE id = ? AND state = 'staged'");
    this.#add = db.prepare(`
      INSERT INTO sessions (id, floor_key, state, agent_id, last_activity_at, head, view, memory)
      VALUES (?, ${STAGING_FLOOR}, 'staged', '', ?, 0, '{}', '{}')`);
    this.#touch = db.prepare("UPDATE sessions SET last_activity_at = ? WHERE session_key = ?");
    this.#publish = db.prepare(
      "UPDATE sessions SET id = ?, floor_key = ?, state = 'created' WHERE id = ? AND state = 'staged'",
    );
    this.#copyBlob = db.prepare(`
      INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes)
      SELECT ?, hash, mime_type, ?, bytes FROM blobs WHERE session_id = ? AND hash = ?
      ON CONFLICT DO UPDATE SET created_at = max(created_at, excluded.created_at)`);
    this.#oldest = prepareQuery(
      db,
      `
      SELECT session_key AS key FROM sessions WHERE state = 'staged' AND last_activity_at < ?
      ORDER BY last_activity_at LIMIT 1`,
    );
    this.#removeMessages = db.prepare(`
      DELETE FROM messages WHERE message_key IN
        (SELECT message_key FROM messages WHERE session_key = ? ORDER BY message_key LIMIT ?)`);
    this.#remove = db.prepare("DELETE FROM sessions WHERE session_key = ?");
  }

  stage(stagedAs: StagedId, messages: readonly Message[], now: number): void {
    const known = this.#find.get(stagedAs);
    if (known) this.#touch.run(now, known.key);
    const key = known?.key ?? Number(this.#add.run(stagedAs, now).lastInsertRowid);
    for (const message of messages) this.#messages.write(key, STAGING_FLOOR, { kind: "add", message });
  }

  discard(stagedAs: StagedId): void {
    const known = this.#find.get(stagedAs);
    if (known) this.#touch.run(0, known.key);
  }

  /** @returns false if there is no such image */
  copyBlob(from: string, to: string, hash: string, now: number): boolean {
    return this.#copyBlob.run(to, now, from, hash).changes > 0;
  }

  isThere({ stagedAs }: StagedSession): boolean {
    return this.#find.get(stagedAs) !== undefined;
  }

  publish({ sessionId, stagedAs }: StagedSession, floorKey: number): void {
    this.#publish.run(sessionId, floorKey, stagedAs);
  }

  /** Delete expired staged sessions, oldest first, each in pieces. @returns the number of rows examined */
  prune(before: number, limit: number): number {
    let looked = 0;
    while (looked < limit) {
      const oldest = this.#oldest.get(before);
      if (!oldest) break;
      const piece = limit - looked;
      const count = Number(this.#removeMessages.run(oldest.key, piece).changes);
      if (count < piece) this.#remove.run(oldest.key);
      looked += Math.max(count, 1);
    }
    return looked;
  }
}
