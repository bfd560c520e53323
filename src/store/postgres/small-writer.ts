import { floorOfUser, type SessionId } from "../../protocol/ids.ts";

import type { Blob, ConnectionRow, Forgotten, Jumps, StoredDefinitionChange } from "../store.ts";
import { type Database, StatementRefused } from "./connections/connection-pool.ts";

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
// Storing a blob again restarts its grace period.
const PUT_BLOB = {
  name: "put_blob",
  text: `
    INSERT INTO blobs AS b (session_id, hash, mime_type, created_at, bytes) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (session_id, hash) DO UPDATE SET created_at = greatest(b.created_at, excluded.created_at)`,
};
const CHANGE_DEFINITION = {
  name: "change_definition",
  text: "SELECT change_definition($1, $2, $3, $4, $5, $6, $7, $8) AS done",
};
const FORGET_USER = { name: "forget_user", text: "SELECT forget_user($1, $2) AS done" };
const SAVE_JUMPS = { name: "save_jumps", text: "UPDATE meta SET jumped_ms = $1, doubt_until = $2 WHERE id = 1" };

/** Writes everything besides floor changes. */
export const smallWriter = (db: Database) => ({
  async saveConnection({ id, version, expiresAt, ...binding }: ConnectionRow): Promise<"saved" | "conflict"> {
    const values = [version + 1, expiresAt, JSON.stringify(binding), id];
    const rows =
      version === 0 ? await db.query(ADD_CONNECTION, values) : await db.query(PUT_CONNECTION, [...values, version]);
    return rows.length === 1 ? "saved" : "conflict";
  },

  async changeDefinition({ id, expected, body, receipt }: StoredDefinitionChange): Promise<"saved" | "conflict"> {
    const { caller, commandId, bodyHash, at, reply } = receipt;
    try {
      const values = [id, expected, body ?? null, caller, commandId, bodyHash, at, reply];
      const [row] = await db.query<{ done: boolean }>(CHANGE_DEFINITION, values);
      return row!.done ? "saved" : "conflict";
    } catch (error) {
      if (error instanceof StatementRefused && error.fault === "taken") return "conflict";
      throw error;
    }
  },

  async putBlob(sessionId: SessionId, { hash, mimeType, bytes, createdAt }: Blob): Promise<void> {
    await db.query(PUT_BLOB, [sessionId, hash, mimeType, createdAt, bytes]);
  },

  async forgetUser(userId: string): Promise<"conflict" | Forgotten> {
    const [row] = await db.query<{ done: boolean }>(FORGET_USER, [userId, floorOfUser(userId)]);
    if (!row!.done) return "conflict";
    return {
      remains: ["Deleted rows stay in PostgreSQL's files until VACUUM, and in its write-ahead log and archives."],
    };
  },

  async saveJumps({ jumpedMs, doubtUntil }: Jumps): Promise<void> {
    await db.query(SAVE_JUMPS, [jumpedMs, doubtUntil]);
  },
});
