import type { SessionId } from "../protocol/ids.ts";
import type { Database } from "./postgres-pool.ts";
import type { Blob, ConnectionRow } from "./store.ts";

const ADD_CONNECTION = {
  name: "add_connection",
  text: `
    INSERT INTO connections (version, expires_at, binding, id) VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING RETURNING 1`,
};
const PUT_CONNECTION = {
  name: "put_connection",
  text: `
    UPDATE connections SET version = $1, expires_at = $2, binding = $3 WHERE id = $4 AND version = $5 RETURNING 1`,
};
// Put again, it is wanted again: its time starts anew.
const PUT_BLOB = {
  name: "put_blob",
  text: `
    INSERT INTO blobs AS b (session_id, hash, mime_type, created_at, bytes) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (session_id, hash) DO UPDATE SET created_at = greatest(b.created_at, excluded.created_at)`,
};
const SHIFT_EFFECTS = { name: "shift_effects", text: "SELECT shift_effects($1)" };

/** Writes what is no floor's change. */
export class SmallWriter {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async saveConnection({ id, version, expiresAt, ...binding }: ConnectionRow): Promise<"saved" | "conflict"> {
    const values = [version + 1, expiresAt, JSON.stringify(binding), id];
    const rows =
      version === 0
        ? await this.#db.query(ADD_CONNECTION, values)
        : await this.#db.query(PUT_CONNECTION, [...values, version]);
    return rows.length === 1 ? "saved" : "conflict";
  }

  async putBlob(sessionId: SessionId, { hash, mimeType, bytes, createdAt }: Blob): Promise<void> {
    await this.#db.query(PUT_BLOB, [sessionId, hash, mimeType, createdAt, bytes]);
  }

  async shiftEffects(byMs: number): Promise<void> {
    await this.#db.query(SHIFT_EFFECTS, [byMs]);
  }
}
