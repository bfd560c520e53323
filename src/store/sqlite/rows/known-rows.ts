import { RecentMap } from "../../../shared/recent-map.ts";

export interface KnownFloor {
  key: number;
  version: number;
}

/** A session's row, as the writer remembers it. */
export interface KnownSession {
  key: number;
  floorKey: number;
  standing: number | null;
  /** Its title and summary, for the search index. */
  text: string;
  /** The values of its indexed columns, joined; undefined if unknown. */
  columns: string | undefined;
  /** Whether the time of its oldest event is stored. */
  hasOldest: boolean;
}

/** Rows of each kind that are remembered. Each takes some hundred bytes. */
const MAX_KNOWN = 16_384;

/**
 * The rows that the writer's thread knows without a read, because no other thread writes them. All of it must be
 * forgotten on a rollback, because rows are remembered before they are committed.
 */
export class KnownRows {
  readonly floors = new RecentMap<string, KnownFloor>(MAX_KNOWN);
  readonly sessions = new RecentMap<string, KnownSession>(MAX_KNOWN);
  /** The last block of the log with events of a session, by its key. */
  readonly sessionBlocks = new RecentMap<number, number>(MAX_KNOWN);
  /** The last block of the log with decisions, by the floor's key. */
  readonly decisionBlocks = new RecentMap<number, number>(MAX_KNOWN);

  forget(): void {
    this.floors.clear();
    this.sessions.clear();
    this.sessionBlocks.clear();
    this.decisionBlocks.clear();
  }
}
