// Rule C20 of docs/inside/correctness.md.
import type { LogEntry } from "../../protocol/event.ts";
import { type Frame, positionedFrame } from "../../protocol/frames.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { logPosition, parseLogPosition } from "../../protocol/position.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { LogStore } from "../../store/store.ts";
import type { FollowedLog } from "./followed-log.ts";
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
