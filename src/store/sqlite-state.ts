import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Effect } from "../protocol/effect.ts";
import type { ConnectionId, FloorId, MessageId, SessionId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import {
  type ConnectionSqlRow,
  connectionOf,
  type EffectRow,
  effectOf,
  type MessageRow,
  messageOf,
  sessionOf,
  type ViewRow,
} from "./rows.ts";
import type { Blob, ConnectionRow, DueQuery, FloorRecord, Receipt, ReceiptKey, SessionRow } from "./store.ts";

/** Reads single rows: what hosts, workers and gateways go on from. Each method is one statement, and so one view. */
export class StateReader {
  readonly #floor: StatementSync;
  readonly #version: StatementSync;
  readonly #session: StatementSync;
  readonly #drafts: StatementSync;
  readonly #message: StatementSync;
  readonly #receipt: StatementSync;
  readonly #dueEffects: StatementSync;
  readonly #newestTime: StatementSync;
  readonly #connection: StatementSync;
  readonly #blob: StatementSync;

  constructor(db: DatabaseSync) {
    const message = "s.id AS sessionId, m.id, m.status, m.details, m.content";
    this.#floor = db.prepare("SELECT version, head, snapshot, format FROM floors WHERE id = ?");
    this.#version = db.prepare("SELECT version FROM floors WHERE id = ?");
    this.#session = db.prepare("SELECT view, memory, head FROM sessions WHERE id = ?");
    this.#drafts = db.prepare(`
      SELECT ${message} FROM floors f JOIN messages m ON m.floor_key = f.floor_key JOIN sessions s USING (session_key)
      WHERE f.id = ? AND m.status = 'running' ORDER BY m.message_key`);
    this.#message = db.prepare(`
      SELECT ${message} FROM sessions s JOIN messages m USING (session_key) WHERE s.id = ? AND m.id = ?`);
    this.#receipt = db.prepare(`
      SELECT r.caller, r.command_id AS commandId, f.id AS floorId, r.body_hash AS bodyHash, r.reply, r.at
      FROM receipts r JOIN floors f USING (floor_key) WHERE r.caller = ? AND r.command_id = ?`);
    this.#dueEffects = db.prepare(`
      SELECT e.id, f.id AS floorId, e.kind, e.due_at AS dueAt, e.payload
      FROM effects e JOIN floors f USING (floor_key)
      WHERE e.due_at <= ?1 AND (e.due_at, e.id) > (?2, ?3)
        AND (?4 IS NULL OR e.partition IN (SELECT value FROM json_each(?4)))
      ORDER BY e.due_at, e.id LIMIT ?5`);
    this.#newestTime = db.prepare(`
      SELECT max(
        coalesce((SELECT max(last_activity_at) FROM sessions), 0),
        coalesce((SELECT at FROM receipts ORDER BY receipt_key DESC LIMIT 1), 0),
        coalesce((SELECT max(deleted_at) FROM tombstones), 0)) AS at`);
    this.#connection = db.prepare(`
      SELECT id, version, expires_at AS expiresAt, binding FROM connections WHERE id = ?`);
    this.#blob = db.prepare(`
      SELECT hash, mime_type AS mimeType, bytes, created_at AS createdAt
      FROM blobs WHERE session_id = ? AND hash = ?`);
  }

  loadFloor(id: FloorId): FloorRecord | undefined {
    const row = this.#floor.get(id);
    return row && ({ ...row } as unknown as FloorRecord);
  }

  confirm(id: FloorId, version: number): boolean {
    const row = this.#version.get(id) as { version: number } | undefined;
    return (row?.version ?? 0) === version;
  }

  loadSession(id: SessionId): SessionRow | undefined {
    const row = this.#session.get(id) as (ViewRow & { memory: string; head: number }) | undefined;
    return row && { session: sessionOf(row), memory: row.memory, head: row.head };
  }

  loadDrafts(id: FloorId): Message[] {
    return (this.#drafts.all(id) as unknown as MessageRow[]).map(messageOf);
  }

  findMessage(sessionId: SessionId, id: MessageId): Message | undefined {
    const row = this.#message.get(sessionId, id) as MessageRow | undefined;
    return row && messageOf(row);
  }

  findReceipt({ caller, commandId }: ReceiptKey): Receipt | undefined {
    const row = this.#receipt.get(caller, commandId);
    return row && ({ ...row } as unknown as Receipt);
  }

  dueEffects({ until, after, partitions, limit }: DueQuery): Effect[] {
    const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
    const shares = partitions ? JSON.stringify(partitions) : null;
    return (this.#dueEffects.all(until, dueAt, id, shares, limit) as unknown as EffectRow[]).map(effectOf);
  }

  newestTime(): number {
    return (this.#newestTime.get() as { at: number }).at;
  }

  loadConnection(id: ConnectionId): ConnectionRow | undefined {
    const row = this.#connection.get(id) as ConnectionSqlRow | undefined;
    return row && connectionOf(row);
  }

  getBlob(sessionId: SessionId, hash: string): Blob | undefined {
    const row = this.#blob.get(sessionId, hash);
    return row && ({ ...row } as unknown as Blob);
  }
}
