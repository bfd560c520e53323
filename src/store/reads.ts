import type { ConnectionId, FloorId, FloorSeq, MessageId, SessionId } from "../protocol/ids.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import type { Message } from "../protocol/message.ts";
import { floorList, sessionList, usageList } from "./lists.ts";
import { readPage, weightOfFloor } from "./row-page.ts";
import {
  type ConnectionSqlRow,
  connectionOf,
  type FloorListRow,
  floorOfRow,
  type LoadedRow,
  loadedSession,
  type MessageRow,
  messageOf,
  type RunRequestRow,
  runRequestOf,
  sessionOfRow,
  type ViewRow,
} from "./rows.ts";
import type { WordHits } from "./search-words.ts";
import type {
  Blob,
  BudgetWindow,
  ConnectionRow,
  DueQuery,
  FloorRecord,
  Jumps,
  SessionRow,
  StoredFloorPage,
  StoredFloorQuery,
  StoredSessionPage,
  StoredSessionQuery,
  StoredUsagePage,
  StoredUsageQuery,
  UsageCount,
} from "./store.ts";

/** A statement that every connection prepares once, under its name. Without a name it is planned for its values. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** Reads by one statement, and thus one snapshot. Its text is PostgreSQL's. */
export interface Reader {
  query<Row>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

const FLOOR = { name: "floor", text: "SELECT version, head, alarm, snapshot, format FROM floors WHERE id = $1" };
const SESSION = { name: "session", text: "SELECT view, memory, head FROM sessions WHERE id = $1" };
const SESSIONS = { name: "sessions", text: "SELECT view, memory, head FROM sessions WHERE id = ANY ($1)" };
const MESSAGE = {
  name: "message",
  text: `
    SELECT s.id AS "sessionId", m.id, m.status, m.details, m.content
    FROM sessions s JOIN messages m USING (session_key) WHERE s.id = $1 AND m.id = $2`,
};
const DUE_RUN_REQUESTS = {
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
const JUMPS = {
  name: "jumps",
  text: `SELECT jumped_ms AS "jumpedMs", doubt_until AS "doubtUntil" FROM meta WHERE id = 1`,
};
const DEFINITIONS_VERSION = {
  name: "definitions_version",
  text: "SELECT definitions_version AS version FROM meta WHERE id = 1",
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
const HEADS = { name: "heads", text: "SELECT id, head FROM floors WHERE id = ANY ($1)" };
const WINDOWS = {
  name: "budget_windows",
  text: `SELECT scope, used, ends_at AS "endsAt" FROM budgets WHERE scope = ANY ($1)`,
};

/** The reads that are the same in every store. @param wordHits what finds sessions by words */
export const commonReads = (db: Reader, wordHits: WordHits) => ({
  async loadFloor(id: FloorId): Promise<FloorRecord | undefined> {
    const [row] = await db.query<FloorRecord & { alarm: number | null }>(FLOOR, [id]);
    return row && { ...row, alarm: row.alarm ?? undefined };
  },

  async loadSession(id: SessionId): Promise<SessionRow | undefined> {
    const [row] = await db.query<LoadedRow>(SESSION, [id]);
    return row && loadedSession(row);
  },

  async loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]> {
    return (await db.query<LoadedRow>(SESSIONS, [ids])).map(loadedSession);
  },

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    const [row] = await db.query<MessageRow>(MESSAGE, [sessionId, id]);
    return row && messageOf(row);
  },

  async dueRunRequests(query: DueQuery): Promise<RunRequest[]> {
    return (await db.query<RunRequestRow>(DUE_RUN_REQUESTS, dueValues(query))).map(runRequestOf);
  },

  dueAlarms(query: DueQuery<FloorId>): Promise<{ id: FloorId; dueAt: number }[]> {
    return db.query(DUE_ALARMS, dueValues(query));
  },

  async loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> {
    return (await db.query<LoadedRow>(DUE_SESSIONS, [id, except, limit])).map(loadedSession);
  },

  async loadJumps(): Promise<Jumps> {
    return (await db.query<Jumps>(JUMPS))[0]!;
  },

  async definitionsVersion(): Promise<number> {
    return (await db.query<{ version: number }>(DEFINITIONS_VERSION))[0]!.version;
  },

  async loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined> {
    const [row] = await db.query<ConnectionSqlRow>(CONNECTION, [id]);
    return row && connectionOf(row);
  },

  async getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined> {
    const [row] = await db.query<Blob>(BLOB, [sessionId, hash]);
    return row && { ...row, bytes: new Uint8Array(row.bytes) };
  },

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    const rows = await db.query<{ id: FloorId; head: FloorSeq }>(HEADS, [ids]);
    return new Map(rows.map(({ id, head }) => [id, head]));
  },

  async listFloors(query: StoredFloorQuery): Promise<StoredFloorPage> {
    const list = floorList(query);
    const { page, hasMore } = readPage(await db.query<FloorListRow>(list, list.values), query.limit, weightOfFloor);
    return { floors: page.map(floorOfRow), hasMore };
  },

  async listSessions(query: StoredSessionQuery): Promise<StoredSessionPage> {
    const list = sessionList(query, wordHits);
    const rows = await db.query<{ total: number; view: string | null }>(list, list.values);
    const found = rows.filter((row): row is { total: number } & ViewRow => row.view !== null);
    return { sessions: found.map(sessionOfRow), total: rows[0]!.total };
  },

  findWindows(scopes: readonly string[]): Promise<BudgetWindow[]> {
    return db.query(WINDOWS, [scopes]);
  },

  async listUsage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const list = usageList(query);
    const rows = await db.query<UsageCount>(list, list.values);
    return { usage: rows.slice(0, query.limit), hasMore: rows.length > query.limit };
  },
});

function dueValues({ until, after, floorHashes, limit }: DueQuery<string>): unknown[] {
  const { dueAt, id } = after ?? { dueAt: Number.MIN_SAFE_INTEGER, id: "" };
  return [until, dueAt, id, floorHashes ?? null, limit];
}
