import type { LogEntry, Transition } from "../../protocol/event.ts";
import { parseFrame, positionedFrame } from "../../protocol/frames.ts";
import { type FloorId, type FloorSeq, floorOf, type Seq, type SessionId, userOf } from "../../protocol/ids.ts";
import { isContinued } from "../../protocol/written-state.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { LogStore, Slot } from "../../store/store.ts";
import type { FollowedEntry, Follower } from "./follower.ts";
import { readFloorPage, readSessionLog, readSessionPage } from "./log-stream.ts";
import type { SseWriter } from "./sse-writer.ts";
import { type HistoryPage, Track, type TrackReader } from "./track.ts";

/** A session bound to a connection, and how far its stream has sent that session's log. */
export interface LiveSlot {
  slot: number;
  sessionId: SessionId;
  seq: Seq;
  /** When the session was created that was bound; undefined if unknown. */
  sessionCreatedAt?: number | undefined;
  /** The connection's row records that this slot has ended, so its last event may be sent. */
  isEndRecorded: boolean;
}

/** The connection that a floor's sessions are sent to. */
export interface FloorConnection {
  readonly writer: SseWriter;
  /** Its position as it is now. */
  readonly position: string;
  /**
   * Record in the connection's row that the slot has ended, and the session that takes its place, if any. Runs before
   * the slot's last event is sent.
   */
  recordEnd(liveSlot: LiveSlot, successor: Slot | undefined): Promise<void>;
  /** Called just before the slot's last event is sent. */
  release(liveSlot: LiveSlot): void;
  /** Called when no session of this floor is left. */
  drop(floor: ConnectionFloor): void;
}

export interface ConnectionFloorContext {
  store: LogStore;
  clock: Clock;
}

/** The sessions of one floor that a connection carries, in the order of the floor's log. */
export class ConnectionFloor implements TrackReader {
  readonly writer: SseWriter;
  readonly track: Track;
  readonly floorId: FloorId;
  readonly #connection: FloorConnection;
  readonly #context: ConnectionFloorContext;
  readonly #liveSlots = new Map<SessionId, LiveSlot>();

  constructor(
    connection: FloorConnection,
    context: ConnectionFloorContext,
    follower: Follower,
    liveSlots: readonly LiveSlot[],
  ) {
    this.writer = connection.writer;
    this.#connection = connection;
    this.#context = context;
    this.floorId = follower.floorId;
    for (const liveSlot of liveSlots) this.#liveSlots.set(liveSlot.sessionId, liveSlot);
    this.track = new Track(follower, this);
  }

  add(liveSlots: readonly LiveSlot[]): void {
    for (const liveSlot of liveSlots) this.#liveSlots.set(liveSlot.sessionId, liveSlot);
    this.track.reread();
  }

  now(): number {
    return this.#context.clock.now();
  }

  sessions(): Iterable<SessionId> {
    return this.#liveSlots.keys();
  }

  async read(after: LogEntry | undefined, limit: number): Promise<HistoryPage> {
    const { store } = this.#context;
    const liveSlots = [...this.#liveSlots.values()];
    const [only] = liveSlots;
    if (liveSlots.length === 1) {
      const { sessionId, seq } = only!;
      const from = after?.sessionId === sessionId ? after.seq! : Math.max(0, seq - 1);
      return readSessionPage(store, sessionId, from, limit);
    }
    if (after) return readFloorPage(store, this.floorId, after.floorSeq, limit);
    // The floor's own log keeps the order across sessions. Start at the first event that any of the sessions lacks.
    const { floorSeq } = this.track.follower;
    let next: FloorSeq | undefined;
    const had: LogEntry[] = [];
    for (const { sessionId, seq } of liveSlots) {
      const { last, first } = await this.#around(sessionId, seq);
      if (first && (next === undefined || first.floorSeq < next)) next = first.floorSeq;
      if (last) had.push(last);
    }
    if (next === undefined) {
      return { entries: had.sort((one, other) => one.floorSeq - other.floorSeq), isLast: true };
    }
    // Events committed between two of these reads come after `floorSeq`.
    return readFloorPage(store, this.floorId, Math.min(next - 1, floorSeq), limit);
  }

  /** The event at a position in a session's log, and the one after it. */
  async #around(
    sessionId: SessionId,
    seq: Seq,
  ): Promise<{ last?: LogEntry | undefined; first?: LogEntry | undefined }> {
    const { store } = this.#context;
    const slice = await readSessionLog(store, sessionId, Math.max(0, seq - 1), 2);
    const last = slice?.entries.find((entry) => entry.seq === seq);
    const first = slice?.entries.find((entry) => entry.seq! > seq);
    // A page ends early after a large event, so read the next page.
    if (first || !slice || slice.head <= seq) return { last, first };
    return { last, first: (await readSessionLog(store, sessionId, seq, 1))?.entries[0] };
  }

  receive(entry: FollowedEntry): "go" | "wait" | "end" {
    const liveSlot = entry.sessionId && this.#liveSlots.get(entry.sessionId);
    if (!liveSlot || entry.seq! <= liveSlot.seq) return "go";
    if (entry.ends && !liveSlot.isEndRecorded) {
      this.#connection.recordEnd(liveSlot, successorOf(entry, this.floorId)).then(
        () => this.track.resume(),
        () => this.writer.destroy(),
      );
      return "wait";
    }
    liveSlot.seq = entry.seq!;
    if (entry.ends) {
      this.#liveSlots.delete(liveSlot.sessionId);
      this.#connection.release(liveSlot);
    }
    flow.onHop?.("connection", `${entry.type} of ${entry.sessionId}`);
    this.writer.write(positionedFrame(this.#connection.position, entry.frame));
    if (this.#liveSlots.size > 0) return "go";
    this.#connection.drop(this);
    return "end";
  }
}

/** The slot of the session in which an archived one goes on: on the same floor, on its own, or where it moved to. */
function successorOf({ type, frame }: FollowedEntry, floorId: FloorId): Slot | undefined {
  if (type !== "session_transition") return undefined;
  const { reason, by, movedTo } = (parseFrame(frame) as { data: Transition }).data;
  if (!isContinued(reason) || !by) return undefined;
  const { sessionId } = by;
  if (movedTo !== undefined) return { sessionId, floorId: movedTo, from: 0 };
  return {
    sessionId,
    floorId: userOf(floorId) === undefined ? floorOf(sessionId, undefined, undefined) : floorId,
    from: 0,
  };
}
