import { AppError } from "../protocol/errors.ts";
import type { Seq, SessionId } from "../protocol/ids.ts";
import type { FloorRecord } from "../store/store.ts";
import { arbiterMachine } from "./arbiter.ts";

/** The version of the machines' snapshots that this release writes; it reads this one and the one before (rule C24). */
export const SNAPSHOT_FORMAT = 1;

/** What a floor's row holds beside its columns. */
export interface FloorSnapshot {
  /** XState's persisted snapshot of the arbiter, with its sessions inside. */
  actors: unknown;
  /** Where the logs of those sessions stand. */
  seqs: Map<SessionId, Seq>;
  /** The newest `now` the machines were given. */
  lastNow: number;
}

/** A row that cannot be read: alien, or damaged. Its floor is out of order until somebody looks. */
export class BrokenSnapshot extends Error {
  constructor(reason: string, cause?: unknown) {
    super(`the floor's snapshot cannot be read: ${reason}`, { cause });
    this.name = "BrokenSnapshot";
  }
}

/** @param actors what `FloorActors.persist` returned */
export function writeSnapshot(actors: string, seqs: Iterable<[SessionId, Seq]>, lastNow: number): string {
  const head = JSON.stringify({ machine: arbiterMachine.id, lastNow, seqs: Object.fromEntries(seqs) });
  return `${head.slice(0, -1)},"actors":${actors}}`;
}

/**
 * The one place where a snapshot of an older release would be upgraded.
 * @throws AppError `unavailable` for one of a newer release: another node may read it
 * @throws BrokenSnapshot for anything else that is not ours
 */
export function readSnapshot({ snapshot, format }: FloorRecord): FloorSnapshot {
  if (format > SNAPSHOT_FORMAT) throw new AppError("unavailable", "this floor was written by a newer release");
  let parsed: { machine?: unknown; lastNow?: unknown; seqs?: unknown; actors?: unknown };
  try {
    parsed = JSON.parse(snapshot);
  } catch (error) {
    throw new BrokenSnapshot("it is not JSON", error);
  }
  if (parsed?.machine !== arbiterMachine.id) throw new BrokenSnapshot("it is not of this machine");
  const { lastNow, seqs, actors } = parsed;
  if (typeof lastNow !== "number" || !isRecord(seqs) || !isRecord(actors))
    throw new BrokenSnapshot("parts are missing");
  return { actors, lastNow, seqs: new Map(Object.entries(seqs) as [SessionId, number][]) };
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
