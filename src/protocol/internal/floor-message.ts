import type { LoggedType, Subject, WrittenState } from "../event.ts";
import type { Frame, WireEntry } from "../frames.ts";
import type { FloorId, FloorSeq, MessageId, RunId, SessionId } from "../ids.ts";

/**
 * A message on a floor's topic. The frame of an event is encoded once and passed to every reader without a copy: a
 * message is one line of JSON that describes the frames, followed by the frames.
 */
export type FloorMessage =
  /**
   * One commit. It takes a follower from `prev` to `last`; a follower at another position reads the store. Entries are
   * omitted when they exceed the bus's limit. `at`: when it became durable, ms since 1970.
   */
  | { kind: "commit"; floorId: FloorId; prev: FloorSeq; last: FloorSeq; entries?: WireEntry[]; at: number }
  /** A piece of a message that is still being written. */
  | { kind: "delta"; floorId: FloorId; sessionId: SessionId; frame: Frame }
  /** The store has the text up to `length`: a reader with a gap can read it there. */
  | { kind: "checkpoint"; floorId: FloorId; sessionId: SessionId; messageId: MessageId; runId: RunId; length: number }
  /** A live event, which is not logged, for the connected readers of a session. */
  | { kind: "live"; floorId: FloorId; sessionId: SessionId; frame: Frame };

/** The topic of all events of a floor (rule C17). */
export const floorTopic = (epoch: string, floorId: FloorId): string => `${epoch}.floor.${floorId}`;

/** The topic on which the driver of a run receives signals. */
export const runTopic = (epoch: string, runId: string): string => `${epoch}.run.${runId}`;

/** The topic on which the workers of a home receive the runs that must go there. */
export const homeTopic = (epoch: string, home: string): string => `${epoch}.home.${home}`;

const NEWLINE = 10;

/** A subject as one string. The event's type determines its kind. */
function subjectText(subject: Subject | undefined): string | null {
  if (!subject) return null;
  if ("message" in subject) return subject.message;
  return "run" in subject ? subject.run : subject.state;
}

function readSubject(type: LoggedType, text: string | null | undefined): Subject | undefined {
  if (text === null || text === undefined) return undefined;
  if (type === "message") return { message: text as MessageId };
  return type === "complete" ? { run: text as RunId } : { state: text as WrittenState };
}

/** The routing fields of an entry in the JSON line. Absent values are null, because JSON arrays have no gaps. */
type EntryHead = [
  floorSeq: number,
  type: LoggedType,
  length: number,
  subject?: string | null,
  sessionId?: SessionId | null,
  seq?: number | null,
];

/**
 * A message that stays in its process. Its type says bytes because a bus carries bytes otherwise; a subclass of
 * `Uint8Array` would be honest, and each instance of it costs a twentieth of a delivery.
 */
class LocalMessage {
  readonly content: FloorMessage;

  constructor(content: FloorMessage) {
    this.content = content;
  }
}

/**
 * @param isLocal whether the message stays in this process, so that its followers can have it as it is: `Bus.isLocal`
 */
export function encodeFloorMessage(message: FloorMessage, isLocal = false): Uint8Array {
  return isLocal ? (new LocalMessage(message) as unknown as Uint8Array) : bytesOf(message);
}

function bytesOf(message: FloorMessage): Uint8Array {
  if (message.kind === "commit") {
    const { entries, ...rest } = message;
    if (!entries) return join(rest, []);
    const heads = entries.map(
      ({ floorSeq, type, frame, subject, sessionId, seq }): EntryHead => [
        floorSeq,
        type,
        Buffer.byteLength(frame),
        subjectText(subject),
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

/** @throws SyntaxError when the bytes are not a floor message */
export function decodeFloorMessage(bytes: Uint8Array): FloorMessage {
  return (bytes as unknown) instanceof LocalMessage ? (bytes as unknown as LocalMessage).content : read(bytes);
}

function read(bytes: Uint8Array): FloorMessage {
  const buffer = asBuffer(bytes);
  const end = buffer.indexOf(NEWLINE);
  if (end < 0) throw new SyntaxError("a floor message must begin with a line of JSON");
  const head = JSON.parse(buffer.toString("utf8", 0, end));
  let offset = end + 1;
  if (head.kind === "commit") {
    if (!head.entries) return head;
    head.entries = (head.entries as EntryHead[]).map(([floorSeq, type, length, subject, sessionId, seq]): WireEntry => {
      const frame = buffer.subarray(offset, offset + length);
      offset += length;
      return {
        floorSeq,
        type,
        subject: readSubject(type, subject),
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

/** `allocUnsafe` takes small buffers from Node's pool, which spares the garbage collector. */
function join(head: object, frames: readonly Frame[]): Uint8Array {
  const line = `${JSON.stringify(head)}\n`;
  const length = Buffer.byteLength(line);
  const whole = Buffer.allocUnsafe(frames.reduce((sum, frame) => sum + Buffer.byteLength(frame), length));
  whole.write(line);
  let offset = length;
  for (const frame of frames) {
    if (typeof frame === "string") offset += whole.write(frame, offset);
    else {
      whole.set(frame, offset);
      offset += frame.byteLength;
    }
  }
  return whole;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
