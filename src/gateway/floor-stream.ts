import type { LoggedType } from "../protocol/event.ts";
import type { FloorId, FloorSeq, SessionId } from "../protocol/ids.ts";
import { logPosition } from "../protocol/position.ts";
import type { LogSlice } from "../store/store.ts";
import { type FollowedEntry, placeFrame } from "./follower.ts";
import type { LogStreamOptions, Start } from "./session-stream.ts";
import type { SseWriter } from "./sse-writer.ts";
import type { Stream } from "./streams.ts";
import { Track, type TrackReader } from "./track.ts";

/** What shows who has the floor and why. */
const SHOWN: ReadonlySet<LoggedType> = new Set([
  "session_created",
  "session_transition",
  "arbitration",
  "agent_switched",
  "floor_updated",
]);

/** `GET /floor/{id}/events`: the decisions of one floor and the transitions of all its sessions. */
export class FloorStream implements Stream, TrackReader {
  readonly writer: SseWriter;
  readonly #options: LogStreamOptions;
  readonly #floorId: FloorId;
  readonly #track: Track;
  #place: FloorSeq;

  constructor(options: LogStreamOptions, floorId: FloorId, start: Start) {
    this.#options = options;
    this.writer = options.writer;
    this.#floorId = floorId;
    this.#place = start.after;
    const id = logPosition(options.store.epoch, start.after);
    this.writer.place(id);
    if (start.reset) this.writer.tell("reset", { from: start.after }, this.now(), { id });
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
    return [];
  }

  readHistory(limit: number): Promise<LogSlice> {
    return this.#options.store.readFloorLog(this.#floorId, this.#place, limit);
  }

  take(entry: FollowedEntry): "go" {
    if (entry.floorSeq <= this.#place) return "go";
    this.#place = entry.floorSeq;
    if (SHOWN.has(entry.type)) {
      this.writer.write(placeFrame(logPosition(this.#options.store.epoch, this.#place), entry.frame));
    }
    return "go";
  }
}
