// Rule C20 of docs/inside/correctness.md.
import type { FloorId, FloorSeq, Seq, SessionId } from "../../protocol/ids.ts";
import type { LogSlice, LogStore } from "../../store/store.ts";
import type { HistoryPage } from "./track.ts";

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
