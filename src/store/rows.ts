/** The rows that the queries of every store select, and their conversion to domain types. */

import type { LogEntry } from "../protocol/event.ts";
import type { Reservation } from "../protocol/floor.ts";
import type { AgentId, FloorId, MessageId, SessionId } from "../protocol/ids.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import type { Message, MessageStatus } from "../protocol/message.ts";
import type { Session } from "../protocol/session.ts";
import { sessionJson } from "../protocol/session-json.ts";
import type { RowOf } from "./columns.ts";
import type {
  ConnectionRow,
  DeletedSession,
  DraftPage,
  FloorChange,
  FloorRow,
  LogLineWrite,
  LogSlice,
  Receipt,
  SessionRow,
  SessionSqlRow,
  UsageCount,
} from "./store.ts";

export interface EventRow {
  floorSeq: number;
  sessionId: SessionId | null;
  seq: number | null;
  type: LogEntry["type"];
  requestId: LogEntry["requestId"] | null;
  at: number;
  json: string;
}

/** `json`: the event's data, for a row that does not hold all of it. */
export function entryOf(row: EventRow, json: string = row.json): LogEntry {
  const { floorSeq, sessionId, seq, type, requestId, at } = row;
  return {
    floorSeq,
    ...(sessionId !== null && { sessionId }),
    ...(seq !== null && { seq }),
    type,
    ...(requestId !== null && { requestId }),
    at,
    json,
  };
}

/** The log of an unused floor. */
export const emptyLog = (): LogSlice => ({ entries: [], head: 0, lowWater: 0 });

export interface FloorListRow {
  floorId: FloorId;
  ownerId: string | null;
  head: number;
  flags: string;
  reserved: string | null;
  sessionId: SessionId | null;
  agentId: AgentId | null;
  ducked: number;
  paused: number;
  queued: number;
}

export function floorOfRow({ flags, reserved, ownerId, sessionId, agentId, ...row }: FloorListRow): FloorRow {
  return {
    ...row,
    ...(ownerId !== null && { ownerId }),
    flags: JSON.parse(flags),
    ...(reserved !== null && { reserved: JSON.parse(reserved) as Reservation }),
    ...(sessionId !== null && { holder: { sessionId, agentId: agentId! } }),
  };
}

export interface MessageRow {
  sessionId: SessionId;
  id: MessageId;
  status: MessageStatus;
  details: string;
  content: string;
}

/** A message that is being written, with its index among the others. */
export interface DraftRow extends MessageRow {
  key: number;
}

/** A page of drafts. `hasMore`: whether further ones follow the last row. */
export function draftPageOf(rows: readonly DraftRow[], hasMore: boolean): DraftPage {
  return { messages: rows.map(messageOf), next: hasMore ? rows.at(-1)!.key : undefined };
}

export function messageOf({ sessionId, id, status, details, content }: MessageRow): Message {
  return { id, sessionId, ...(JSON.parse(details) as Omit<Message, "id" | "sessionId">), status, content };
}

/** The fields of a message without a column of their own, as JSON. */
export function detailsOf(message: Message): string {
  return JSON.stringify({ ...message, id: undefined, sessionId: undefined, status: undefined, content: undefined });
}

export interface RunRequestRow {
  id: string;
  floorId: FloorId;
  dueAt: number;
  payload: string;
}

export function runRequestOf({ payload, ...wanted }: RunRequestRow): RunRequest {
  return { kind: "run", ...wanted, ...JSON.parse(payload) };
}

export interface ConnectionSqlRow {
  id: ConnectionRow["id"];
  version: number;
  expiresAt: number;
  binding: string;
}

export function connectionOf({ binding, ...row }: ConnectionSqlRow): ConnectionRow {
  return { ...row, ...(JSON.parse(binding) as Omit<ConnectionRow, keyof ConnectionSqlRow>) };
}

export interface ViewRow {
  view: string;
}

export function sessionOfRow({ view }: ViewRow): Session {
  return JSON.parse(view);
}

/** A session's row as it is loaded, with its machine's memory. */
export interface LoadedRow extends ViewRow {
  memory: string;
  head: number;
  /** Of a session with a deadline, where the query reads it. */
  dueAt?: number;
}

