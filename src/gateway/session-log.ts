import type { Seq, SessionId } from "../protocol/ids.ts";
import type { LogSlice, Store } from "../store/store.ts";

/**
 * A session's log after a place; of a session that is deleted, its last event (rule C20). Undefined when there is
 * neither.
 */
export async function readSessionLog(
  store: Pick<Store, "readSessionLog" | "whereIs">,
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
