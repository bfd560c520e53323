// Rule C20 of docs/inside/correctness.md.
import type { LogEntry } from "../../protocol/event.ts";
import { isFloorEvent } from "../../protocol/event-logs.ts";
import { type Frame, positionedFrame } from "../../protocol/frames.ts";
import type { FloorId, FloorSeq, Seq, SessionId } from "../../protocol/ids.ts";
import { logPosition, parseLogPosition } from "../../protocol/position.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { LogSlice, LogStore } from "../../store/store.ts";
import type { FollowedEntry, Follower } from "./follower.ts";
import type { Followers } from "./followers.ts";
import type { Stream } from "./open-streams.ts";
import type { SseWriter } from "./sse-writer.ts";
import { type HistoryPage, Track, type TrackReader } from "./track.ts";

/**
 * Where a reader begins: after the position that it sent, or at the head with a `reset` if that is impossible (C20).
 */
export interface Start {
  after: number;
  reset: boolean;
}

/**
 * A position that is unknown, foreign, of an earlier session with the same id, in the future or pruned leads to a
 * `reset`. It is never guessed.
 * @param log `incarnation`: of its session; undefined for a floor, and for a session that is deleted
 */
export function startAfter(
  position: string | undefined,
  log: { epoch: string; head: number; lowWater: number; incarnation?: string | undefined },
): Start {
  const {
    epoch,
    seq,
    incarnation = log.incarnation,
  } = (position === undefined ? { epoch: log.epoch, seq: 0 } : parseLogPosition(position)) ?? {};
  const isGood =
    epoch === log.epoch &&
    seq! <= log.head &&
    seq! >= log.lowWater &&
    (log.incarnation === undefined || incarnation === log.incarnation);
  return isGood ? { after: seq!, reset: false } : { after: log.head, reset: true };
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
 * Sends one log to one reader: its history from the reader's position on, then live events. A node has thousands of
 * idle streams, so a stream keeps no function of the request that opened it: with one, all of the request stays in
 * memory.
 */
export class LogStream implements Stream, TrackReader {
  readonly writer: SseWriter;
  readonly #followers: Pick<Followers, "leave">;
  readonly #store: LogStore;
  readonly #clock: Clock;
  readonly #log: FollowedLog;
  readonly #track: Track;
  #seq: number;
  /** The `seq` of the position that was sent to the reader last. */
  #sentSeq: number;

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
    this.#seq = after;
    this.#sentSeq = after;
    const about = sessionId === undefined ? {} : { sessionId };
    // A reader that sent its position has it, and one without a position begins with the first event.
    if (reset) writer.send("reset", { ...about, from: after }, this.now(), { ...about, id: this.#position });
    this.#track = new Track(follower, this);
    writer.source = this.#track;
  }

  get isResumable(): boolean {
    return true;
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

  read(after: LogEntry | undefined, limit: number): Promise<HistoryPage> {
    return this.#log.read(after ?? this.#seq, limit);
  }

  receive(entry: FollowedEntry): "go" | "end" {
    const seq = this.#log.seqOf(entry);
    if (seq === undefined || seq <= this.#seq) return "go";
    this.#seq = seq;
    if (this.#log.isShown(entry)) {
      flow.onHop?.("log", `${entry.type} at ${seq}`);
      this.writer.write(this.#positioned(entry));
      this.#sentSeq = seq;
    }
    if (!this.#log.endsWith(entry)) return "go";
    this.#track.close();
    this.writer.endEarly("ended", this.now());
    return "end";
  }

  /**
   * Send the position after entries that are not shown, once for all of them: the reader learns that the log has grown,
   * and does not come back to a position that was pruned meanwhile.
   */
  caughtUp(): void {
    if (this.#sentSeq === this.#seq) return;
    this.#sentSeq = this.#seq;
    this.writer.sendPosition(this.#position);
  }

  get #position(): string {
    return logPosition(this.#store.epoch, this.#seq, this.#log.incarnation);
  }

  /** The frame is made for the first reader of a session and shared by all of them. */
  #positioned(entry: FollowedEntry): Frame {
    const position = this.#position;
    if (this.#log.sessionId === undefined) return positionedFrame(position, entry.frame);
    entry.sessionFrame ??= positionedFrame(position, entry.frame);
    return entry.sessionFrame;
  }
}

/** A log that a stream shows: which entries of the floor belong to it, and their numbers in it. */
export interface FollowedLog {
  /** The session that the log belongs to; undefined for a floor's log. */
  readonly sessionId: SessionId | undefined;
  /** Part of the log's positions: which session of this id it belongs to. */
  readonly incarnation: string | undefined;
  /** The entry's number in this log, from 1; undefined if the entry is not part of it. */
  seqOf(entry: FollowedEntry): number | undefined;
  /** Whether readers receive the entry. An entry that is not shown still advances the reader's position. */
  isShown(entry: FollowedEntry): boolean;
  /** Whether the log ends with the entry. */
  endsWith(entry: FollowedEntry): boolean;
  /**
   * The entries after one of this log, or after a reader's position, including its last one where that locates the
   * reader on the floor.
   */
  read(after: LogEntry | number, limit: number): Promise<HistoryPage>;
}

/** `GET /session/{id}/events`: every event of one session. */
export class FollowedSessionLog implements FollowedLog {
  readonly sessionId: SessionId;
  readonly incarnation: string | undefined;
  readonly #store: LogStore;

  /** @param incarnation absent: no positions of the log are sent */
  constructor(store: LogStore, sessionId: SessionId, incarnation?: string) {
    this.sessionId = sessionId;
    this.incarnation = incarnation;
    this.#store = store;
  }

  seqOf(entry: FollowedEntry): number | undefined {
    return entry.sessionId === this.sessionId ? entry.seq : undefined;
  }

  isShown(): boolean {
    return true;
  }

  endsWith(entry: FollowedEntry): boolean {
    return entry.ends;
  }

  read(after: LogEntry | number, limit: number): Promise<HistoryPage> {
    const seq = typeof after === "number" ? Math.max(0, after - 1) : after.seq!;
    return readSessionPage(this.#store, this.sessionId, seq, limit);
  }
}

/** `GET /floor/{id}/events`: the decisions of one floor and the transitions of all its sessions. */
export class FollowedFloorLog implements FollowedLog {
  readonly sessionId = undefined;
  readonly incarnation = undefined;
  readonly #store: LogStore;
  readonly #floorId: FloorId;

  constructor(store: LogStore, floorId: FloorId) {
    this.#store = store;
    this.#floorId = floorId;
  }

  seqOf(entry: FollowedEntry): number {
    return entry.floorSeq;
  }

  isShown({ type }: FollowedEntry): boolean {
    return isFloorEvent(type);
  }

  endsWith(): boolean {
    return false;
  }

  read(after: LogEntry | number, limit: number): Promise<HistoryPage> {
    return readFloorPage(this.#store, this.#floorId, typeof after === "number" ? after : after.floorSeq, limit);
  }
}

/**
 * A session's log after a position; for a deleted session, its last event (rule C20). Undefined for an unknown session.
 */
export async function readSessionLog(
  store: LogStore,
  id: SessionId,
  after: Seq,
  limit: number,
): Promise<LogSlice | undefined> {
  const slice = await store.readSessionLog(id, after, limit);
  if (slice) return slice;
  const tombstone = (await store.whereIs(id))?.tombstone;
  if (!tombstone) return undefined;
  const { head, last } = tombstone;
  return { entries: head > after ? [last] : [], head, lowWater: head };
}

/** A page of a session's log after a position. */
export async function readSessionPage(store: LogStore, id: SessionId, after: Seq, limit: number): Promise<HistoryPage> {
  const { entries, head } = (await readSessionLog(store, id, after, limit)) ?? { entries: [], head: 0 };
  return { entries, isLast: entries.length === 0 || entries.at(-1)!.seq! >= head };
}

/** A page of a floor's log after a `floorSeq`. */
export async function readFloorPage(
  store: LogStore,
  id: FloorId,
  after: FloorSeq,
  limit: number,
): Promise<HistoryPage> {
  const { entries, head } = await store.readFloorLog(id, after, limit);
  return { entries, isLast: entries.length === 0 || entries.at(-1)!.floorSeq >= head };
}
