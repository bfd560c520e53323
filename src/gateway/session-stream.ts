import type { Clock } from "../protocol/clock.ts";
import type { Seq, SessionId } from "../protocol/ids.ts";
import { logPosition, parseLogPosition } from "../protocol/position.ts";
import type { LogSlice, Store } from "../store/store.ts";
import { type FollowedEntry, type Follower, placeFrame } from "./follower.ts";
import { readSessionLog } from "./session-log.ts";
import type { SseWriter } from "./sse-writer.ts";
import type { Stream } from "./streams.ts";
import { Track, type TrackReader } from "./track.ts";

export interface LogStreamOptions {
  writer: SseWriter;
  follower: Follower;
  store: Pick<Store, "epoch" | "whereIs" | "readSessionLog" | "readFloorLog">;
  clock: Clock;
  onClose: () => void;
}

/** Where a reader begins: after the position it brings, or at the head with a `reset` when that cannot be (C20). */
export interface Start {
  after: number;
  reset: boolean;
}

/** A position that is unknown, foreign, in the future or pruned is never guessed at. */
export function startAfter(
  position: string | undefined,
  log: { epoch: string; head: number; lowWater: number },
): Start {
  const place = position === undefined ? { epoch: log.epoch, seq: 0 } : parseLogPosition(position);
  const isGood = place?.epoch === log.epoch && place.seq <= log.head && place.seq >= log.lowWater;
  return isGood ? { after: place.seq, reset: false } : { after: log.head, reset: true };
}

/** `GET /session/{id}/events`: one session, event by event. */
export class SessionStream implements Stream, TrackReader {
  readonly writer: SseWriter;
  readonly #options: LogStreamOptions;
  readonly #sessionId: SessionId;
  readonly #track: Track;
  #seq: Seq;

  constructor(options: LogStreamOptions, sessionId: SessionId, start: Start) {
    this.#options = options;
    this.writer = options.writer;
    this.#sessionId = sessionId;
    this.#seq = start.after;
    const id = logPosition(options.store.epoch, start.after);
    this.writer.place(id);
    if (start.reset) this.writer.tell("reset", { sessionId, from: start.after }, this.now(), { sessionId, id });
    this.#track = new Track(options.follower, this);
    this.writer.onDrain = () => this.#track.advance();
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
    return [this.#sessionId];
  }

  /** From the event it has last: by that it is known where on the floor the reader stands. */
  readHistory(limit: number): Promise<LogSlice | undefined> {
    return readSessionLog(this.#options.store, this.#sessionId, Math.max(0, this.#seq - 1), limit);
  }

  take(entry: FollowedEntry): "go" | "end" {
    if (entry.sessionId !== this.#sessionId || entry.seq! <= this.#seq) return "go";
    this.#seq = entry.seq!;
    entry.sessionFrame ??= placeFrame(logPosition(this.#options.store.epoch, this.#seq), entry.frame);
    this.writer.write(entry.sessionFrame);
    if (!entry.ends) return "go";
    this.#track.close();
    this.writer.bye("ended", this.now());
    return "end";
  }
}
