import type { SQLInputValue } from "node:sqlite";
import type { Decision } from "../../protocol/decision.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Reservation } from "../../protocol/floor.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../../protocol/ids.ts";
import type { LogLine } from "../../protocol/message.ts";
import { withColumns } from "../columns.ts";
import { type RunListRow, runList, runListPage, weightOfRunRow } from "../lists.ts";
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
import { emptyLog, type MessageRow, messageOf, sessionOfRow, type ViewRow } from "../rows.ts";

import type {
  LogSlice,
  MessageRange,
  StoredFloorView,
  StoredLogPage,
  StoredMessagePage,
  StoredRunPage,
  StoredRunQuery,
  StoredSessionView,
  Whereabouts,
} from "../store.ts";
import { type SqliteEventRow, type StoredEventText, wholeEntryOf, wholeJson } from "./event-text.ts";
import type { Query } from "./query.ts";
import type { ReadConnection } from "./read-connection.ts";
import { isInBlock } from "./rows/log-blocks.ts";

interface LogHead {
  key: number;
  head: number;
  lowWater: number;
}

type SessionHead = LogHead & ViewRow;

interface FloorHead extends LogHead {
  flags: string;
  reserved: string | null;
}

interface AddressRow {
  floorId: FloorId;
  ownerId: string | null;
}

/** Oldest or newest first. */
type Order = "ASC" | "DESC";

/** The largest `floorSeq` that fits into an event's key. */
const MAX_FLOOR_SEQ = 0xffffffff;

const MESSAGE = "m.message_key AS key, m.id, m.status, m.details, m.content FROM messages m WHERE m.session_key = ?";
const EVENT_FIELDS = `
  e.seq, e.type, e.request_id AS requestId, e.at, coalesce(e.json, b.json) AS json, e.text_at AS textAt, m.content AS text`;
const EVENT_TABLES = `
  events e LEFT JOIN event_blobs b ON b.event_key = e.event_key LEFT JOIN messages m ON m.message_key = e.message_key`;
const EVENT = `${EVENT_FIELDS} FROM ${EVENT_TABLES}`;
const FLOOR_SEQ = "e.event_key & 0xffffffff AS floorSeq";
const LAST_EVENT = withColumns("session_id AS sessionId, {{events: $name AS $field}}, NULL AS textAt, NULL AS text");

/**
 * Reads for answers and streams. Rows are read one by one and no further than the page needs, so that a page exceeds
 * its limit by one row at most.
 */
