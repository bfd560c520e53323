import type { DatabaseSync } from "node:sqlite";
import type { AgentId, ConnectionId, FloorId, MessageId, SessionId } from "../../protocol/ids.ts";
import type { RunEffect } from "../../protocol/internal/effect.ts";
import type { Message } from "../../protocol/message.ts";
import { ANSWER_BYTES, readPage, rowsWithin, weightOfBody, weightOfMessage } from "../row-page.ts";
import {
  type ConnectionSqlRow,
  connectionOf,
  type DraftRow,
  draftPageOf,
  type EffectRow,
  effectOf,
  type MessageRow,
  messageOf,
  sessionOfRow,
  type ViewRow,
} from "../rows.ts";
import type {
  Blob,
  ConnectionRow,
  DefinitionRow,
  DraftPage,
  DueQuery,
  FloorRecord,
  Jumps,
  Receipt,
  ReceiptKey,
  SessionRow,
} from "../store.ts";
import { prepareQuery, type Query } from "./query.ts";

/**
 * Reads the rows that hosts, workers and gateways continue from. Each method is one statement, and thus one snapshot.
 */
export class StateReader {
  readonly #floor: Query<FloorRecord & { alarm: number | null }>;
  readonly #version: Query<{ version: number }>;
  readonly #session: Query<ViewRow & { memory: string; head: number }>;
  readonly #drafts: Query<DraftRow>;
  readonly #message: Query<MessageRow>;
  readonly #receipt: Query<Receipt>;
  readonly #dueEffects: Query<EffectRow>;
  readonly #newestTime: Query<{ at: number }>;
  readonly #dueAlarms: Query<{ id: FloorId; dueAt: number }>;
  readonly #dueSessions: Query<ViewRow & { memory: string; head: number; dueAt: number }>;
  readonly #jumps: Query<Jumps>;
  readonly #definitionsVersion: Query<{ version: number }>;
  readonly #definitions: Query<DefinitionRow>;
  readonly #connection: Query<ConnectionSqlRow>;
  readonly #blob: Query<Blob>;
  readonly #onRead: (bytes: number) => void;

