import type { LoggedType } from "./event.ts";
import { envelopeJson, type LogEntry } from "./event.ts";
import type { FloorId, FloorSeq, MessageId, RunId, Seq, SessionId } from "./ids.ts";

/**
 * What travels on a floor's topic. An event's frame is made once, where it happens, and is handed on uncopied to every
 * reader: a message is a line of JSON that says what follows, and then the frames.
 */
export type FloorMessage =
  /**
   * One commit. A follower that stands at `prev` is at `last` with it; any other reads the store. Entries are left out
   * where they are too heavy for the bus. `at`: when it was durable, ms since 1970; older releases do not say it.
   */
  | { kind: "commit"; floorId: FloorId; prev: FloorSeq; last: FloorSeq; entries?: WireEntry[]; at?: number }
  /** A piece of a message that is being written. */
  | { kind: "delta"; floorId: FloorId; sessionId: SessionId; frame: Uint8Array }
  /** Text up to `length` is in the store now: whoever has a gap may read it there. */
  | { kind: "checkpoint"; floorId: FloorId; sessionId: SessionId; messageId: MessageId; runId: RunId; length: number }
  /** For the live readers of a session alone: an event that is not logged. */
  | { kind: "notice"; floorId: FloorId; sessionId: SessionId; frame: Uint8Array };

/** A logged event on its way: what routes it, and its frame without a position: `data: …` and the blank line. */
export interface WireEntry {
  floorSeq: FloorSeq;
  sessionId?: SessionId | undefined;
  seq?: Seq | undefined;
  type: LoggedType;
  /** What followers ask it for: a message's id, the id of a run that is complete, the state a transition leads to. */
  about?: string | undefined;
  frame: Uint8Array;
}

/** The topic of everything that happens on a floor (rule C17). */
export const floorTopic = (epoch: string, floorId: FloorId): string => `${epoch}.floor.${floorId}`;

/** The topic on which the driver of a run is spoken to. */
export const runTopic = (epoch: string, runId: string): string => `${epoch}.run.${runId}`;

/** A frame without a position. */
export const dataFrame = (envelope: string): Uint8Array => Buffer.from(`data: ${envelope}\n\n`);

/** The JSON behind `data:` in a frame that `dataFrame` made. */
export const parseFrame = (frame: Uint8Array): unknown => JSON.parse(asBuffer(frame).toString("utf8", DATA.length));

const DATA = "data: ";
const NEWLINE = 10;
/** A message's id stands first in its data; the others cannot be forged: quotes in texts are escaped. */
const ABOUT: Partial<Record<LoggedType, RegExp>> = {
  message: /^\{"id":"([^"]+)"/,
  complete: /"runId":"([^"]+)"/,
  session_transition: /"to":"([^"]+)"/,
};

/** What a logged event is asked for by followers. */
export const aboutOf = ({ type, json }: Pick<LogEntry, "type" | "json">): string | undefined =>
  ABOUT[type]?.exec(json)?.[1];

export function toWire(entry: LogEntry): WireEntry {
  const { floorSeq, sessionId, seq, type, requestId, at, json } = entry;
  const frame = dataFrame(envelopeJson({ type, json, at, sessionId, seq, requestId }));
  return { floorSeq, sessionId, seq, type, about: aboutOf(entry), frame };
}

/** Absent values are null in JSON's arrays. */
type EntryHead = [
  floorSeq: number,
  type: LoggedType,
  length: number,
  about?: string | null,
  sessionId?: SessionId | null,
  seq?: number | null,
];

/** What the bytes say, beside them: whoever gets these very bytes, in this process, need not read them. */
const SAID = Symbol("said");

interface Said extends Uint8Array {
  [SAID]?: FloorMessage;
}

export function encodeFloorMessage(message: FloorMessage): Uint8Array {
  const bytes: Said = bytesOf(message);
  bytes[SAID] = message;
  return bytes;
}

function bytesOf(message: FloorMessage): Uint8Array {
  if (message.kind === "commit") {
    const { entries, ...rest } = message;
    if (!entries) return join(rest, []);
    const heads = entries.map(
      ({ floorSeq, type, frame, about, sessionId, seq }): EntryHead => [
        floorSeq,
        type,
        frame.byteLength,
        about ?? null,
        sessionId ?? null,
        seq ?? null,
      ],
    );
    return join(
      { ...rest, entries: heads },
      entries.map((entry) => entry.frame),
    );
  }
  if (message.kind === "checkpoint") return join(message, []);
  const { frame, ...rest } = message;
  return join(rest, [frame]);
}

/** @throws SyntaxError for what is no floor message */
export function decodeFloorMessage(bytes: Uint8Array): FloorMessage {
  return (bytes as Said)[SAID] ?? read(bytes);
}

function read(bytes: Uint8Array): FloorMessage {
  const buffer = asBuffer(bytes);
  const end = buffer.indexOf(NEWLINE);
  if (end < 0) throw new SyntaxError("a floor message begins with a line");
  const head = JSON.parse(buffer.toString("utf8", 0, end));
  let offset = end + 1;
  if (head.kind === "commit") {
    if (!head.entries) return head;
    head.entries = (head.entries as EntryHead[]).map(([floorSeq, type, length, about, sessionId, seq]): WireEntry => {
      const frame = buffer.subarray(offset, offset + length);
      offset += length;
      return {
        floorSeq,
        type,
        about: about ?? undefined,
        sessionId: sessionId ?? undefined,
        seq: seq ?? undefined,
        frame,
      };
    });
    return head;
  }
  if (head.kind !== "checkpoint") head.frame = buffer.subarray(offset);
  return head;
}

/** Small pieces come from Node's pool: an array of its own for each would keep the collector busy. */
function join(head: object, frames: readonly Uint8Array[]): Uint8Array {
  const line = `${JSON.stringify(head)}\n`;
  const length = Buffer.byteLength(line);
  const whole = Buffer.allocUnsafe(frames.reduce((sum, frame) => sum + frame.byteLength, length));
  whole.write(line);
  let offset = length;
  for (const frame of frames) {
    whole.set(frame, offset);
    offset += frame.byteLength;
  }
  return whole;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
