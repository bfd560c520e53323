import type { DatabaseSync } from "node:sqlite";
import type { Decision } from "../../protocol/decision.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Reservation } from "../../protocol/floor.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../../protocol/ids.ts";
import type { LogLine } from "../../protocol/message.ts";
import {
  ANSWER_BYTES,
  LOG_BYTES,
  readPage,
  rowsWithin,
  weightOfEvent,
  weightOfLine,
  weightOfMessage,
  weightOfView,
} from "../row-page.ts";
import { type MessageRow, messageOf, sessionOfRow, type ViewRow } from "../rows.ts";
import type {
  LogSlice,
  MessageRange,
  StoredFloorView,
  StoredLogPage,
  StoredMessagePage,
  StoredSessionView,
  Whereabouts,
} from "../store.ts";
import { type SqliteEventRow, type StoredEventText, wholeEntryOf, wholeJson } from "./event-text.ts";
import { isInBlock } from "./log-block.ts";
import { prepareQuery, type Query } from "./query.ts";

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
  reserved: string | null;
}

interface AddressRow {
  floorId: FloorId;
  ownerId: string | null;
}

/** The largest `floorSeq` that fits into an event's key. */
const MAX_FLOOR_SEQ = 0xffffffff;

const MESSAGE = "m.message_key AS key, m.id, m.status, m.details, m.content FROM messages m WHERE m.session_key = ?";
const EVENT_FIELDS = `
  e.seq, e.type, e.request_id AS requestId, e.at, coalesce(e.json, b.json) AS json, e.text_at AS textAt, m.content AS text`;
const EVENT_TABLES = `
  events e LEFT JOIN event_blobs b ON b.event_key = e.event_key LEFT JOIN messages m ON m.message_key = e.message_key`;
const EVENT = `${EVENT_FIELDS} FROM ${EVENT_TABLES}`;
const FLOOR_SEQ = "e.event_key & 0xffffffff AS floorSeq";
const LAST_EVENT = `
  floor_seq AS floorSeq, session_id AS sessionId, seq, type, request_id AS requestId, at, json, NULL AS textAt,
  NULL AS text`;

/**
 * Reads for answers and streams. Call each method inside one read transaction. Rows are read one by one and no further
 * than the page needs, so that a page exceeds its limit by one row at most.
 */
export class ViewReader {
  readonly #session: Query<SessionHead>;
  readonly #floor: Query<FloorHead>;
  readonly #whereabouts: Query<AddressRow>;
  readonly #tombstone: Query<AddressRow & SqliteEventRow>;
  readonly #holder: Query<ViewRow>;
  readonly #ducked: Query<ViewRow>;
  readonly #paused: Query<ViewRow>;
  readonly #queued: Query<ViewRow>;
  readonly #decisions: Query<StoredEventText>;
  readonly #messageKey: Query<{ key: number }>;
  readonly #messagesAfter: Query<MessageRow>;
  readonly #messagesBefore: Query<MessageRow>;
  readonly #anyMessage: Query<object>;
  readonly #logKey: Query<{ key: number }>;
  readonly #logs: Query<LogLine>;
  readonly #sessionEvents: Query<SqliteEventRow>;
  readonly #floorEvents: Query<SqliteEventRow>;
  readonly #lastEvents: Query<SqliteEventRow>;
  readonly #floorEventsBack: Query<SqliteEventRow>;
  readonly #lastEventsBack: Query<SqliteEventRow>;
  readonly #heads: Query<{ id: FloorId; head: FloorSeq }>;
  readonly #onRead: (bytes: number) => void;

