import type { LoggedType } from "./event.ts";
import { envelopeJson, type LogEntry } from "./event.ts";
import type { FloorId, FloorSeq, MessageId, RequestId, RunId, Seq, SessionId } from "./ids.ts";

/**
 * What travels on a floor's topic. An event's bytes are made once, where it happens, and are handed on uncopied to
 * every reader: a message is a line of JSON that says what follows, and then the bodies.
 */
export type FloorMessage =
  /**
   * One commit. A follower that stands at `prev` is at `last` with it; any other reads the store. Entries are left out
   * where they are too heavy for the bus.
   */
  | { kind: "commit"; floorId: FloorId; prev: FloorSeq; last: FloorSeq; entries?: WireEntry[] }
  /** A piece of a message that is being written. */
  | { kind: "delta"; floorId: FloorId; sessionId: SessionId; body: Uint8Array }
  /** Text up to `length` is in the store now: whoever has a gap may read it there. */
  | { kind: "checkpoint"; floorId: FloorId; sessionId: SessionId; messageId: MessageId; runId: RunId; length: number }
  /** For the live readers of a session alone: an event that is not logged. */
  | { kind: "notice"; floorId: FloorId; sessionId: SessionId; body: Uint8Array };

/** A logged event on its way: what routes it, and what stands behind `data:`. */
export interface WireEntry {
  floorSeq: FloorSeq;
  sessionId?: SessionId | undefined;
  seq?: Seq | undefined;
  type: LoggedType;
  body: Uint8Array;
}

/** The topic of everything that happens on a floor (rule C17). */
export const floorTopic = (epoch: string, floorId: FloorId): string => `${epoch}.floor.${floorId}`;

/** The topic on which the driver of a run is spoken to. */
export const runTopic = (epoch: string, runId: string): string => `${epoch}.run.${runId}`;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NEWLINE = 10;

export function toWire({ floorSeq, sessionId, seq, type, requestId, at, json }: LogEntry): WireEntry {
  const body = encoder.encode(envelopeJson({ type, json, at, sessionId, seq, requestId: requestId as RequestId }));
  return { floorSeq, sessionId, seq, type, body };
}

type EntryHead = [floorSeq: number, type: LoggedType, length: number, sessionId?: string, seq?: number];

export function encodeFloorMessage(message: FloorMessage): Uint8Array {
  if (message.kind === "commit") {
    const { entries, ...rest } = message;
    const heads = entries?.map(({ floorSeq, type, body, sessionId, seq }): EntryHead => {
      const head: EntryHead = [floorSeq, type, body.byteLength];
      if (sessionId !== undefined) head.push(sessionId, ...(seq === undefined ? [] : [seq]));
      return head;
    });
    return join({ ...rest, ...(heads && { entries: heads }) }, entries?.map((entry) => entry.body) ?? []);
  }
  if (message.kind === "checkpoint") return join(message, []);
  const { body, ...rest } = message;
  return join(rest, [body]);
}

/** @throws SyntaxError for what is no floor message */
export function decodeFloorMessage(bytes: Uint8Array): FloorMessage {
  const end = bytes.indexOf(NEWLINE);
  if (end < 0) throw new SyntaxError("a floor message begins with a line");
  const head = JSON.parse(decoder.decode(bytes.subarray(0, end)));
  let offset = end + 1;
  if (head.kind === "commit") {
    if (!head.entries) return head;
    const entries = (head.entries as EntryHead[]).map(([floorSeq, type, length, sessionId, seq]): WireEntry => {
      const body = bytes.subarray(offset, offset + length);
      offset += length;
      return { floorSeq, type, body, sessionId: sessionId as SessionId | undefined, seq };
    });
    return { ...head, entries };
  }
  return head.kind === "checkpoint" ? head : { ...head, body: bytes.subarray(offset) };
}

function join(head: object, bodies: readonly Uint8Array[]): Uint8Array {
  const line = encoder.encode(`${JSON.stringify(head)}\n`);
  if (bodies.length === 0) return line;
  const whole = new Uint8Array(line.byteLength + bodies.reduce((sum, body) => sum + body.byteLength, 0));
  whole.set(line);
  let offset = line.byteLength;
  for (const body of bodies) {
    whole.set(body, offset);
    offset += body.byteLength;
  }
  return whole;
}
