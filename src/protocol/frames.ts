/**
 * The bytes of server-sent events. This module makes every frame that a reader receives: the frame of an event is
 * encoded once, and each reader's position is placed in front of it.
 */

import { jsonInOneLine } from "../shared/text.ts";
import { type EventType, type LogEntry, type LoggedType, type Subject, storedSubject } from "./event.ts";
import type { FloorSeq, Seq, SessionId } from "./ids.ts";

const DATA = "data: ";

/**
 * What readers receive of an event. Text where the event was made in this process, because a socket with room takes
 * text faster than bytes; bytes where the event came over a bus.
 */
export type Frame = string | Uint8Array;

/** The fields of an event that its envelope shows. */
export interface EnvelopeFields extends Pick<LogEntry, "json" | "at"> {
  type: EventType;
  sessionId?: string | undefined;
  seq?: number | undefined;
  requestId?: string | undefined;
}

/** The JSON of a `data:` field. An event has the same bytes when it happens and in any later replay. */
export function envelopeJson({ type, json, at, sessionId, seq, requestId }: EnvelopeFields): string {
  let text = `{"type":"${type}","data":${json},"timestamp":"${timestampOf(at)}"`;
  if (sessionId !== undefined) text += `,"sessionId":"${sessionId}"`;
  if (seq !== undefined) text += `,"seq":${seq}`;
  if (requestId !== undefined) text += `,"requestId":"${requestId}"`;
  return `${text}}`;
}

/** The same with the event's position in front, as pages of a log have it. */
export const positionedJson = (position: string, event: EnvelopeFields): string =>
  `{"position":"${position}",${envelopeJson(event).slice(1)}`;

/** The last time that was formatted. Many events happen in one millisecond, and formatting costs more than the rest. */
let formatted = { at: 0, text: new Date(0).toISOString() };

function timestampOf(at: number): string {
  if (at !== formatted.at) formatted = { at, text: new Date(at).toISOString() };
  return formatted.text;
}

/** JSON as a frame, with a position in front where one is given. */
export const dataFrame = (json: string, id?: string): string =>
  `${id === undefined ? "" : idLine(id)}${DATA}${jsonInOneLine(json)}\n\n`;

/** A logged event in transit: its routing fields, and its frame without a position (`data: …` and the blank line). */
export interface WireEntry {
  floorSeq: FloorSeq;
  sessionId?: SessionId | undefined;
  seq?: Seq | undefined;
  type: LoggedType;
  subject?: Subject | undefined;
  frame: Frame;
}

/** Encode an entry for transit. For entries from the store, the subject is derived from the data. */
export function toWire(entry: LogEntry): WireEntry {
  const { floorSeq, sessionId, seq, type } = entry;
  return { floorSeq, sessionId, seq, type, subject: storedSubject(entry), frame: dataFrame(envelopeJson(entry)) };
}

/** Parse the JSON of a frame without a position. */
export function parseFrame(frame: Frame): unknown {
  const text =
    typeof frame === "string" ? frame : Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength).toString();
  return JSON.parse(text.slice(DATA.length));
}

/** The same frame with a position in front. */
export function positionedFrame(id: string, frame: Frame): Frame {
  const head = idLine(id);
  if (typeof frame === "string") return head + frame;
  const bytes = Buffer.allocUnsafe(head.length + frame.byteLength);
  // A position is ASCII, so latin1 writes one byte per character.
  bytes.write(head, "latin1");
  bytes.set(frame, head.length);
  return bytes;
}

const idLine = (id: string): string => `id: ${id}\n`;

/** A frame without data: it tells a reader its position after events that it is not shown. */
export const positionFrame = (id: string): string => `${idLine(id)}\n`;

/**
 * How many ms a reader waits before it reconnects. A line without a blank line behind it belongs to the next frame:
 * some clients report every blank line as an event, also one without data.
 */
export const retryLine = (ms: number): string => `retry: ${ms}\n`;

/** A comment, for the same reason without a blank line. Readers ignore it, and proxies see a connection in use. */
export const HEARTBEAT_LINE = ":\n";