  /** @param onRead called with the size of each row of a page that is read, in bytes */
  constructor(db: DatabaseSync, onRead: (bytes: number) => void) {
    this.#onRead = onRead;
    const message = "s.id AS sessionId, m.id, m.status, m.details, m.content";
    this.#floor = prepareQuery(db, "SELECT version, head, alarm, snapshot, format FROM floors WHERE id = ?");
    this.#version = prepareQuery(db, "SELECT version FROM floors WHERE id = ?");
    this.#session = prepareQuery(db, "SELECT view, memory, head FROM sessions WHERE id = ?");
    this.#drafts = prepareQuery(
      db,
      `
      SELECT ${message}, m.message_key AS key
      FROM floors f JOIN messages m ON m.floor_key = f.floor_key JOIN sessions s USING (session_key)
      WHERE f.id = ? AND m.status = 'running' AND m.message_key > ? ORDER BY m.message_key`,
    );
    this.#message = prepareQuery(
      db,
      `
      SELECT ${message} FROM sessions s JOIN messages m USING (session_key) WHERE s.id = ? AND m.id = ?`,
    );
    this.#definitionsVersion = prepareQuery(db, "SELECT definitions_version AS version FROM meta WHERE id = 1");
    this.#definitions = prepareQuery(db, "SELECT id, version, body FROM agent_definitions WHERE id > ? ORDER BY id");
    this.#receipt = prepareQuery(
      db,
      `
      SELECT r.caller, r.command_id AS commandId, f.id AS floorId, r.body_hash AS bodyHash, r.reply, r.at
      FROM receipts r JOIN floors f USING (floor_key) WHERE r.caller = ? AND r.command_id = ?`,
    );
    this.#dueEffects = prepareQuery(
      db,
      `
      SELECT e.id, f.id AS floorId, e.due_at AS dueAt, e.payload
      FROM effects e JOIN floors f USING (floor_key)
      WHERE e.due_at <= ?1 AND (e.due_at, e.id) > (?2, ?3)
        AND (?4 IS NULL OR e.partition IN (SELECT value FROM json_each(?4)))
      ORDER BY e.due_at, e.id LIMIT ?5`,
    );
    this.#dueAlarms = prepareQuery(
      db,
      `
      SELECT id, alarm AS dueAt FROM floors
      WHERE alarm <= ?1 AND (alarm, id) > (?2, ?3) AND (?4 IS NULL OR partition IN (SELECT value FROM json_each(?4)))
      ORDER BY alarm, id LIMIT ?5`,
    );
    this.#dueSessions = prepareQuery(
      db,
      `
      SELECT s.view, s.memory, s.head, s.due_at AS dueAt FROM floors f JOIN sessions s USING (floor_key)
      WHERE f.id = ?1 AND s.due_at IS NOT NULL AND s.id NOT IN (SELECT value FROM json_each(?2))
      ORDER BY s.due_at, s.id LIMIT ?3`,
    );
    this.#jumps = prepareQuery(db, "SELECT jumped_ms AS jumpedMs, doubt_until AS doubtUntil FROM meta WHERE id = 1");
    this.#newestTime = prepareQuery(
      db,
      `
      SELECT max(
        coalesce((SELECT max(last_activity_at) FROM sessions), 0),
        coalesce((SELECT at FROM receipts ORDER BY receipt_key DESC LIMIT 1), 0),
        coalesce((SELECT max(deleted_at) FROM tombstones), 0)) AS at`,
    );
    this.#connection = prepareQuery(
      db,
      `
      SELECT id, version, expires_at AS expiresAt, binding FROM connections WHERE id = ?`,
    );
    this.#blob = prepareQuery(
      db,
      `
      SELECT hash, mime_type AS mimeType, bytes, created_at AS createdAt
      FROM blobs WHERE session_id = ? AND hash = ?`,
    );
  }

  loadFloor(id: FloorId): FloorRecord | undefined {
    const row = this.#floor.get(id);
    return row && { ...row, alarm: row.alarm ?? undefined };
  }

  confirm(id: FloorId, version: number): boolean {
    const row = this.#version.get(id);
    return (row?.version ?? 0) === version;
  }

  loadSession(id: SessionId): SessionRow | undefined {
    const row = this.#session.get(id);
    return row && { session: sessionOfRow(row), memory: row.memory, head: row.head };
  }

  loadDrafts(id: FloorId, after: number): DraftPage {
    const { page, hasMore } = readPage(this.#drafts.iterate(id, after), Number.POSITIVE_INFINITY, (row) => {
      const bytes = weightOfMessage(row);
      this.#onRead(bytes);
      return bytes;
    });
    return draftPageOf(page, hasMore);
  }

  findMessage(sessionId: SessionId, id: MessageId): Message | undefined {
    const row = this.#message.get(sessionId, id);
    return row && messageOf(row);
  }

  findReceipt({ caller, commandId }: ReceiptKey): Receipt | undefined {
    const row = this.#receipt.get(caller, commandId);
    return row && { ...row };
  }

  dueEffects({ until, after, floorHashes, limit }: DueQuery): RunEffect[] {
    const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
    const hashes = floorHashes ? JSON.stringify(floorHashes) : null;
    return this.#dueEffects.all(until, dueAt, id, hashes, limit).map(effectOf);
  }

  dueAlarms({ until, after, floorHashes, limit }: DueQuery<FloorId>): { id: FloorId; dueAt: number }[] {
    const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
    const hashes = floorHashes ? JSON.stringify(floorHashes) : null;
    return this.#dueAlarms.all(until, dueAt, id, hashes, limit).map((row) => ({ ...row }));
  }

  loadDue(id: FloorId, except: readonly SessionId[], limit: number): SessionRow[] {
    return this.#dueSessions
      .all(id, JSON.stringify(except), limit)
      .map((row) => ({ session: sessionOfRow(row), memory: row.memory, head: row.head, dueAt: row.dueAt }));
  }

  loadJumps(): Jumps {
    return { ...this.#jumps.get()! };
  }

  newestTime(): number {
    return this.#newestTime.get()!.at;
  }

  definitionsVersion(): number {
    return this.#definitionsVersion.get()!.version;
  }

  listDefinitions(after: AgentId | undefined): DefinitionRow[] {
    const weightOf = (row: DefinitionRow) => {
      const weight = weightOfBody(row);
      this.#onRead(weight);
      return weight;
    };
    return rowsWithin(this.#definitions.iterate(after ?? ""), ANSWER_BYTES, weightOf).map((row) => ({ ...row }));
  }

  loadConnection(id: ConnectionId): ConnectionRow | undefined {
    const row = this.#connection.get(id);
    return row && connectionOf(row);
  }

  getBlob(sessionId: SessionId, hash: string): Blob | undefined {
    const row = this.#blob.get(sessionId, hash);
    return row && { ...row };
  }
}
