import type { Effect } from "../protocol/effect.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { FloorId, MessageId, SessionId } from "../protocol/ids.ts";
import type { Message, MessageStatus } from "../protocol/message.ts";
import type { Session } from "../protocol/session.ts";
import type { ConnectionRow } from "./store.ts";

/** Rows as the queries of every store select them, and what they stand for. */

export interface EventRow {
  floorSeq: number;
  sessionId: SessionId | null;
  seq: number | null;
  type: LogEntry["type"];
  requestId: LogEntry["requestId"] | null;
  at: number;
  json: string;
}

/** `json`: the event's data, when the row does not have it whole. */
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

export interface MessageRow {
  sessionId: SessionId;
  id: MessageId;
  status: MessageStatus;
  details: string;
  content: string;
}

export function messageOf({ sessionId, id, status, details, content }: MessageRow): Message {
  return { id, sessionId, ...(JSON.parse(details) as Omit<Message, "id" | "sessionId">), status, content };
}

/** All of a message that has no column of its own. */
export function detailsOf(message: Message): string {
  return JSON.stringify({ ...message, id: undefined, sessionId: undefined, status: undefined, content: undefined });
}

export interface EffectRow {
  id: string;
  floorId: FloorId;
  kind: string;
  dueAt: number;
  payload: string;
}

export function effectOf({ payload, ...wanted }: EffectRow): Effect {
  return { ...wanted, ...JSON.parse(payload) };
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

export function sessionOf({ view }: ViewRow): Session {
  return JSON.parse(view);
}

/** What is searched of a session itself. A line break keeps the two apart. */
export function sessionText({ title, summary }: Session): string {
  return summary === undefined ? title : `${title}\n${summary}`;
}

/** What a change's events say of one session. */
export interface SessionNews {
  /** When the first of them happened. */
  firstAt: number;
  /** The place on the floor of its last transition. */
  transitionSeq?: number | undefined;
}

/** What events say of each session they name. */
export function newsOf(events: readonly LogEntry[]): Map<SessionId, SessionNews> {
  const news = new Map<SessionId, SessionNews>();
  for (const { sessionId, at, type, floorSeq } of events) {
    if (sessionId === undefined) continue;
    let of = news.get(sessionId);
    if (!of) {
      of = { firstAt: at };
      news.set(sessionId, of);
    }
    if (type === "session_transition") of.transitionSeq = floorSeq;
  }
  return news;
}
