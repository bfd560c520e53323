import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../protocol/ids.ts";
import type { LogLine } from "../protocol/message.ts";
import { type MessageRow, messageOf, sessionOf, type ViewRow } from "./rows.ts";
import { type EventText, type SqliteEventRow, wholeEntryOf, wholeJson } from "./sqlite-rows.ts";
import type { FloorView, LogPage, LogSlice, MessagePage, MessageRange, SessionView, Whereabouts } from "./store.ts";

interface SessionHead extends ViewRow {
  key: number;
  head: number;
  lowWater: number;
}

interface FloorHead {
  key: number;
  head: number;
  lowWater: number;
  flags: string;
}

const MESSAGE = "m.message_key AS key, m.id, m.status, m.details, m.content FROM messages m WHERE m.session_key = ?";
const EVENT = `
  e.seq, e.type, e.request_id AS requestId, e.at, coalesce(e.json, b.json) AS json, e.text_at AS textAt, m.content AS text
  FROM events e LEFT JOIN event_blobs b USING (event_key) LEFT JOIN messages m USING (message_key)`;
const FLOOR_SEQ = "e.event_key & 0xffffffff AS floorSeq";
const LAST_EVENT = `
  floor_seq AS floorSeq, session_id AS sessionId, seq, type, request_id AS requestId, at, json, NULL AS textAt,
  NULL AS text`;

/** Reads what answers and streams show. Each method is to be called inside one read transaction. */
export class ViewReader {
  readonly #session: StatementSync;
  readonly #floor: StatementSync;
  readonly #whereabouts: StatementSync;
  readonly #tombstone: StatementSync;
  readonly #holder: StatementSync;
  readonly #paused: StatementSync;
  readonly #queued: StatementSync;
  readonly #decisions: StatementSync;
  readonly #messageKey: StatementSync;
  readonly #messagesAfter: StatementSync;
  readonly #messagesBefore: StatementSync;
  readonly #logKey: StatementSync;
  readonly #logs: StatementSync;
  readonly #sessionEvents: StatementSync;
  readonly #floorEvents: StatementSync;
  readonly #lastEvents: StatementSync;
  readonly #heads: StatementSync;

