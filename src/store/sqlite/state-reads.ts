import type { SQLInputValue } from "node:sqlite";
import type { ConnectionId, FloorId, MessageId, SessionId } from "../../protocol/ids.ts";
import type { RunEffect } from "../../protocol/internal/effect.ts";
import type { Message } from "../../protocol/message.ts";
import { withColumns } from "../columns.ts";
import { ANSWER_BYTES, readPage, rowsWithin, weightOfBody, weightOfMessage } from "../row-page.ts";
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
import type { ReadConnection } from "./read-connection.ts";

/** Reads the rows that hosts, workers and gateways continue from. */
export function stateReads(db: ReadConnection) {
  const sql = statementsOf(db);
  const findSession = (id: SessionId): SessionRow | undefined => {
    const row = sql.session.get(id);
    return row && loadedSession(row);
  };
  return {
    loadFloor: (id: FloorId): Promise<FloorRecord | undefined> =>
      db.read(() => {
        const row = sql.floor.get(id);
        return row && { ...row, alarm: row.alarm ?? undefined };
      }),

    confirm: (id: FloorId, version: number): Promise<boolean> =>
      db.read(() => (sql.version.get(id)?.version ?? 0) === version),

    loadSession: (id: SessionId): Promise<SessionRow | undefined> => db.read(() => findSession(id)),

    loadSessions: (ids: readonly SessionId[]): Promise<SessionRow[]> =>
      db.readSnapshot(() => ids.map(findSession).filter((row) => row !== undefined)),

    loadDue: (id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> =>
      db.read(() => sql.dueSessions.all(id, JSON.stringify(except), limit).map(loadedSession)),

    loadDrafts: (id: FloorId, after = 0): Promise<DraftPage> =>
      db.readWeighed(() => {
        const rows = sql.drafts.iterate(id, after);
        const { page, hasMore } = readPage(rows, Number.POSITIVE_INFINITY, db.weighed(weightOfMessage));
        return draftPageOf(page, hasMore);
      }),

    findMessage: (sessionId: SessionId, id: MessageId): Promise<Message | undefined> =>
      db.read(() => {
        const row = sql.message.get(sessionId, id);
        return row && messageOf(row);
      }),

    findReceipts: (keys: readonly ReceiptKey[]): Promise<Receipt[]> =>
      db.readSnapshot(() =>
        keys.flatMap(({ caller, commandId }) => {
          const row = sql.receipt.get(caller, commandId);
          return row ? [{ ...row }] : [];
        }),
      ),

    newestReceipts: (since: number, limit: number) =>
      db.read(() => sql.newestReceipts.all(since, limit).map((row) => ({ ...row }))),

    dueEffects: (query: DueQuery): Promise<RunEffect[]> =>
      db.read(() => sql.dueEffects.all(...valuesOf(query)).map(effectOf)),

    dueAlarms: (query: DueQuery<FloorId>): Promise<{ id: FloorId; dueAt: number }[]> =>
      db.read(() => sql.dueAlarms.all(...valuesOf(query)).map((row) => ({ ...row }))),

    lateRings: (until: number, aheadMs: number, limit: number): Promise<FloorId[]> =>
      db.read(() => sql.lateRings.all(until, aheadMs, limit).map(({ id }) => id)),

    loadJumps: (): Promise<Jumps> => db.read(() => ({ ...sql.jumps.get()! })),

    newestTime: (): Promise<number> => db.read(() => sql.newestTime.get()!.at),

    definitionsVersion: (): Promise<number> => db.read(() => sql.definitionsVersion.get()!.version),

    listDefinitions: (after = ""): Promise<DefinitionRow[]> =>
      db.readWeighed(() => {
        const rows = sql.definitions.iterate(after);
        return rowsWithin(rows, ANSWER_BYTES, db.weighed(weightOfBody)).map((row) => ({ ...row }));
      }),

    loadConnection: (id: ConnectionId): Promise<ConnectionRow | undefined> =>
      db.read(() => {
        const row = sql.connection.get(id);
        return row && connectionOf(row);
      }),

    getBlob: (sessionId: SessionId, hash: string): Promise<Blob | undefined> =>
      db.read(() => {
        const row = sql.blob.get(sessionId, hash);
        return row && { ...row };
      }),
  };
}

function valuesOf({ until, after, floorHashes, limit }: DueQuery<string>): SQLInputValue[] {
  const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
  return [until, dueAt, id, floorHashes ? JSON.stringify(floorHashes) : null, limit];
}

function statementsOf(db: ReadConnection) {
  const message = "s.id AS sessionId, m.id, m.status, m.details, m.content";
  return {
    floor: db.prepare<FloorRecord & { alarm: number | null }>(
      "SELECT version, head, alarm, snapshot, format FROM floors WHERE id = ?",
    ),
    version: db.prepare<{ version: number }>("SELECT version FROM floors WHERE id = ?"),
    session: db.prepare<LoadedRow>("SELECT view, memory, head FROM sessions WHERE id = ?"),
    drafts: db.prepare<DraftRow>(`
      SELECT ${message}, m.message_key AS key
      FROM floors f JOIN messages m ON m.floor_key = f.floor_key JOIN sessions s USING (session_key)
      WHERE f.id = ? AND m.status = 'running' AND m.message_key > ? ORDER BY m.message_key`),
    message: db.prepare<MessageRow>(
      `SELECT ${message} FROM sessions s JOIN messages m USING (session_key) WHERE s.id = ? AND m.id = ?`,
    ),
    definitionsVersion: db.prepare<{ version: number }>("SELECT definitions_version AS version FROM meta WHERE id = 1"),
    definitions: db.prepare<DefinitionRow>("SELECT id, version, body FROM agent_definitions WHERE id > ? ORDER BY id"),
    receipt: db.prepare<Receipt>(
      withColumns(`
      SELECT f.id AS floorId, {{receipts: r.$name AS $field}}
      FROM receipts r JOIN floors f USING (floor_key) WHERE r.caller = ? AND r.command_id = ?`),
    ),
    newestReceipts: db.prepare<NewReceipt>(`
      SELECT caller, commandId, floorId, at, reply FROM (
        SELECT caller, command_id AS commandId, floors.id AS floorId, at, reply
        FROM receipts JOIN floors USING (floor_key) ORDER BY receipt_key DESC LIMIT ?2) WHERE at >= ?1`),
    dueEffects: db.prepare<EffectRow>(`
      SELECT e.id, f.id AS floorId, e.due_at AS dueAt, e.payload
      FROM effects e JOIN floors f USING (floor_key)
      WHERE e.due_at <= ?1 AND (e.due_at, e.id) > (?2, ?3)
        AND (?4 IS NULL OR e.floor_hash IN (SELECT value FROM json_each(?4)))
      ORDER BY e.due_at, e.id LIMIT ?5`),
    dueAlarms: db.prepare<{ id: FloorId; dueAt: number }>(`
      SELECT id, alarm AS dueAt FROM floors
      WHERE alarm <= ?1 AND (alarm, id) > (?2, ?3) AND (?4 IS NULL OR floor_hash IN (SELECT value FROM json_each(?4)))
      ORDER BY alarm, id LIMIT ?5`),
    lateRings: db.prepare<{ id: FloorId }>(
      "SELECT id FROM floors WHERE rings_at <= ?1 AND alarm > rings_at - ?2 + 5 ORDER BY rings_at LIMIT ?3",
    ),
    dueSessions: db.prepare<LoadedRow>(`
      SELECT s.view, s.memory, s.head, s.due_at AS dueAt FROM floors f JOIN sessions s USING (floor_key)
      WHERE f.id = ?1 AND s.due_at IS NOT NULL AND s.id NOT IN (SELECT value FROM json_each(?2))
      ORDER BY s.due_at, s.id LIMIT ?3`),
    jumps: db.prepare<Jumps>("SELECT jumped_ms AS jumpedMs, doubt_until AS doubtUntil FROM meta WHERE id = 1"),
    newestTime: db.prepare<{ at: number }>(`
      SELECT max(
        coalesce((SELECT max(last_activity_at) FROM sessions), 0),
        coalesce((SELECT at FROM receipts ORDER BY receipt_key DESC LIMIT 1), 0),
        coalesce((SELECT max(deleted_at) FROM tombstones), 0)) AS at`),
    connection: db.prepare<ConnectionSqlRow>(
      `SELECT id, version, expires_at AS expiresAt, binding FROM connections WHERE id = ?`,
    ),
    blob: db.prepare<Blob>(`
      SELECT hash, mime_type AS mimeType, bytes, created_at AS createdAt
      FROM blobs WHERE session_id = ? AND hash = ?`),
  };
}
