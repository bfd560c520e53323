// Rule C20 of docs/inside/correctness.md.
import type { LogEntry } from "../../protocol/event.ts";
import { isFloorEvent } from "../../protocol/event-logs.ts";
import type { FloorId, FloorSeq, Seq, SessionId } from "../../protocol/ids.ts";
import type { LogSlice, LogStore } from "../../store/store.ts";
import type { FollowedEntry } from "./follower.ts";
import type { HistoryPage } from "./track.ts";

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
