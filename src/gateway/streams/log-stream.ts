import type { LogEntry, LoggedType } from "../../protocol/event.ts";
import { placeFrame } from "../../protocol/frames.ts";
import type { FloorId, SessionId } from "../../protocol/ids.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import { logPosition, parseLogPosition } from "../../protocol/position.ts";
import type { Store } from "../../store/store.ts";
import type { FollowedEntry, Follower } from "./follower.ts";
import type { Stream } from "./open-streams.ts";
import { readFloorPage, readSessionPage } from "./session-log.ts";
import type { SseWriter } from "./sse-writer.ts";
import { type HistoryPage, Track, type TrackReader } from "./track.ts";

type LogStore = Pick<Store, "epoch" | "whereIs" | "readSessionLog" | "readFloorLog">;

/** A log that a stream shows: which entries of the floor belong to it, and their numbers in it. */
export interface FollowedLog {
  /** The session that the log belongs to; absent for a floor's log. */
  readonly sessionId?: SessionId;
  /** The entry's number in this log, from 1; undefined if the entry is not part of it. */
  placeOf(entry: FollowedEntry): number | undefined;
  /** Whether readers receive the entry. An entry that is not shown still advances the reader's position. */
  isShown(entry: FollowedEntry): boolean;
  /** Whether the log ends with the entry. */
  endsWith(entry: FollowedEntry): boolean;
  /** The entries after a reader's position, including its last one where that locates the reader on the floor. */
  readFrom(place: number, limit: number): Promise<HistoryPage>;
  /** The entries after an entry of this log. */
  readAfter(entry: LogEntry, limit: number): Promise<HistoryPage>;
}

/** `GET /session/{id}/events`: every event of one session. */
export function sessionLog(store: LogStore, sessionId: SessionId): FollowedLog {
  return {
    sessionId,
    placeOf: (entry) => (entry.sessionId === sessionId ? entry.seq : undefined),
    isShown: () => true,
    endsWith: (entry) => entry.ends,
    readFrom: (place, limit) => readSessionPage(store, sessionId, Math.max(0, place - 1), limit),
    readAfter: ({ seq }, limit) => readSessionPage(store, sessionId, seq!, limit),
  };
}

/** The events that show who has the floor, and why. */
export const FLOOR_EVENTS: ReadonlySet<LoggedType> = new Set([
  "session_created",
  "session_transition",
  "arbitration",
  "agent_switched",
  "floor_updated",
]);

/** `GET /floor/{id}/events`: the decisions of one floor and the transitions of all its sessions. */
export function floorLog(store: LogStore, floorId: FloorId): FollowedLog {
  return {
    placeOf: (entry) => entry.floorSeq,
    isShown: ({ type }) => FLOOR_EVENTS.has(type),
    endsWith: () => false,
    readFrom: (place, limit) => readFloorPage(store, floorId, place, limit),
    readAfter: ({ floorSeq }, limit) => readFloorPage(store, floorId, floorSeq, limit),
  };
}

/**
 * Where a reader begins: after the position that it sent, or at the head with a `reset` if that is impossible (C20).
 */
export interface Start {
  after: number;
  reset: boolean;
}

/** A position that is unknown, foreign, in the future or pruned leads to a `reset`. It is never guessed. */
export function startAfter(
  position: string | undefined,
  log: { epoch: string; head: number; lowWater: number },
): Start {
  const place = position === undefined ? { epoch: log.epoch, seq: 0 } : parseLogPosition(position);
  const isGood = place?.epoch === log.epoch && place.seq <= log.head && place.seq >= log.lowWater;
  return isGood ? { after: place.seq, reset: false } : { after: log.head, reset: true };
}

export interface LogStreamOptions {
  writer: SseWriter;
  follower: Follower;
  store: LogStore;
  clock: Clock;
  onClose: () => void;
}

/** Sends one log to one reader: its history from the reader's position on, then live events. */
export class LogStream implements Stream, TrackReader {
  readonly writer: SseWriter;
  readonly #options: LogStreamOptions;
  readonly #log: FollowedLog;
  readonly #sessions: readonly SessionId[];
  readonly #track: Track;
  #place: number;

  constructor(options: LogStreamOptions, log: FollowedLog, { after, reset }: Start) {
    const { store, writer, follower } = options;
    const { sessionId } = log;
    this.#options = options;
    this.writer = writer;
    this.#log = log;
    this.#sessions = sessionId === undefined ? [] : [sessionId];
    this.#place = after;
    const id = logPosition(store.epoch, after);
    const about = sessionId === undefined ? {} : { sessionId };
    writer.place(id);
    if (reset) writer.tell("reset", { ...about, from: after }, this.now(), { ...about, id });
    this.#track = new Track(follower, this);
    writer.onDrain = () => this.#track.advance();
  }

  begin(): void {
    this.#track.advance();
  }

  close(): void {
    this.#track.close();
    this.#options.onClose();
  }

  now(): number {
    return this.#options.clock.now();
  }

  sessions(): Iterable<SessionId> {
    return this.#sessions;
  }

  readHistory(limit: number, after: LogEntry | undefined): Promise<HistoryPage> {
    return after ? this.#log.readAfter(after, limit) : this.#log.readFrom(this.#place, limit);
  }

  take(entry: FollowedEntry): "go" | "end" {
    const place = this.#log.placeOf(entry);
    if (place === undefined || place <= this.#place) return "go";
    this.#place = place;
    if (this.#log.isShown(entry)) this.writer.write(this.#placed(entry));
    if (!this.#log.endsWith(entry)) return "go";
    this.#track.close();
    this.writer.bye("ended", this.now());
    return "end";
  }

  /** The frame is made for the first reader of a session and shared by all of them. */
  #placed(entry: FollowedEntry): Uint8Array {
    const position = logPosition(this.#options.store.epoch, this.#place);
    if (this.#log.sessionId === undefined) return placeFrame(position, entry.frame);
    entry.sessionFrame ??= placeFrame(position, entry.frame);
    return entry.sessionFrame;
  }
}
