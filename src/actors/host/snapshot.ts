// Rules C6 and C24 of docs/inside/correctness.md.
import { AppError } from "../../protocol/errors.ts";
import type { FloorId, FloorSeq, MessageId, Seq, SessionId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import { isObject } from "../../shared/json.ts";
import type { FloorRecord, FloorStore, LogStore, SessionRow } from "../../store/store.ts";
import { recallSession } from "../session/session-context.ts";
import type { SessionInput } from "../session/session-machine.ts";
import { FloorActors } from "./floor-actors.ts";

/** The format of the snapshots that this release writes and reads (rule C24). */
export const SNAPSHOT_FORMAT = 1;

/** The id of the machine whose state it holds: `arbiterMachine`. */
const MACHINE = "arbiter";

/** The content of a floor's row without its columns. */
export interface FloorSnapshot {
  /** XState's persisted snapshot of the arbiter. */
  arbiter: Record<string, unknown>;
  /** The sessions to restore from their rows. */
  sessionIds: SessionId[];
  /** The largest `now` given to the machines, in ms since 1970. */
  lastNow: number;
  /** The earliest deadline that a session outside may have, in the floor's time; absent: none has any. */
  outside?: FloorTime | undefined;
}

/** A row that is damaged, or of another program. Its floor fails every command until an operator repairs the row. */
export class BrokenSnapshot extends Error {
  constructor(reason: string, cause?: unknown) {
    super(`the floor's snapshot cannot be read: ${reason}`, { cause });
    this.name = "BrokenSnapshot";
  }
}

/**
 * @param actors the output of `FloorActors.persist`
 * @param sessionIds the output of `FloorActors.neededIds`
 */
export function writeSnapshot(
  actors: string,
  sessionIds: ReadonlySet<SessionId>,
  lastNow: number,
  outside?: FloorTime,
): string {
  const ids = JSON.stringify([...sessionIds]);
  const due = outside === undefined ? "" : `"outside":${outside},`;
  return `{"machine":"${MACHINE}","lastNow":${lastNow},${due}"sessions":${ids},"actors":${actors}}`;
}

/**
 * Read a floor's row.
 * @throws AppError `unavailable` for a snapshot of another release: another node may be able to read it
 * @throws BrokenSnapshot for anything else that this release did not write
 */
export function readSnapshot({ snapshot, format }: FloorRecord): FloorSnapshot {
  if (format !== SNAPSHOT_FORMAT) throw new AppError("unavailable", "this floor was written by another release");
  const parsed = parse(snapshot);
  if (!isObject(parsed) || parsed["machine"] !== MACHINE) {
    throw new BrokenSnapshot("another machine wrote it");
  }
  const { lastNow, outside, sessions, actors } = parsed;
  const isWhole = typeof lastNow === "number" && isObject(actors) && Array.isArray(sessions);
  if (!isWhole) throw new BrokenSnapshot("parts are missing");
  return { arbiter: actors, sessionIds: sessions as SessionId[], lastNow, outside: outside as FloorTime | undefined };
}

/** A session's state from its row. @throws BrokenSnapshot */
export function readSession({ session, memory }: SessionRow): SessionInput {
  const { state: lifecycle, activity } = session;
  try {
    return { context: recallSession(session, memory), lifecycle, activity };
  } catch (error) {
    throw new BrokenSnapshot(`the memory of session ${session.id} is not JSON`, error);
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new BrokenSnapshot("it is not JSON", error);
  }
}

/** The state of a floor's rows. While a batch is in flight, it is ahead of the store. */
export interface LedgerState {
  version: number;
  head: FloorSeq;
  /** The largest `now` given to the machines, in ms since 1970. They never get a smaller one (rule C9). */
  lastNow: number;
  /** The floor's alarm: its earliest deadline, in the floor's time. */
  alarmAt: FloorTime | undefined;
  /** No session outside the actors has an earlier deadline, in the floor's time; undefined: none has any. */
  outsideDueAt: FloorTime | undefined;
  /** The last `seq` of each session in the actors. */
  seqs: Map<SessionId, Seq>;
  /** Unfinished messages with their text so far, by `draftKey`. */
  drafts: Map<string, Message>;
}

/** The key of a message among the unfinished ones. A message's id is unique within its session only. */
export const draftKey = (sessionId: SessionId, id: MessageId): string => `${sessionId}/${id}`;

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

/** Add a session to the actors, from its row. @throws BrokenSnapshot if the row is out of order */
export function loadRow(row: SessionRow, actors: FloorActors, state: Activation["state"]): void {
  const { id } = row.session;
  state.seqs.set(id, row.head);
  try {
    actors.load(readSession(row));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new BrokenSnapshot(`the machines refuse the states of session ${id}`, error);
  }
}