export function loadedSession({ memory, head, dueAt, ...row }: LoadedRow): SessionRow {
  return { session: sessionOfRow(row), memory, head, dueAt };
}

/** The searchable text of a session. A line break separates its parts. */
export function sessionText({ title, summary }: Session): string {
  return summary === undefined ? title : `${title}\n${summary}`;
}

/** A session as it is after a change; what is read of it again is its `SessionRow`. */
interface ChangedSession extends SessionRow {
  /** When its oldest unfinished run was accepted, in ms since 1970; undefined: it has none. */
  runsAt: number | undefined;
  /** When the newest of its failed runs failed, in ms since 1970; undefined: none did. */
  failedAt: number | undefined;
}

/** The row of a session that a change writes. @param news what the change's events mean for it */
export function sessionRowOf(
  { session, memory, head, dueAt, runsAt, failedAt }: ChangedSession,
  news: SessionNews | undefined,
): SessionSqlRow {
  return {
    id: session.id,
    state: session.state,
    agent_id: session.agentId,
    user_id: session.userId,
    owner_id: session.ownerId,
    workspace_id: session.workspaceId,
    last_activity_at: session.lastActivityAt,
    queued_at: session.queuedAt,
    due_at: dueAt,
    runs_at: runsAt,
    failed_at: failedAt,
    head,
    view: sessionJson(session),
    memory,
    oldest_at: news?.firstAt,
    paused_at: news?.transitionSeq,
    text: sessionText(session),
  };
}

// The rows of the other tables that a change writes to.

export function floorRowOf({ head, format, flags, reserved, snapshot, alarm }: FloorChange): RowOf<"floors"> {
  return {
    head,
    format,
    flags: JSON.stringify(flags),
    reserved: reserved && JSON.stringify(reserved),
    snapshot,
    alarm,
  };
}

export const logRowOf = ({ line: { id, stream, text, timestamp } }: LogLineWrite): RowOf<"logs"> => {
  return { id, stream, text, at: timestamp };
};

export const eventRowOf = ({ floorSeq, seq, type, requestId, at, json }: LogEntry): RowOf<"events"> => {
  return { floor_seq: floorSeq, seq, type, request_id: requestId, at, json };
};

export const tombstoneRowOf = ({ last, at }: DeletedSession): RowOf<"tombstones"> => {
  return { deleted_at: at, ...eventRowOf(last), seq: last.seq ?? 0 };
};

export function runRequestRowOf({ id, floorId: _, kind: __, dueAt, ...payload }: RunRequest): RowOf<"effects"> {
  return { id, due_at: dueAt, payload: JSON.stringify(payload) };
}

export const receiptRowOf = ({
  caller,
  commandId,
  bodyHash,
  at,
  reply,
}: Omit<Receipt, "floorId">): RowOf<"receipts"> => {
  return { caller, command_id: commandId, body_hash: bodyHash, at, reply };
};

export const usageRowOf = ({ ownerId, agentId, ...counts }: UsageCount): RowOf<"usage_keys"> & RowOf<"usage"> => {
  return { owner_id: ownerId, agent_id: agentId, ...counts };
};

/** What the events of a change mean for one session's row. */
interface SessionNews {
  /** When the session's first event of the change happened. */
  firstAt: number;
  /** The `floorSeq` of the session's last transition. */
  transitionSeq?: number | undefined;
}

const STAYS_PAUSED = '{"from":"paused","to":"paused",';

/** What the events of a change mean for the rows of their sessions. */
export function newsOf(events: readonly LogEntry[]): Map<SessionId, SessionNews> {
  const news = new Map<SessionId, SessionNews>();
  for (const { sessionId, at, type, floorSeq, json } of events) {
    if (sessionId === undefined) continue;
    let of = news.get(sessionId);
    if (!of) {
      of = { firstAt: at };
      news.set(sessionId, of);
    }
    // A paused session whose activity changes keeps its rank among the paused ones.
    if (type === "session_transition" && !json.startsWith(STAYS_PAUSED)) of.transitionSeq = floorSeq;
  }
  return news;
}