  /** @param onRead called with the size of each row that is read, in bytes */
  constructor(db: DatabaseSync, onRead: (bytes: number) => void) {
    this.#onRead = onRead;
    this.#session = prepareQuery(
      db,
      "SELECT session_key AS key, head, low_water AS lowWater, view FROM sessions WHERE id = ?",
    );
    this.#floor = prepareQuery(
      db,
      "SELECT floor_key AS key, head, low_water AS lowWater, flags, reserved FROM floors WHERE id = ?",
    );
    this.#whereabouts = prepareQuery(
      db,
      `
      SELECT f.id AS floorId, s.owner_id AS ownerId FROM sessions s JOIN floors f USING (floor_key) WHERE s.id = ?`,
    );
    this.#tombstone = prepareQuery(
      db,
      `
      SELECT f.id AS floorId, t.owner_id AS ownerId, ${LAST_EVENT}
      FROM tombstones t JOIN floors f USING (floor_key) WHERE t.session_id = ?`,
    );
    this.#holder = prepareQuery(db, "SELECT view FROM sessions WHERE floor_key = ? AND standing = 0");
    this.#ducked = prepareQuery(
      db,
      `
      SELECT view FROM sessions WHERE floor_key = ? AND standing < 0
      ORDER BY json_extract(view, '$.priority') DESC, session_key LIMIT ?`,
    );
    this.#paused = prepareQuery(
      db,
      `
      SELECT view FROM sessions WHERE floor_key = ? AND standing > 0 ORDER BY standing DESC LIMIT ?`,
    );
    this.#queued = prepareQuery(
      db,
      `
      SELECT view FROM sessions WHERE floor_key = ? AND queued_at IS NOT NULL ORDER BY queued_at LIMIT ?`,
    );
    this.#decisions = prepareQuery(
      db,
      `
      SELECT ${EVENT_FIELDS} FROM decision_blocks d CROSS JOIN ${EVENT_TABLES}
      WHERE d.block BETWEEN ?1 << 27 AND ?1 << 27 | 0x7ffffff
        AND ${isInBlock("e.event_key", "d.block")} AND +e.type = 'arbitration'
      ORDER BY d.block DESC, e.event_key DESC LIMIT ?2`,
    );
    this.#messageKey = prepareQuery(db, "SELECT message_key AS key FROM messages WHERE session_key = ? AND id = ?");
    this.#messagesAfter = prepareQuery(
      db,
      `SELECT ${MESSAGE} AND m.message_key > ? AND m.message_key < ? ORDER BY m.message_key LIMIT ?`,
    );
    this.#messagesBefore = prepareQuery(
      db,
      `SELECT ${MESSAGE} AND m.message_key < ? ORDER BY m.message_key DESC LIMIT ?`,
    );
    this.#anyMessage = prepareQuery(db, "SELECT 1 FROM messages WHERE session_key = ? AND message_key < ? LIMIT 1");
    this.#logKey = prepareQuery(db, "SELECT log_key AS key FROM message_logs WHERE message_key = ? AND id = ?");
    this.#logs = prepareQuery(
      db,
      `
      SELECT id, stream, text, at AS timestamp FROM message_logs
      WHERE message_key = ? AND log_key > ? ORDER BY log_key LIMIT ?`,
    );
    this.#sessionEvents = prepareQuery(
      db,
      `
      SELECT ${FLOOR_SEQ}, NULL AS sessionId, ${EVENT_FIELDS} FROM session_blocks s CROSS JOIN ${EVENT_TABLES}
      WHERE s.session_key = ?1
        AND s.seq >= coalesce((SELECT max(seq) FROM session_blocks WHERE session_key = ?1 AND seq <= ?2 + 1), 0)
        AND ${isInBlock("e.event_key", "s.block")} AND +e.session_key = ?1 AND e.seq > ?2
      ORDER BY s.seq, e.event_key LIMIT ?3`,
    );
    this.#floorEvents = prepareQuery(
      db,
      `
      SELECT ${FLOOR_SEQ}, s.id AS sessionId, ${EVENT} LEFT JOIN sessions s ON s.session_key = e.session_key
      WHERE e.event_key > ?1 << 32 | ?2 AND e.event_key <= ?1 << 32 | 0xffffffff ORDER BY e.event_key LIMIT ?3`,
    );
    this.#lastEvents = prepareQuery(
      db,
      `
      SELECT ${LAST_EVENT} FROM tombstones WHERE floor_key = ? AND floor_seq > ? ORDER BY floor_seq LIMIT ?`,
    );
    this.#floorEventsBack = prepareQuery(
      db,
      `
      SELECT ${FLOOR_SEQ}, s.id AS sessionId, ${EVENT} LEFT JOIN sessions s ON s.session_key = e.session_key
      WHERE e.event_key > ?1 << 32 AND e.event_key < ?1 << 32 | ?2 ORDER BY e.event_key DESC LIMIT ?3`,
    );
    this.#lastEventsBack = prepareQuery(
      db,
      `
      SELECT ${LAST_EVENT} FROM tombstones WHERE floor_key = ? AND floor_seq < ? ORDER BY floor_seq DESC LIMIT ?`,
    );
    this.#heads = prepareQuery(db, "SELECT id, head FROM floors WHERE id IN (SELECT value FROM json_each(?))");
  }

  whereIs(id: SessionId): Whereabouts | undefined {
    const there = this.#whereabouts.get(id);
    if (there) return { floorId: there.floorId, ...(there.ownerId !== null && { ownerId: there.ownerId }) };
    const gone = this.#tombstone.get(id);
    if (!gone) return undefined;
    const { floorId, ownerId, ...last } = gone;
    return { floorId, ...(ownerId !== null && { ownerId }), tombstone: { head: last.seq!, last: wholeEntryOf(last) } };
  }

  viewSession(id: SessionId, messages: number): StoredSessionView | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    return { session: sessionOfRow(session), head: session.head, ...this.#newest(session, id, messages) };
  }

  viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): StoredFloorView {
    const floor = this.#findFloor(id);
    if (!floor) return { head: 0, flags: {}, ducked: [], paused: [], queued: [], decisions: [] };
    const holder = this.#holder.get(floor.key);
    const sessions = (rows: Iterable<ViewRow>) =>
      rowsWithin(rows, ANSWER_BYTES, this.#weighing(weightOfView)).map(sessionOfRow);
    const latest = this.#decisions.iterate(floor.key, limits.decisions);
    const decisions = rowsWithin(latest, ANSWER_BYTES, this.#weighing(weightOfEvent));
    return {
      head: floor.head,
      flags: JSON.parse(floor.flags),
      ...(floor.reserved !== null && { reserved: JSON.parse(floor.reserved) as Reservation }),
      ...(holder && { holder: sessionOfRow(holder) }),
      ducked: sessions(this.#ducked.iterate(floor.key, limits.sessions)),
      paused: sessions(this.#paused.iterate(floor.key, limits.sessions)),
      queued: sessions(this.#queued.iterate(floor.key, limits.sessions)),
      decisions: decisions.reverse().map((row) => JSON.parse(wholeJson(row)) as Decision),
    };
  }

  /** @throws AppError `not_found` for an unknown `after` or `before` */
  listMessages(id: SessionId, { after, before, fromStart, limit }: MessageRange): StoredMessagePage | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    const { head } = session;
    if (after === undefined && !fromStart) return { head, ...this.#newest(session, id, limit, before) };
    const from = after === undefined ? 0 : this.#keyOf(session, after);
    // The range between `after` and `before`, if both are given.
    const to = before === undefined ? Number.MAX_SAFE_INTEGER : this.#keyOf(session, before);
    const rows = this.#messagesAfter.iterate(session.key, from, to, limit + 1);
    return { head, ...this.#pageOf(rows, id, limit) };
  }

  /** @throws AppError `not_found` for an unknown message or line, `session_not_found` */
  listLogs(id: SessionId, messageId: MessageId, { after, limit }: { after?: string; limit: number }): StoredLogPage {
    const session = this.#findSession(id);
    if (!session) throw new AppError("session_not_found");
    const messageKey = this.#keyOf(session, messageId);
    const from = after === undefined ? { key: 0 } : this.#logKey.get(messageKey, after);
    if (!from) throw new AppError("not_found", `There is no line ${after} in this log.`);
    const rows = this.#logs.iterate(messageKey, from.key, limit + 1);
    const { page, hasMore } = readPage(rows, limit, this.#weighing(weightOfLine));
    return { logs: page.map((row) => ({ ...row })), hasMore };
  }

  readSessionLog(id: SessionId, after: Seq, limit: number): LogSlice | undefined {
    const session = this.#findSession(id);
    if (!session) return undefined;
    const { key, head, lowWater } = session;
    const rows = this.#sessionEvents.iterate(key, after, limit);
    const page = rowsWithin(rows, LOG_BYTES, this.#weighing(weightOfEvent));
    return { entries: page.map((row) => wholeEntryOf({ ...row, sessionId: id })), head, lowWater };
  }

  readFloorLog(id: FloorId, after: FloorSeq, limit: number): LogSlice {
    const floor = this.#findFloor(id);
    if (!floor) return { entries: [], head: 0, lowWater: 0 };
    const { key, head, lowWater } = floor;
    const rows = this.#floorEvents.iterate(key, after, limit);
    // The last event of a deleted session stays in the floor's log, although its row was deleted with the session.
    const last = this.#lastEvents.all(key, after, limit);
    const merged = limited(limit, merge(rows, last));
    const page = rowsWithin(merged, LOG_BYTES, this.#weighing(weightOfEvent));
    return { entries: page.map(wholeEntryOf), head, lowWater };
  }

  readFloorLogBack(id: FloorId, before: FloorSeq | undefined, limit: number): LogSlice {
    const floor = this.#findFloor(id);
    if (!floor) return { entries: [], head: 0, lowWater: 0 };
    const { key, head, lowWater } = floor;
    const to = Math.min(before ?? MAX_FLOOR_SEQ, MAX_FLOOR_SEQ);
    const rows = this.#floorEventsBack.iterate(key, to, limit);
    const last = this.#lastEventsBack.all(key, to, limit);
    const merged = limited(limit, merge(rows, last, -1));
    const page = rowsWithin(merged, LOG_BYTES, this.#weighing(weightOfEvent));
    return { entries: page.map(wholeEntryOf), head, lowWater };
  }

  heads(ids: readonly FloorId[]): Map<FloorId, FloorSeq> {
    const rows = this.#heads.all(JSON.stringify(ids));
    return new Map(rows.map(({ id, head }) => [id, head]));
  }

  /** The newest messages, or the newest before a given one, oldest first. */
  #newest(session: SessionHead, sessionId: SessionId, limit: number, before?: MessageId) {
    const to = before === undefined ? Number.MAX_SAFE_INTEGER : this.#keyOf(session, before);
    // With a limit of 0, read no message: the newest may be large.
    if (limit === 0) return { messages: [], hasMore: this.#anyMessage.get(session.key, to) !== undefined };
    const rows = this.#messagesBefore.iterate(session.key, to, limit + 1);
    const { messages, hasMore } = this.#pageOf(rows, sessionId, limit);
    return { messages: messages.reverse(), hasMore };
  }

  #pageOf(rows: Iterable<MessageRow>, sessionId: SessionId, limit: number) {
    const { page, hasMore } = readPage(rows, limit, this.#weighing(weightOfMessage));
    return { messages: page.map((row) => messageOf({ ...row, sessionId })), hasMore };
  }

  #weighing<Row>(weightOf: (row: Row) => number): (row: Row) => number {
    return (row) => {
      const weight = weightOf(row);
      this.#onRead(weight);
      return weight;
    };
  }

  #keyOf(session: SessionHead, id: MessageId): number {
    const row = this.#messageKey.get(session.key, id);
    if (!row) throw new AppError("not_found", `There is no message ${id} in this session.`);
    return row.key;
  }

  #findSession(id: SessionId): SessionHead | undefined {
    return this.#session.get(id);
  }

  #findFloor(id: FloorId): FloorHead | undefined {
    return this.#floor.get(id);
  }
}

/**
 * Merge two sources in the floor's order.
 * @param direction 1 if both are oldest first, -1 if both are newest first
 */
function* merge(
  rows: Iterable<SqliteEventRow>,
  others: readonly SqliteEventRow[],
  direction: 1 | -1 = 1,
): Generator<SqliteEventRow> {
  let next = 0;
  for (const row of rows) {
    while (next < others.length && (others[next]!.floorSeq - row.floorSeq) * direction < 0) yield others[next++]!;
    yield row;
  }
  yield* others.slice(next);
}

function* limited<T>(limit: number, rows: Iterable<T>): Generator<T> {
  let count = 0;
  for (const row of rows) {
    yield row;
    if (++count === limit) return;
  }
}
