import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { isWithoutRoom } from "./result-code.ts";

const PAGE_BYTES = 4_096;
/** Pages of the log that are copied into the database together. A page that several commits wrote is copied once. */
const MAX_PAGES = 4_000;
/** Fewer pages would make most commits wait for a copy. */
const MIN_PAGES = 100;
/** The part of the free space that the log may take, so that the database has room for its pages. */
const SHARE_OF_FREE = 1 / 8;
/** The pause after a copy that found no room, in ms: each one may read the whole log. */
const PAUSE_MS = 1_000;

/** How many pages the write-ahead log of a file may have before they are copied into it: fewer on a small disk. */
export function pagesBeforeCheckpoint(file: string): number {
  return checkpointPages(freeBytes(dirname(file)));
}

/** The pages for a disk with so much free space. */
export function checkpointPages(free: number): number {
  const pages = Math.floor((free * SHARE_OF_FREE) / PAGE_BYTES);
  return Math.min(MAX_PAGES, Math.max(MIN_PAGES, pages));
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/**
 * Copies the write-ahead log into the database and empties it when the disk is full. SQLite copies it only after a
 * commit, and no commit succeeds while the log cannot grow, so a log that has filled a disk would keep it full.
 */
export class LogCheckpoint {
  readonly #db: DatabaseSync;
  readonly #monotonic: () => number;
  #failedAt = Number.NEGATIVE_INFINITY;

  /** @param monotonic ms since an arbitrary start */
  constructor(db: DatabaseSync, monotonic: () => number = () => performance.now()) {
    this.#db = db;
    this.#monotonic = monotonic;
  }

  /** Make room after this error of a write. @returns whether the write is worth another try */
  makeRoomAfter(error: Error): boolean {
    if (!isWithoutRoom(error) || this.#monotonic() - this.#failedAt < PAUSE_MS) return false;
    const isEmptied = this.#emptyLog();
    if (!isEmptied) this.#failedAt = this.#monotonic();
    return isEmptied;
  }

  #emptyLog(): boolean {
    try {
      return this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()!["busy"] === 0;
    } catch {
      // The database needs more room than there is. The log still has everything.
      return false;
    }
  }
}
