import type { Effect } from "../protocol/effect.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { FloorId, MessageId, SessionId } from "../protocol/ids.ts";
import type { Message, MessageStatus } from "../protocol/message.ts";
import type { Session } from "../protocol/session.ts";
import type { ConnectionRow } from "./store.ts";

/** Rows as the queries select them, and what they stand for. */

/** An event's data as it is stored: `text` belongs at `textAt`, if there is any. */
export interface EventText {
  json: string;
  textAt: number | null;
  text: string | null;
}

export function wholeJson({ json, textAt, text }: EventText): string {
  if (textAt === null || text === null) return json;
  return json.slice(0, textAt) + JSON.stringify(text) + json.slice(textAt);
}

export interface EventRow extends EventText {
  floorSeq: number;
  sessionId: SessionId | null;
  seq: number | null;
  type: LogEntry["type"];
  requestId: LogEntry["requestId"] | null;
  at: number;
}

export function entryOf(row: EventRow): LogEntry {
  const { floorSeq, sessionId, seq, type, requestId, at } = row;
  return {
    floorSeq,
    ...(sessionId !== null && { sessionId }),
    ...(seq !== null && { seq }),
    type,
    ...(requestId !== null && { requestId }),
    at,
    json: wholeJson(row),
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
