// Rules C6 and C24 of docs/inside/correctness.md.
import { AppError } from "../../protocol/errors.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { FloorTime } from "../../shared/floor-time.ts";
import type { FloorRecord, SessionRow } from "../../store/store.ts";
import { arbiterMachine } from "../floor/arbiter.ts";
import { recallSession } from "../session/session-context.ts";
import type { SessionInput } from "../session/session-machine.ts";

/** The format of the snapshots that this release writes and reads (rule C24). */
export const SNAPSHOT_FORMAT = 1;

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
  return `{"machine":"${arbiterMachine.id}","lastNow":${lastNow},${due}"sessions":${ids},"actors":${actors}}`;
}

/**
 * Read a floor's row.
 * @throws AppError `unavailable` for a snapshot of another release: another node may be able to read it
 * @throws BrokenSnapshot for anything else that this release did not write
 */
export function readSnapshot({ snapshot, format }: FloorRecord): FloorSnapshot {
  if (format !== SNAPSHOT_FORMAT) throw new AppError("unavailable", "this floor was written by another release");
  const parsed = parse(snapshot);
  if (!isRecord(parsed) || parsed["machine"] !== arbiterMachine.id) {
    throw new BrokenSnapshot("another machine wrote it");
  }
  const { lastNow, outside, sessions, actors } = parsed;
  const isWhole = typeof lastNow === "number" && isRecord(actors) && Array.isArray(sessions);
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

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
