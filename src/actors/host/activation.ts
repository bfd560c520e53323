import type { FloorId, SessionId } from "../../protocol/ids.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import type { FloorStore, LogStore, SessionRow } from "../../store/store.ts";
import { FloorActors } from "./floor-actors.ts";
import { draftKey, type LedgerState } from "./ledger.ts";
import { BrokenSnapshot, readSession, readSnapshot } from "./snapshot.ts";

/** A floor's actors and the state of its rows. The floor drops both together when a commit fails. */
export interface Activation {
  actors: FloorActors;
  state: LedgerState;
}

/** Another host has committed the floor since this one read it. */
export class CommitConflict extends Error {
  override readonly name = "CommitConflict";
}

type Reads = FloorStore & LogStore;

/** Restore a floor from its row and the rows of its sessions. @throws CommitConflict, BrokenSnapshot, AppError */
export async function loadActivation(id: FloorId, store: Reads): Promise<Activation> {
  const record = await store.loadFloor(id);
  if (!record) {
    const never = { alarmAt: undefined, outsideDueAt: undefined };
    const state = { version: 0, head: 0, lastNow: 0, ...never, seqs: new Map(), drafts: new Map() };
    return { actors: new FloorActors(id), state };
  }
  const { version, head, alarm } = record;
  const snapshot = readSnapshot(record);
  const rows = await loadSessions(id, version, snapshot.sessionIds, store);
  const drafts = await loadDrafts(id, store);
  const { lastNow, outside } = snapshot;
  const seqs = new Map(rows.map((row) => [row.session.id, row.head]));
  const saved = { arbiter: snapshot.arbiter, sessions: rows.map(readSession) };
  try {
    const state = {
      version,
      head,
      lastNow,
      alarmAt: alarm as FloorTime | undefined,
      outsideDueAt: outside,
      seqs,
      drafts,
    };
    return { actors: new FloorActors(id, saved, lastNow), state };
  } catch (error) {
    throw new BrokenSnapshot("the machines refuse its state", error);
  }
}

/** All texts so far: they are continued in memory. They are read page by page, so that other floors go on meanwhile. */
async function loadDrafts(id: FloorId, store: Reads): Promise<LedgerState["drafts"]> {
  const drafts: LedgerState["drafts"] = new Map();
  let next: number | undefined;
  do {
    const page = await store.loadDrafts(id, next);
    for (const message of page.messages) drafts.set(draftKey(message.sessionId, message.id), message);
    next = page.next;
  } while (next !== undefined);
  return drafts;
}

/** The rows of the sessions that the floor's snapshot of this version names. */
async function loadSessions(
  id: FloorId,
  version: number,
  sessionIds: readonly SessionId[],
  store: Reads,
): Promise<SessionRow[]> {
  if (sessionIds.length === 0) return [];
  const rows = (await store.loadSessions(sessionIds)).filter(({ session }) => session.floorId === id);
  if (rows.length === sessionIds.length) return rows;
  // Another node may have deleted a session after this node read the floor's row.
  if (!(await store.confirm(id, version))) throw new CommitConflict();
  throw new BrokenSnapshot("the row of a session is missing");
}
