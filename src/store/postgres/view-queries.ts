import type { Decision } from "../../protocol/decision.ts";
import { AppError } from "../../protocol/errors.ts";
import type { Reservation } from "../../protocol/floor.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../../protocol/ids.ts";
import type { LogLine } from "../../protocol/message.ts";
import { type RunListRow, runList, runListPage, weightOfRunRow } from "../lists.ts";
import { readPage } from "../row-page.ts";
import { type EventRow, emptyLog, entryOf, type MessageRow, messageOf, sessionOfRow } from "../rows.ts";
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
import type { Database } from "./connections/connection-pool.ts";
import {
  FLOOR_LOG,
  FLOOR_LOG_BACK,
  FLOOR_VIEW,
  LOGS,
  MESSAGES_AFTER,
  MESSAGES_BEFORE,
  SESSION_LOG,
  SESSION_VIEW,
  WHEREABOUTS,
} from "./view-statements.ts";

/** Values that are the same for every row of an answer. Only the first row holds them. */
type Rest<Row> = { [K in keyof Row]: Row[K] | null };

interface PageRow extends Rest<MessageRow> {
  head: number;
  /** The requested rows that exist, including those that do not fit the page. */
  found: number;
  afterKey: number | null;
  beforeKey: number | null;
}

interface LogLineRow extends Rest<LogLine> {
  messageKey: number | null;
  found: number;
  afterKey: number | null;
}

interface LoggedEventRow extends Omit<EventRow, "floorSeq"> {
  head: number;
  lowWater: number;
  floorSeq: number | null;
}

interface FloorViewRow {
  kind: "floor" | "reserved" | "holder" | "ducked" | "paused" | "queued" | "decision";
  head: number | null;
  body: string;
}

type WhereaboutsRow = { floorId: FloorId; ownerId: string | null } & Rest<EventRow>;

/** Reads for answers and streams. Each method is one statement, and thus one snapshot. */
export const viewQueries = (db: Database) => ({
  async whereIs(id: SessionId): Promise<Whereabouts | undefined> {
    const [row] = await db.query<WhereaboutsRow>(WHEREABOUTS, [id]);
    if (!row) return undefined;
    const { floorId, ownerId, ...last } = row;
    const there = { floorId, ...(ownerId !== null && { ownerId }) };
    return last.json === null ? there : { ...there, tombstone: { head: last.seq!, last: entryOf(last as EventRow) } };
  },

  async viewSession(id: SessionId, messages: number): Promise<StoredSessionView | undefined> {
    const rows = await db.query<PageRow & { view: string }>(SESSION_VIEW, [id, messages + 1]);
    const [first] = rows;
    if (!first) return undefined;
    return { session: sessionOfRow(first), head: first.head, ...newestOf(rows, messages) };
  },

  async viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView> {
    const rows = await db.query<FloorViewRow>(FLOOR_VIEW, [id, limits.sessions, limits.decisions]);
    const floor = rows.find(({ kind }) => kind === "floor");
    if (!floor) return { head: 0, flags: {}, ducked: [], paused: [], queued: [], decisions: [] };
    const sessions = (kind: FloorViewRow["kind"]) =>
      rows.filter((row) => row.kind === kind).map(({ body }) => sessionOfRow({ view: body }));
    const [holder] = sessions("holder");
    const reserved = rows.find(({ kind }) => kind === "reserved");
    const decisions = rows.filter(({ kind }) => kind === "decision").reverse();
    return {
      head: floor.head!,
      flags: JSON.parse(floor.body),
      ...(reserved && { reserved: JSON.parse(reserved.body) as Reservation }),
      ...(holder && { holder }),
      ducked: sessions("ducked"),
      paused: sessions("paused"),
      queued: sessions("queued"),
      decisions: decisions.map(({ body }) => JSON.parse(body) as Decision),
    };
  },

  /** @throws AppError `not_found` for an unknown `after` or `before` */
  async listMessages(
    id: SessionId,
    { after, before, fromStart, limit }: MessageRange,
  ): Promise<StoredMessagePage | undefined> {
    const values = [id, after ?? null, before ?? null, limit + 1];
    const isForward = after !== undefined || fromStart === true;
    const rows = await db.query<PageRow>(isForward ? MESSAGES_AFTER : MESSAGES_BEFORE, values);
    const [first] = rows;
    if (!first) return undefined;
    if (after !== undefined && first.afterKey === null) throw noMessage(after);
    if (before !== undefined && first.beforeKey === null) throw noMessage(before);
    if (!isForward) return { head: first.head, ...newestOf(rows, limit) };
    return { head: first.head, ...pageOf(rows, limit) };
  },

  /** @throws AppError `not_found` for an unknown message or line, `session_not_found` */
  async listLogs(id: SessionId, messageId: MessageId, { after, limit }: { after?: string; limit: number }) {
    const rows = await db.query<LogLineRow>(LOGS, [id, messageId, after ?? null, limit + 1]);
    const [first] = rows;
    if (!first) throw new AppError("session_not_found");
    if (first.messageKey === null) throw noMessage(messageId);
    if (after !== undefined && first.afterKey === null) {
      throw new AppError("not_found", `There is no line ${after} in this log.`);
    }
    const lines = rows.filter((row) => row.id !== null) as unknown as LogLine[];
    const page = lines.slice(0, limit);
    const logs = page.map(({ id: lineId, stream, text, timestamp }) => {
      return { id: lineId, stream, text, timestamp };
    });
    return { logs, hasMore: first.found > page.length } satisfies StoredLogPage;
  },

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    return sliceOf(await db.query<LoggedEventRow>(SESSION_LOG, [id, after, limit]));
  },

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    return sliceOf(await db.query<LoggedEventRow>(FLOOR_LOG, [id, after, limit])) ?? emptyLog();
  },

  async readFloorLogBack(id: FloorId, before: FloorSeq | undefined, limit: number): Promise<LogSlice> {
    const to = before ?? Number.MAX_SAFE_INTEGER;
    return sliceOf(await db.query<LoggedEventRow>(FLOOR_LOG_BACK, [id, to, limit])) ?? emptyLog();
  },

  async listRuns(query: StoredRunQuery): Promise<StoredRunPage> {
    const list = runList(query);
    return runListPage(readPage(await db.query<RunListRow>(list, list.values), query.limit, weightOfRunRow));
  },
});

function pageOf(rows: readonly PageRow[], limit: number) {
  const shown = rows.filter(({ id }) => id !== null).slice(0, limit);
  return { messages: shown.map((row) => messageOf(row as MessageRow)), hasMore: (rows[0]?.found ?? 0) > shown.length };
}

/** Rows arrive newest first. */
function newestOf(rows: readonly PageRow[], limit: number) {
  const { messages, hasMore } = pageOf(rows, limit);
  return { messages: messages.reverse(), hasMore };
}

function sliceOf(rows: readonly LoggedEventRow[]): LogSlice | undefined {
  const [first] = rows;
  if (!first) return undefined;
  const found = rows.filter(({ floorSeq }) => floorSeq !== null) as EventRow[];
  return { entries: found.map((row) => entryOf(row)), head: first.head, lowWater: first.lowWater };
}

function noMessage(id: MessageId): AppError {
  return new AppError("not_found", `There is no message ${id} in this session.`);
}
