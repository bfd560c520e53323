import type { LogEntry, LoggedType } from "../../protocol/event.ts";
import { type Frame, placeFrame } from "../../protocol/frames.ts";
import type { FloorId, SessionId } from "../../protocol/ids.ts";
import type { Clock } from "../../protocol/ports/clock.ts";
import { logPosition, parseLogPosition } from "../../protocol/position.ts";
import type { Store } from "../../store/store.ts";
import type { FollowedEntry, Follower } from "./follower.ts";
import type { Followers } from "./followers.ts";
import type { Stream } from "./open-streams.ts";
import { readFloorPage, readSessionPage } from "./session-log.ts";
import type { SseWriter } from "./sse-writer.ts";
import { type HistoryPage, Track, type TrackReader } from "./track.ts";

type LogStore = Pick<Store, "epoch" | "whereIs" | "readSessionLog" | "readFloorLog">;

/** A log that a stream shows: which entries of the floor belong to it, and their numbers in it. */
export interface FollowedLog {
  /** The session that the log belongs to; undefined for a floor's log. */
  readonly sessionId: SessionId | undefined;
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
export class SessionLog implements FollowedLog {
  readonly sessionId: SessionId;
  readonly #store: LogStore;

  constructor(store: LogStore, sessionId: SessionId) {
    this.sessionId = sessionId;
    this.#store = store;
  }

  placeOf(entry: FollowedEntry): number | undefined {
    return entry.sessionId === this.sessionId ? entry.seq : undefined;
  }

  isShown(): boolean {
    return true;
  }

  endsWith(entry: FollowedEntry): boolean {
    return entry.ends;
  }

  readFrom(place: number, limit: number): Promise<HistoryPage> {
    return readSessionPage(this.#store, this.sessionId, Math.max(0, place - 1), limit);
  }

  readAfter({ seq }: LogEntry, limit: number): Promise<HistoryPage> {
    return readSessionPage(this.#store, this.sessionId, seq!, limit);
  }
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
export class FloorLog implements FollowedLog {
  readonly sessionId = undefined;
  readonly #store: LogStore;
  readonly #floorId: FloorId;

  constructor(store: LogStore, floorId: FloorId) {
    this.#store = store;
    this.#floorId = floorId;
  }

  placeOf(entry: FollowedEntry): number {
    return entry.floorSeq;
  }

  isShown({ type }: FollowedEntry): boolean {
    return FLOOR_EVENTS.has(type);
  }

  endsWith(): boolean {
    return false;
  }

  readFrom(place: number, limit: number): Promise<HistoryPage> {
    return readFloorPage(this.#store, this.#floorId, place, limit);
  }

  readAfter({ floorSeq }: LogEntry, limit: number): Promise<HistoryPage> {
    return readFloorPage(this.#store, this.#floorId, floorSeq, limit);
  }
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
  /** Joined for this stream, which gives it back when it is closed. */
  follower: Follower;
  followers: Pick<Followers, "leave">;
  store: LogStore;
  clock: Clock;
}

/**
 * Sends one log to one reader: its history from the reader's position on, then live events. A node has thousands of idle
 * streams, so a stream keeps no function of the request that opened it: with one, all of the request stays in memory.
 */
export class LogStream implements Stream, TrackReader {
  readonly writer: SseWriter;
  readonly #followers: Pick<Followers, "leave">;
  readonly #store: LogStore;
  readonly #clock: Clock;
  readonly #log: FollowedLog;
  readonly #track: Track;
  #place: number;
  /** The place that the reader was told last. */
  #toldPlace: number;

  constructor(
    { writer, follower, followers, store, clock }: LogStreamOptions,
    log: FollowedLog,
    { after, reset }: Start,
  ) {
    const { sessionId } = log;
    this.writer = writer;
    this.#followers = followers;
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#place = after;
    this.#toldPlace = after;
    const id = logPosition(store.epoch, after);
    const about = sessionId === undefined ? {} : { sessionId };
    writer.place(id);
    if (reset) writer.tell("reset", { ...about, from: after }, this.now(), { ...about, id });
    this.#track = new Track(follower, this);
    writer.source = this.#track;
  }

  begin(): void {
    this.#track.advance();
  }

  close(): void {
    this.#track.close();
    this.#followers.leave(this.#track.follower.floorId);
  }

  now(): number {
    return this.#clock.now();
  }

  sessions(): Iterable<SessionId> {
    const { sessionId } = this.#log;
    return sessionId === undefined ? [] : [sessionId];
  }

  readHistory(limit: number, after: LogEntry | undefined): Promise<HistoryPage> {
    return after ? this.#log.readAfter(after, limit) : this.#log.readFrom(this.#place, limit);
  }

  take(entry: FollowedEntry): "go" | "end" {
    const place = this.#log.placeOf(entry);
    if (place === undefined || place <= this.#place) return "go";
    this.#place = place;
    if (this.#log.isShown(entry)) {
      this.writer.write(this.#placed(entry));
      this.#toldPlace = place;
    }
    if (!this.#log.endsWith(entry)) return "go";
    this.#track.close();
    this.writer.bye("ended", this.now());
    return "end";
  }

  /**
   * Tell the position after entries that are not shown, once for all of them: the reader learns that the log has grown,
   * and does not come back to a position that was pruned meanwhile.
   */
  caughtUp(): void {
    if (this.#toldPlace === this.#place) return;
    this.#toldPlace = this.#place;
    this.writer.place(logPosition(this.#store.epoch, this.#place));
  }

  /** The frame is made for the first reader of a session and shared by all of them. */
  #placed(entry: FollowedEntry): Frame {
    const position = logPosition(this.#store.epoch, this.#place);
    if (this.#log.sessionId === undefined) return placeFrame(position, entry.frame);
    entry.sessionFrame ??= placeFrame(position, entry.frame);
    return entry.sessionFrame;
  }
}
