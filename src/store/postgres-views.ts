import type { Decision } from "../protocol/decision.ts";
import { AppError } from "../protocol/errors.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../protocol/ids.ts";
import type { LogLine } from "../protocol/message.ts";
import type { Database } from "./postgres-pool.ts";
import {
  FLOOR_LOG,
  FLOOR_VIEW,
  HEADS,
  LOGS,
  MESSAGES_AFTER,
  MESSAGES_BEFORE,
  SESSION_LOG,
  SESSION_VIEW,
  WHEREABOUTS,
} from "./postgres-view-statements.ts";
import { type EventRow, entryOf, type MessageRow, messageOf, sessionOf } from "./rows.ts";
import type { FloorView, LogPage, LogSlice, MessagePage, MessageRange, SessionView, Whereabouts } from "./store.ts";

/** What every row of an answer repeats stands in its first; the rest of it is null where there is nothing. */
type Rest<Row> = { [K in keyof Row]: Row[K] | null };

interface PageRow extends Rest<MessageRow> {
  head: number;
  afterKey: number | null;
  beforeKey: number | null;
}

interface LogLineRow extends Rest<LogLine> {
  messageKey: number | null;
  afterKey: number | null;
}

interface LogRow extends Omit<EventRow, "floorSeq"> {
  head: number;
  lowWater: number;
  floorSeq: number | null;
}

interface FloorViewRow {
  kind: "floor" | "holder" | "paused" | "queued" | "decision";
  head: number | null;
  body: string;
}

type WhereaboutsRow = { floorId: FloorId; ownerId: string | null } & Rest<EventRow>;

/** Reads what answers and streams show. Each method is one statement, and so one view. */
export class ViewReader {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async whereIs(id: SessionId): Promise<Whereabouts | undefined> {
    const [row] = await this.#db.query<WhereaboutsRow>(WHEREABOUTS, [id]);
    if (!row) return undefined;
    const { floorId, ownerId, ...last } = row;
    const there = { floorId, ...(ownerId !== null && { ownerId }) };
    return last.json === null ? there : { ...there, tombstone: { head: last.seq!, last: entryOf(last as EventRow) } };
  }

  async viewSession(id: SessionId, messages: number): Promise<SessionView | undefined> {
    const rows = await this.#db.query<PageRow & { view: string }>(SESSION_VIEW, [id, messages + 1]);
    const [first] = rows;
    if (!first) return undefined;
    return { session: sessionOf(first), head: first.head, ...newestOf(rows, messages) };
  }

  async viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<FloorView> {
    const rows = await this.#db.query<FloorViewRow>(FLOOR_VIEW, [id, limits.sessions, limits.decisions]);
    const floor = rows.find(({ kind }) => kind === "floor");
    if (!floor) return { head: 0, flags: {}, paused: [], queued: [], decisions: [] };
    const sessions = (kind: FloorViewRow["kind"]) =>
      rows.filter((row) => row.kind === kind).map(({ body }) => sessionOf({ view: body }));
    const [holder] = sessions("holder");
    const decisions = rows.filter(({ kind }) => kind === "decision").reverse();
    return {
      head: floor.head!,
      flags: JSON.parse(floor.body),
      ...(holder && { holder }),
      paused: sessions("paused"),
      queued: sessions("queued"),
      decisions: decisions.map(({ body }) => JSON.parse(body) as Decision),
    };
  }

  /** @throws AppError `not_found` when there is no message to start from */
  async listMessages(id: SessionId, { after, before, limit }: MessageRange): Promise<MessagePage | undefined> {
    const given = [id, after ?? null, before ?? null, limit + 1];
    const rows = await this.#db.query<PageRow>(after === undefined ? MESSAGES_BEFORE : MESSAGES_AFTER, given);
    const [first] = rows;
    if (!first) return undefined;
    if (after !== undefined && first.afterKey === null) throw noMessage(after);
    if (before !== undefined && first.beforeKey === null) throw noMessage(before);
    if (after === undefined) return { head: first.head, ...newestOf(rows, limit) };
    const found = messagesOf(rows);
    return { head: first.head, messages: found.slice(0, limit), hasMore: found.length > limit };
  }

  /** @throws AppError `not_found` when there is no such session, message, or line to start from */
  async listLogs(id: SessionId, messageId: MessageId, { after, limit }: { after?: string; limit: number }) {
    const rows = await this.#db.query<LogLineRow>(LOGS, [id, messageId, after ?? null, limit + 1]);
    const [first] = rows;
    if (!first) throw new AppError("session_not_found");
    if (first.messageKey === null) throw noMessage(messageId);
    if (after !== undefined && first.afterKey === null) {
      throw new AppError("not_found", `There is no line ${after} in this log.`);
    }
    const lines = rows.filter((row) => row.id !== null) as unknown as LogLine[];
    const logs = lines.slice(0, limit).map(({ id: lineId, stream, text, timestamp }) => {
      return { id: lineId, stream, text, timestamp };
    });
    return { logs, hasMore: lines.length > limit } satisfies LogPage;
  }

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    return sliceOf(await this.#db.query<LogRow>(SESSION_LOG, [id, after, limit]));
  }

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    const slice = sliceOf(await this.#db.query<LogRow>(FLOOR_LOG, [id, after, limit]));
    return slice ?? { entries: [], head: 0, lowWater: 0 };
  }

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    const rows = await this.#db.query<{ id: FloorId; head: FloorSeq }>(HEADS, [ids]);
    return new Map(rows.map(({ id, head }) => [id, head]));
  }
}

function messagesOf(rows: readonly PageRow[]) {
  return rows.filter(({ id }) => id !== null).map((row) => messageOf(row as MessageRow));
}

/** Rows that come newest first, one more of them than were asked for if there are more. */
function newestOf(rows: readonly PageRow[], limit: number) {
  const found = messagesOf(rows);
  return { messages: found.slice(0, limit).reverse(), hasMore: found.length > limit };
}

function sliceOf(rows: readonly LogRow[]): LogSlice | undefined {
  const [first] = rows;
  if (!first) return undefined;
  const found = rows.filter(({ floorSeq }) => floorSeq !== null) as EventRow[];
  return { entries: found.map((row) => entryOf(row)), head: first.head, lowWater: first.lowWater };
}

function noMessage(id: MessageId): AppError {
  return new AppError("not_found", `There is no message ${id} in this session.`);
}