  constructor(db: DatabaseSync) {
    this.#session = db.prepare(
      "SELECT session_key AS key, head, low_water AS lowWater, view FROM sessions WHERE id = ?",
    );
    this.#floor = db.prepare("SELECT floor_key AS key, head, low_water AS lowWater, flags FROM floors WHERE id = ?");
    this.#whereabouts = db.prepare(`
      SELECT f.id AS floorId, s.owner_id AS ownerId FROM sessions s JOIN floors f USING (floor_key) WHERE s.id = ?`);
    this.#tombstone = db.prepare(`
      SELECT f.id AS floorId, t.owner_id AS ownerId, ${LAST_EVENT}
      FROM tombstones t JOIN floors f USING (floor_key) WHERE t.session_id = ?`);
    this.#holder = db.prepare("SELECT view FROM sessions WHERE floor_key = ? AND standing = 0");
    this.#paused = db.prepare(`
      SELECT view FROM sessions WHERE floor_key = ? AND standing > 0 ORDER BY standing DESC LIMIT ?`);
    this.#queued = db.prepare(`
      SELECT view FROM sessions WHERE floor_key = ? AND queued_at IS NOT NULL ORDER BY queued_at LIMIT ?`);
    this.#decisions = db.prepare(`
      SELECT ${EVENT} WHERE e.event_key BETWEEN ?1 << 32 AND ?1 << 32 | 0xffffffff AND e.type = 'arbitration'
      ORDER BY e.event_key DESC LIMIT ?2`);
    this.#messageKey = db.prepare("SELECT message_key AS key FROM messages WHERE session_key = ? AND id = ?");
    this.#messagesAfter = db.prepare(`SELECT ${MESSAGE} AND m.message_key > ? ORDER BY m.message_key LIMIT ?`);
    this.#messagesBefore = db.prepare(`SELECT ${MESSAGE} AND m.message_key < ? ORDER BY m.message_key DESC LIMIT ?`);
    this.#logKey = db.prepare("SELECT log_key AS key FROM message_logs WHERE message_key = ? AND id = ?");
    this.#logs = db.prepare(`
      SELECT id, stream, text, at AS timestamp FROM message_logs
      WHERE message_key = ? AND log_key > ? ORDER BY log_key LIMIT ?`);
    this.#sessionEvents = db.prepare(`
      SELECT ${FLOOR_SEQ}, NULL AS sessionId, ${EVENT}
      WHERE e.session_key = ? AND e.seq > ? ORDER BY e.seq LIMIT ?`);
    this.#floorEvents = db.prepare(`
      SELECT ${FLOOR_SEQ}, s.id AS sessionId, ${EVENT} LEFT JOIN sessions s ON s.session_key = e.session_key
      WHERE e.event_key > ?1 << 32 | ?2 AND e.event_key <= ?1 << 32 | 0xffffffff ORDER BY e.event_key LIMIT ?3`);
    this.#lastEvents = db.prepare(`
      SELECT ${LAST_EVENT} FROM tombstones WHERE floor_key = ? AND floor_seq > ? ORDER BY floor_seq LIMIT ?`);
    this.#heads = db.prepare("SELECT id, head FROM floors WHERE id IN (SELECT value FROM json_each(?))");
  }

  whereIs(id: SessionId): Whereabouts | undefined {
    const there = this.#whereabouts.get(id) as { floorId: FloorId; ownerId: string | null } | undefined;
    if (there) return { floorId: there.floorId, ...(there.ownerId !== null && { ownerId: there.ownerId }) };
    const gone = this.#tombstone.get(id) as ({ floorId: FloorId; ownerId: string | null } & SqliteEventRow) | undefined;
    if (!gone) return undefined;
    const { floorId, ownerId, ...last } = gone;
    return { floorId, ...(ownerId !== null && { ownerId }), tombstone: { head: last.seq!, last: wholeEntryOf(last) } };
  }

  viewSession(id: SessionId, messages: number): SessionView | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    return { session: sessionOf(session), head: session.head, ...this.#newest(session, id, messages) };
  }

  viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): FloorView {
    const floor = this.#findFloor(id);
    if (!floor) return { head: 0, flags: {}, paused: [], queued: [], decisions: [] };
    const holder = this.#holder.get(floor.key) as ViewRow | undefined;
    const decisions = this.#decisions.all(floor.key, limits.decisions) as unknown as EventText[];
    return {
      head: floor.head,
      flags: JSON.parse(floor.flags),
      ...(holder && { holder: sessionOf(holder) }),
      paused: (this.#paused.all(floor.key, limits.sessions) as unknown as ViewRow[]).map(sessionOf),
      queued: (this.#queued.all(floor.key, limits.sessions) as unknown as ViewRow[]).map(sessionOf),
      decisions: decisions.reverse().map((row) => JSON.parse(wholeJson(row)) as Decision),
    };
  }

  /** @throws AppError `not_found` when there is no message to start from */
  listMessages(id: SessionId, { after, before, limit }: MessageRange): MessagePage | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    const { head } = session;
    if (after === undefined) return { head, ...this.#newest(session, id, limit, before) };
    const from = this.#keyOf(session, after);
    const rows = this.#messagesAfter.all(session.key, from, limit + 1) as unknown as (MessageRow & { key: number })[];
    // Between `after` and `before`, if both are given.
    const to = before === undefined ? Number.POSITIVE_INFINITY : this.#keyOf(session, before);
    const within = rows.filter(({ key }) => key < to);
    const page = within.slice(0, limit);
    return { head, messages: page.map((row) => messageOf({ ...row, sessionId: id })), hasMore: within.length > limit };
  }

  /** @throws AppError `not_found` when there is no such session, message, or line to start from */
  listLogs(id: SessionId, messageId: MessageId, { after, limit }: { after?: string; limit: number }): LogPage {
    const session = this.#findSession(id);
    if (!session) throw new AppError("session_not_found");
    const messageKey = this.#keyOf(session, messageId);
    const from = after === undefined ? { key: 0 } : this.#logKey.get(messageKey, after);
    if (!from) throw new AppError("not_found", `There is no line ${after} in this log.`);
    const rows = this.#logs.all(messageKey, (from as { key: number }).key, limit + 1) as unknown as LogLine[];
    return { logs: rows.slice(0, limit).map((row) => ({ ...row })), hasMore: rows.length > limit };
  }

  readSessionLog(id: SessionId, after: Seq, limit: number): LogSlice | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    const { key, head, lowWater } = session;
    const rows = this.#sessionEvents.all(key, after, limit) as unknown as SqliteEventRow[];
    return { entries: rows.map((row) => wholeEntryOf({ ...row, sessionId: id })), head, lowWater };
  }

  readFloorLog(id: FloorId, after: FloorSeq, limit: number): LogSlice {
    const floor = this.#findFloor(id);
    if (!floor) return { entries: [], head: 0, lowWater: 0 };
    const { key, head, lowWater } = floor;
    const rows = this.#floorEvents.all(key, after, limit) as unknown as SqliteEventRow[];
    // The last event of a deleted session has its place in the floor's log, although its row went with the session.
    const last = this.#lastEvents.all(key, after, limit) as unknown as SqliteEventRow[];
    if (last.length > 0) {
      rows.push(...last);
      rows.sort((one, other) => one.floorSeq - other.floorSeq);
    }
    return { entries: rows.slice(0, limit).map(wholeEntryOf), head, lowWater };
  }

  heads(ids: readonly FloorId[]): Map<FloorId, FloorSeq> {
    const rows = this.#heads.all(JSON.stringify(ids)) as unknown as { id: FloorId; head: FloorSeq }[];
    return new Map(rows.map(({ id, head }) => [id, head]));
  }

  /** The newest messages, or the newest before one, oldest first. */
  #newest(session: SessionHead, sessionId: SessionId, limit: number, before?: MessageId) {
    const to = before === undefined ? Number.MAX_SAFE_INTEGER : this.#keyOf(session, before);
    const rows = this.#messagesBefore.all(session.key, to, limit + 1) as unknown as MessageRow[];
    const page = rows.slice(0, limit).reverse();
    return { messages: page.map((row) => messageOf({ ...row, sessionId })), hasMore: rows.length > limit };
  }

  #keyOf(session: SessionHead, id: MessageId): number {
    const row = this.#messageKey.get(session.key, id) as { key: number } | undefined;
    if (!row) throw new AppError("not_found", `There is no message ${id} in this session.`);
    return row.key;
  }

  #findSession(id: SessionId): SessionHead | undefined {
    return this.#session.get(id) as SessionHead | undefined;
  }

  #findFloor(id: FloorId): FloorHead | undefined {
    return this.#floor.get(id) as FloorHead | undefined;
  }
}
