import type { Clock } from "../protocol/clock.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { FloorId, FloorSeq, Seq, SessionId } from "../protocol/ids.ts";
import type { LogSlice, Store } from "../store/store.ts";
import { type FollowedEntry, type Follower, placeFrame } from "./follower.ts";
import { readSessionLog } from "./session-log.ts";
import type { SseWriter } from "./sse-writer.ts";
import { Track, type TrackReader } from "./track.ts";

/** A session that a connection's stream carries. */
export interface Binding {
  slot: number;
  sessionId: SessionId;
  seq: Seq;
  /** The row says that the slot is free: its last event may be sent. */
  isEndRecorded: boolean;
}

export interface ConnectionFloorOptions {
  writer: SseWriter;
  store: Pick<Store, "whereIs" | "readSessionLog" | "readFloorLog">;
  clock: Clock;
  /** The connection's position as it is now. */
  position: () => string;
  /** Free the slot in the connection's row: before the slot's last event is sent. */
  recordEnd: (binding: Binding) => Promise<void>;
  /** The slot's last event is sent next. */
  release: (binding: Binding) => void;
  /** It carries nothing any more. */
  drop: (floor: ConnectionFloor) => void;
}

/** The sessions of one floor that a connection carries, in the order in which things happen on that floor. */
export class ConnectionFloor implements TrackReader {
  readonly writer: SseWriter;
  readonly track: Track;
  readonly #options: ConnectionFloorOptions;
  readonly #bindings = new Map<SessionId, Binding>();
  readonly floorId: FloorId;

  constructor(options: ConnectionFloorOptions, follower: Follower, bindings: readonly Binding[]) {
    this.writer = options.writer;
    this.#options = options;
    this.floorId = follower.floorId;
    for (const binding of bindings) this.#bindings.set(binding.sessionId, binding);
    this.track = new Track(follower, this);
  }

  add(bindings: readonly Binding[]): void {
    for (const binding of bindings) this.#bindings.set(binding.sessionId, binding);
    this.track.reread();
  }

  now(): number {
    return this.#options.clock.now();
  }

  sessions(): Iterable<SessionId> {
    return this.#bindings.keys();
  }

  async readHistory(limit: number): Promise<LogSlice | undefined> {
    const { store } = this.#options;
    const bindings = [...this.#bindings.values()];
    const [only] = bindings;
    if (bindings.length === 1) return readSessionLog(store, only!.sessionId, Math.max(0, only!.seq - 1), limit);
    // The floor's own log keeps the order across sessions; it is read from the first event that any of them lacks.
    const { place } = this.track.follower;
    let next: FloorSeq | undefined;
    const had: LogEntry[] = [];
    const looks = bindings.map(async ({ sessionId, seq }) => {
      return { seq, slice: await readSessionLog(store, sessionId, Math.max(0, seq - 1), 2) };
    });
    for (const { seq, slice } of await Promise.all(looks)) {
      const first = slice?.entries.find((entry) => entry.seq! > seq);
      if (first && (next === undefined || first.floorSeq < next)) next = first.floorSeq;
      had.push(...(slice?.entries.filter((entry) => entry.seq === seq) ?? []));
    }
    if (next === undefined) return { entries: had, head: 0, lowWater: 0 };
    // What was committed between two of these looks comes after `place`.
    return store.readFloorLog(this.floorId, Math.min(next - 1, place), limit);
  }

  take(entry: FollowedEntry): "go" | "hold" | "end" {
    const binding = entry.sessionId && this.#bindings.get(entry.sessionId);
    if (!binding || entry.seq! <= binding.seq) return "go";
    if (entry.ends && !binding.isEndRecorded) {
      this.#options.recordEnd(binding).then(
        () => this.track.resume(),
        () => this.writer.destroy(),
      );
      return "hold";
    }
    binding.seq = entry.seq!;
    if (entry.ends) {
      this.#bindings.delete(binding.sessionId);
      this.#options.release(binding);
    }
    this.writer.write(placeFrame(this.#options.position(), entry.frame));
    if (this.#bindings.size > 0) return "go";
    this.#options.drop(this);
    return "end";
  }
}
