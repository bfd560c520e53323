import { AppError } from "../../protocol/errors.ts";
import type { AgentId, ConnectionId, FloorId, MessageId, SessionId } from "../../protocol/ids.ts";
import type { RunEffect } from "../../protocol/internal/effect.ts";
import type { Message } from "../../protocol/message.ts";
import { withColumns } from "../columns.ts";
import { ANSWER_BYTES } from "../row-page.ts";
import {
  type ConnectionSqlRow,
  connectionOf,
  type DraftRow,
  draftPageOf,
  type EffectRow,
  effectOf,
  type LoadedRow,
  loadedSession,
  type MessageRow,
  messageOf,
} from "../rows.ts";
import type {
  Blob,
  ConnectionRow,
  DefinitionRow,
  DraftPage,
  DueQuery,
  FloorRecord,
  Jumps,
  NewReceipt,
  Receipt,
  ReceiptKey,
  SessionRow,
} from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";
import type { FoundStore } from "./connections/store-identity.ts";
import { MESSAGE_WEIGHT, weighed } from "./view-statements.ts";

const MESSAGE = `s.id AS "sessionId", m.id, m.status, m.details, m.content`;

const FLOOR = { name: "floor", text: "SELECT version, head, alarm, snapshot, format FROM floors WHERE id = $1" };
/** Always one row. */
const VERSION = {
  name: "version",
  text: `
    SELECT (SELECT version FROM floors WHERE id = $1) AS version,
      current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
};
const SESSION = { name: "session", text: "SELECT view, memory, head FROM sessions WHERE id = $1" };
const SESSIONS = { name: "sessions", text: "SELECT view, memory, head FROM sessions WHERE id = ANY ($1)" };
const DRAFTS = {
  name: "drafts",
  text: `
    SELECT ${MESSAGE}, m.message_key AS key, m.found
    FROM (
      SELECT m.*, ${weighed(MESSAGE_WEIGHT, "m.message_key")}
      FROM floors f JOIN messages m USING (floor_key)
      WHERE f.id = $1 AND m.status = 'running' AND m.message_key > $2
    ) m JOIN sessions s USING (session_key)
    WHERE m.before < ${ANSWER_BYTES} ORDER BY m.message_key`,
};
const MESSAGE_OF_SESSION = {
  name: "message",
  text: `SELECT ${MESSAGE} FROM sessions s JOIN messages m USING (session_key) WHERE s.id = $1 AND m.id = $2`,
};
const RECEIPTS = {
  name: "receipts",
  text: withColumns(`
    SELECT f.id AS "floorId", {{receipts: r.$name AS "$field"}}
    FROM unnest($1::text[], $2::text[]) AS key (caller, command_id)
    JOIN receipts r ON r.caller = key.caller AND r.command_id = key.command_id JOIN floors f USING (floor_key)`),
};
const NEWEST_RECEIPTS = {
  name: "newest_receipts",
  text: `
    SELECT r.caller, r.command_id AS "commandId", f.id AS "floorId", r.at, r.reply
    FROM receipts r JOIN floors f USING (floor_key) WHERE r.at >= $1 ORDER BY r.at DESC LIMIT $2`,
};
const DUE_EFFECTS = {
  name: "due_effects",
  text: `
    SELECT e.id, f.id AS "floorId", e.due_at AS "dueAt", e.payload
    FROM effects e JOIN floors f USING (floor_key)
    WHERE e.due_at <= $1 AND (e.due_at, e.id) > ($2, $3) AND ($4::smallint[] IS NULL OR e.floor_hash = ANY ($4))
    ORDER BY e.due_at, e.id LIMIT $5`,
};
const DUE_ALARMS = {
  name: "due_alarms",
  text: `
    SELECT id, alarm AS "dueAt" FROM floors
    WHERE alarm <= $1 AND (alarm, id) > ($2, $3) AND ($4::smallint[] IS NULL OR floor_hash = ANY ($4))
    ORDER BY alarm, id LIMIT $5`,
};
const DUE_SESSIONS = {
  name: "due_sessions",
  text: `
    SELECT s.view, s.memory, s.head, s.due_at AS "dueAt" FROM floors f JOIN sessions s USING (floor_key)
    WHERE f.id = $1 AND s.due_at IS NOT NULL AND s.id <> ALL ($2)
    ORDER BY s.due_at, s.id LIMIT $3`,
};
const NEWEST_TIME = {
  name: "newest_time",
  text: `
    SELECT greatest(0,
      (SELECT max(last_activity_at) FROM sessions),
      (SELECT max(at) FROM receipts),
      (SELECT max(deleted_at) FROM tombstones)) AS at`,
};
const JUMPS = {
  name: "jumps",
  text: `SELECT jumped_ms AS "jumpedMs", doubt_until AS "doubtUntil" FROM meta WHERE id = 1`,
};
const NOW = {
  name: "now",
  text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, epoch, lost FROM meta",
};
const DEFINITIONS_VERSION = {
  name: "definitions_version",
  text: "SELECT definitions_version AS version FROM meta WHERE id = 1",
};
/** $1: the id before the first. */
const DEFINITIONS = {
  name: "definitions",
  text: `
    SELECT id, version, body FROM (
      SELECT d.*, ${weighed("octet_length(d.body)", 'd.id COLLATE "C"')}
      FROM agent_definitions d WHERE d.id COLLATE "C" > $1
    ) d WHERE before < ${ANSWER_BYTES} ORDER BY id COLLATE "C"`,
};
const CONNECTION = {
  name: "connection",
  text: `SELECT id, version, expires_at AS "expiresAt", binding FROM connections WHERE id = $1`,
};
const BLOB = {
  name: "blob",
  text: `
    SELECT hash, mime_type AS "mimeType", bytes, created_at AS "createdAt" FROM blobs WHERE session_id = $1 AND hash = $2`,
};

/**
 * Reads the rows that hosts, workers and gateways continue from. Each method is one statement, and thus one snapshot.
 */
export const stateQueries = (db: Database) => ({
  async loadFloor(id: FloorId): Promise<FloorRecord | undefined> {
    const [row] = await db.query<FloorRecord & { alarm: number | null }>(FLOOR, [id]);
    return row && { ...row, alarm: row.alarm ?? undefined };
  },

  async confirm(id: FloorId, version: number): Promise<boolean> {
    const [row] = await db.query<{ version: number | null; isReadOnly: boolean }>(VERSION, [id]);
    // Another server may have newer commits (rule C1). New connections to such a server are refused.
    if (row!.isReadOnly) throw new AppError("unavailable", "the server of this connection has stopped taking writes");
    return (row!.version ?? 0) === version;
  },

  async loadSession(id: SessionId): Promise<SessionRow | undefined> {
    const [row] = await db.query<LoadedRow>(SESSION, [id]);
    return row && loadedSession(row);
  },

  async loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]> {
    return (await db.query<LoadedRow>(SESSIONS, [ids])).map(loadedSession);
  },

  async loadDrafts(id: FloorId, after = 0): Promise<DraftPage> {
    const rows = await db.query<DraftRow & { found: number }>(DRAFTS, [id, after]);
    return draftPageOf(rows, rows.length > 0 && rows[0]!.found > rows.length);
  },

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    const [row] = await db.query<MessageRow>(MESSAGE_OF_SESSION, [sessionId, id]);
    return row && messageOf(row);
  },

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    const callers = keys.map(({ caller }) => caller);
    return await db.query<Receipt>(RECEIPTS, [callers, keys.map(({ commandId }) => commandId)]);
  },

  async newestReceipts(since: number, limit: number): Promise<NewReceipt[]> {
    return await db.query(NEWEST_RECEIPTS, [since, limit]);
  },

  async dueEffects({ until, after, floorHashes, limit }: DueQuery): Promise<RunEffect[]> {
    const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
    const rows = await db.query<EffectRow>(DUE_EFFECTS, [until, dueAt, id, floorHashes ?? null, limit]);
    return rows.map(effectOf);
  },

  async dueAlarms({ until, after, floorHashes, limit }: DueQuery<FloorId>): Promise<{ id: FloorId; dueAt: number }[]> {
    const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
    return await db.query(DUE_ALARMS, [until, dueAt, id, floorHashes ?? null, limit]);
  },

  async loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> {
    return (await db.query<LoadedRow>(DUE_SESSIONS, [id, except, limit])).map(loadedSession);
  },

  async newestTime(): Promise<number> {
    return (await db.query<{ at: number }>(NEWEST_TIME))[0]!.at;
  },

  async loadJumps(): Promise<Jumps> {
    return (await db.query<Jumps>(JUMPS))[0]!;
  },

  /** The server's time, in ms since 1970, and what it says of its store. */
  async now(): Promise<{ now: number } & FoundStore> {
    return (await db.query<{ now: number } & FoundStore>(NOW))[0]!;
  },

  async definitionsVersion(): Promise<number> {
    return (await db.query<{ version: number }>(DEFINITIONS_VERSION))[0]!.version;
  },

  async listDefinitions(after?: AgentId): Promise<DefinitionRow[]> {
    return await db.query<DefinitionRow>(DEFINITIONS, [after ?? ""]);
  },

  async loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined> {
    const [row] = await db.query<ConnectionSqlRow>(CONNECTION, [id]);
    return row && connectionOf(row);
  },

  async getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined> {
    const [row] = await db.query<Blob>(BLOB, [sessionId, hash]);
    return row && { ...row, bytes: new Uint8Array(row.bytes) };
  },
});