export function viewReads(db: ReadConnection) {
  const sql = statementsOf(db);

  function logSlice(rows: Iterable<SqliteEventRow>, { head, lowWater }: LogHead): LogSlice {
    const page = rowsWithin(rows, LOG_BYTES, db.weighed(weightOfEvent));
    return { entries: page.map(wholeEntryOf), head, lowWater };
  }

  function floorLog(id: FloorId, order: Order, { after, to }: { after: number; to: number }, limit: number): LogSlice {
    const floor = sql.floor.get(id);
    if (!floor) return emptyLog();
    const values = [floor.key, after, to, limit];
    const { events, lastOfDeleted } = sql.floorLog[order];
    return logSlice(merge(events.iterate(...values), lastOfDeleted.all(...values), order).take(limit), floor);
  }

  /** The newest messages, or the newest before a given one, oldest first. */
  function newest(session: SessionHead, sessionId: SessionId, limit: number, before?: MessageId) {
    const to = before === undefined ? Number.MAX_SAFE_INTEGER : keyOf(session, before);
    // With a limit of 0, read no message: the newest may be large.
    if (limit === 0) return { messages: [], hasMore: sql.anyMessage.get(session.key, to) !== undefined };
    const { messages, hasMore } = pageOf(sql.messagesBefore.iterate(session.key, to, limit + 1), sessionId, limit);
    return { messages: messages.reverse(), hasMore };
  }

  function pageOf(rows: Iterable<MessageRow>, sessionId: SessionId, limit: number) {
    const { page, hasMore } = readPage(rows, limit, db.weighed(weightOfMessage));
    return { messages: page.map((row) => messageOf({ ...row, sessionId })), hasMore };
  }

  function keyOf(session: SessionHead, id: MessageId): number {
    const row = sql.messageKey.get(session.key, id);
    if (!row) throw new AppError("not_found", `There is no message ${id} in this session.`);
    return row.key;
  }

  return {
    // A session and its tombstone change places in one commit, so reading one after the other misses neither.
    whereIs: (id: SessionId): Promise<Whereabouts | undefined> =>
      db.read(() => {
        const there = sql.whereabouts.get(id);
        if (there) return whereaboutsOf(there);
        const gone = sql.tombstone.get(id);
        return gone && { ...whereaboutsOf(gone), tombstone: { head: gone.seq!, last: wholeEntryOf(gone) } };
      }),

    viewSession: (id: SessionId, messages: number): Promise<StoredSessionView | undefined> =>
      db.readWeighed(() => {
        const session = sql.session.get(id);
        return session && { session: sessionOfRow(session), head: session.head, ...newest(session, id, messages) };
      }),

    viewFloor: (id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView> =>
      db.readWeighed(() => {
        const floor = sql.floor.get(id);
        if (!floor) return { head: 0, flags: {}, ducked: [], paused: [], queued: [], decisions: [] };
        const { key, head, flags, reserved } = floor;
        const holder = sql.holder.get(key);
        const sessions = (query: Query<ViewRow>) =>
          rowsWithin(query.iterate(key, limits.sessions), ANSWER_BYTES, db.weighed(weightOfView)).map(sessionOfRow);
        const latest = sql.decisions.iterate(key, limits.decisions);
        const decisions = rowsWithin(latest, ANSWER_BYTES, db.weighed(weightOfEvent));
        return {
          head,
          flags: JSON.parse(flags),
          ...(reserved !== null && { reserved: JSON.parse(reserved) as Reservation }),
          ...(holder && { holder: sessionOfRow(holder) }),
          ducked: sessions(sql.ducked),
          paused: sessions(sql.paused),
          queued: sessions(sql.queued),
          decisions: decisions.reverse().map((row) => JSON.parse(wholeJson(row)) as Decision),
        };
      }),

    /** @throws AppError `not_found` for an unknown `after` or `before` */
    listMessages: (
      id: SessionId,
      { after, before, fromStart, limit }: MessageRange,
    ): Promise<StoredMessagePage | undefined> =>
      db.readWeighed(() => {
        const session = sql.session.get(id);
        if (!session) return undefined;
        const { key, head } = session;
        if (after === undefined && !fromStart) return { head, ...newest(session, id, limit, before) };
        const from = after === undefined ? 0 : keyOf(session, after);
        // The range between `after` and `before`, if both are given.
        const to = before === undefined ? Number.MAX_SAFE_INTEGER : keyOf(session, before);
        return { head, ...pageOf(sql.messagesAfter.iterate(key, from, to, limit + 1), id, limit) };
      }),

    /** @throws AppError `not_found` for an unknown message or line, `session_not_found` */
    listLogs: (
      id: SessionId,
      messageId: MessageId,
      { after, limit }: { after?: string; limit: number },
    ): Promise<StoredLogPage> =>
      db.readWeighed(() => {
        const session = sql.session.get(id);
        if (!session) throw new AppError("session_not_found");
        const messageKey = keyOf(session, messageId);
        const from = after === undefined ? { key: 0 } : sql.logKey.get(messageKey, after);
        if (!from) throw new AppError("not_found", `There is no line ${after} in this log.`);
        const rows = sql.logs.iterate(messageKey, from.key, limit + 1);
        const { page, hasMore } = readPage(rows, limit, db.weighed(weightOfLine));
        return { logs: page.map((row) => ({ ...row })), hasMore };
      }),

    readSessionLog: (id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> =>
      db.readWeighed(() => {
        const session = sql.session.get(id);
        return session && logSlice(sql.sessionEvents.iterate(session.key, after, limit, id), session);
      }),

    readFloorLog: (id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> =>
      db.readWeighed(() => floorLog(id, "ASC", { after, to: MAX_FLOOR_SEQ }, limit)),

    readFloorLogBack: (id: FloorId, before = MAX_FLOOR_SEQ + 1, limit: number): Promise<LogSlice> =>
      db.readWeighed(() => floorLog(id, "DESC", { after: 0, to: Math.min(before - 1, MAX_FLOOR_SEQ) }, limit)),

    listRuns: (query: StoredRunQuery): Promise<StoredRunPage> =>
      db.readWeighed(() => {
        const { text, values } = runList(query);
        const rows = db.prepare<RunListRow>(text).iterate(...(values as SQLInputValue[]));
        return runListPage(readPage(rows, query.limit, db.weighed(weightOfRunRow)));
      }),
  };
}

function statementsOf(db: ReadConnection) {
  /** ?1: a floor; ?2 and ?3: its events after the one number, up to the other; ?4: the limit. */
  const floorLog = (order: Order) => ({
    events: db.prepare<SqliteEventRow>(`
      SELECT ${FLOOR_SEQ}, s.id AS sessionId, ${EVENT} LEFT JOIN sessions s ON s.session_key = e.session_key
      WHERE e.event_key > ?1 << 32 | ?2 AND e.event_key <= ?1 << 32 | ?3 ORDER BY e.event_key ${order} LIMIT ?4`),
    /** The last event of a deleted session stays in the floor's log, although its row was deleted with the session. */
    lastOfDeleted: db.prepare<SqliteEventRow>(`
      SELECT ${LAST_EVENT} FROM tombstones
      WHERE floor_key = ?1 AND floor_seq > ?2 AND floor_seq <= ?3 ORDER BY floor_seq ${order} LIMIT ?4`),
  });
  return {
    session: db.prepare<SessionHead>(
      "SELECT session_key AS key, head, low_water AS lowWater, view FROM sessions WHERE id = ?",
    ),
    floor: db.prepare<FloorHead>(
      "SELECT floor_key AS key, head, low_water AS lowWater, flags, reserved FROM floors WHERE id = ?",
    ),
    whereabouts: db.prepare<AddressRow>(
      `SELECT f.id AS floorId, s.owner_id AS ownerId FROM sessions s JOIN floors f USING (floor_key) WHERE s.id = ?`,
    ),
    tombstone: db.prepare<AddressRow & SqliteEventRow>(`
      SELECT f.id AS floorId, t.owner_id AS ownerId, ${LAST_EVENT}
      FROM tombstones t JOIN floors f USING (floor_key) WHERE t.session_id = ?`),
    holder: db.prepare<ViewRow>("SELECT view FROM sessions WHERE floor_key = ? AND standing = 0"),
    ducked: db.prepare<ViewRow>(`
      SELECT view FROM sessions WHERE floor_key = ? AND standing < 0
      ORDER BY json_extract(view, '$.priority') DESC, session_key LIMIT ?`),
    paused: db.prepare<ViewRow>(
      `SELECT view FROM sessions WHERE floor_key = ? AND standing > 0 ORDER BY standing DESC LIMIT ?`,
    ),
    queued: db.prepare<ViewRow>(
      `SELECT view FROM sessions WHERE floor_key = ? AND queued_at IS NOT NULL ORDER BY queued_at LIMIT ?`,
    ),
    decisions: db.prepare<StoredEventText>(`
      SELECT ${EVENT_FIELDS} FROM decision_blocks d CROSS JOIN ${EVENT_TABLES}
      WHERE d.block BETWEEN ?1 << 27 AND ?1 << 27 | 0x7ffffff
        AND ${isInBlock("e.event_key", "d.block")} AND +e.type = 'arbitration'
      ORDER BY d.block DESC, e.event_key DESC LIMIT ?2`),
    messageKey: db.prepare<{ key: number }>("SELECT message_key AS key FROM messages WHERE session_key = ? AND id = ?"),
    messagesAfter: db.prepare<MessageRow>(
      `SELECT ${MESSAGE} AND m.message_key > ? AND m.message_key < ? ORDER BY m.message_key LIMIT ?`,
    ),
    messagesBefore: db.prepare<MessageRow>(
      `SELECT ${MESSAGE} AND m.message_key < ? ORDER BY m.message_key DESC LIMIT ?`,
    ),
    anyMessage: db.prepare<object>("SELECT 1 FROM messages WHERE session_key = ? AND message_key < ? LIMIT 1"),
    logKey: db.prepare<{ key: number }>("SELECT log_key AS key FROM message_logs WHERE message_key = ? AND id = ?"),
    logs: db.prepare<LogLine>(`
      SELECT id, stream, text, at AS timestamp FROM message_logs
      WHERE message_key = ? AND log_key > ? ORDER BY log_key LIMIT ?`),
    sessionEvents: db.prepare<SqliteEventRow>(`
      SELECT ${FLOOR_SEQ}, ?4 AS sessionId, ${EVENT_FIELDS} FROM session_blocks s CROSS JOIN ${EVENT_TABLES}
      WHERE s.session_key = ?1
        AND s.seq >= coalesce((SELECT max(seq) FROM session_blocks WHERE session_key = ?1 AND seq <= ?2 + 1), 0)
        AND ${isInBlock("e.event_key", "s.block")} AND +e.session_key = ?1 AND e.seq > ?2
      ORDER BY s.seq, e.event_key LIMIT ?3`),
    floorLog: { ASC: floorLog("ASC"), DESC: floorLog("DESC") },
  };
}

const whereaboutsOf = ({ floorId, ownerId }: AddressRow): Whereabouts => ({
  floorId,
  ...(ownerId !== null && { ownerId }),
});

/** Merge two parts of a floor's log, each in this order. */
function* merge(
  rows: Iterable<SqliteEventRow>,
  others: readonly SqliteEventRow[],
  order: Order,
): Generator<SqliteEventRow> {
  const direction = order === "ASC" ? 1 : -1;
  let next = 0;
  for (const row of rows) {
    while (next < others.length && (others[next]!.floorSeq - row.floorSeq) * direction < 0) yield others[next++]!;
    yield row;
  }
  yield* others.slice(next);
}
