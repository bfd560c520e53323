import { AppError } from "../../protocol/errors.ts";
import type { Seq, SessionId } from "../../protocol/ids.ts";
import type { Session } from "../../protocol/session.ts";
import type { FloorRecord, SessionRow } from "../../store/store.ts";
import { arbiterMachine } from "../floor/arbiter.ts";
import { recallSession, type SessionContext } from "../session/session-context.ts";

/**
 * The version of the snapshots that this release writes. It reads all older ones too (rule C24).
 * Version 1: one session is heard at a time. Version 2: the arbiter lists the ducked sessions. Version 3: the snapshot
 * names the sessions that matter, and their rows hold them.
 */
export const SNAPSHOT_FORMAT = 3;

/** The content of a floor's row without its columns. */
export interface FloorSnapshot {
  /** XState's persisted snapshot of the arbiter; before version 3 with its sessions inside. */
  actors: Record<string, unknown>;
  /** The sessions to restore from their rows. */
  sessionIds: SessionId[];
  /** The last `seq` of each session inside `actors`. */
  seqs: Map<SessionId, Seq>;
  /** The largest `now` given to the machines, in ms since 1970. */
  lastNow: number;
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
export function writeSnapshot(actors: string, sessionIds: ReadonlySet<SessionId>, lastNow: number): string {
  const ids = JSON.stringify([...sessionIds]);
  return `{"machine":"${arbiterMachine.id}","lastNow":${lastNow},"sessions":${ids},"actors":${actors}}`;
}

/**
 * Read a floor's row, and upgrade the snapshot of an older release; nothing else upgrades snapshots.
 * @throws AppError `unavailable` for a snapshot of a newer release: another node may be able to read it
 * @throws BrokenSnapshot for anything else that this release did not write
 */
export function readSnapshot({ snapshot, format }: FloorRecord): FloorSnapshot {
  if (format > SNAPSHOT_FORMAT) throw new AppError("unavailable", "this floor was written by a newer release");
  const parsed = parse(snapshot);
  if (!isRecord(parsed) || parsed["machine"] !== arbiterMachine.id) {
    throw new BrokenSnapshot("another machine wrote it");
  }
  const { lastNow, sessions = [], seqs = {}, actors } = parsed;
  const isWhole = typeof lastNow === "number" && isRecord(seqs) && isRecord(actors) && Array.isArray(sessions);
  if (!isWhole || !((format < 3 ? "seqs" : "sessions") in parsed)) throw new BrokenSnapshot("parts are missing");
  if (format < 2) upgrade(actors);
  const ofSessions = new Map(Object.entries(seqs) as [SessionId, Seq][]);
  return { actors, sessionIds: sessions as SessionId[], seqs: ofSessions, lastNow };
}

/**
 * The arbiter's persisted snapshot with the sessions of these rows, as `FloorActors` restores it.
 * @throws BrokenSnapshot
 */
export function withSessions({ actors }: FloorSnapshot, rows: readonly SessionRow[]): Record<string, unknown> {
  const children = rows.map(({ session, memory }) => {
    const { state: lifecycle, activity } = session;
    const context = recall(session, memory);
    return [session.id, { src: "session", snapshot: { status: "active", value: { lifecycle, activity }, context } }];
  });
  return { ...actors, children: Object.fromEntries(children) };
}

function recall(session: Session, memory: string): SessionContext {
  try {
    return recallSession(session, memory);
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

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** From version 1 to 2: version 1 had no ducked sessions. */
function upgrade(actors: Record<string, unknown>): void {
  const { context } = actors;
  if (!isRecord(context) || !isRecord(context["floor"])) throw new BrokenSnapshot("it has no floor");
  context["floor"]["ducked"] ??= [];
}
