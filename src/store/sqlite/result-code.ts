import { FileInUse, FileMoved } from "./file-identity.ts";

/**
 * The kind of a database error. `engine`: the machine failed, whatever the request; `damage`: a page that the request
 * needs is damaged; `taken`: a unique key exists; `data`: the request itself is invalid.
 */
export type FileFault = "engine" | "damage" | "taken" | "data";

/** https://sqlite.org/rescode.html; the low byte of a code is its kind. */
const SQLITE_ERROR = 1;
const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_TOOBIG = 18;
const SQLITE_CONSTRAINT = 19;
const SQLITE_MISMATCH = 20;
const SQLITE_RANGE = 25;
const SQLITE_NOTADB = 26;
/** The largest size of a file is reached, or the quota of a network's disk. */
const SQLITE_IOERR_WRITE = 778;
const KEY_CONFLICTS = new Set([1555, 2067, 2579]);
const DATA = new Set([SQLITE_ERROR, SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_RANGE]);

/** The kind of an error. */
export function fileFaultOf(error: unknown): FileFault {
  if (error instanceof FileMoved || error instanceof FileInUse) return "engine";
  const code = errorCodeOf(error);
  if (code === undefined) return "data";
  if (KEY_CONFLICTS.has(code)) return "taken";
  if (isDamaged(error) || isNotDatabase(error)) return "damage";
  return DATA.has(code & 0xff) ? "data" : "engine";
}

/** Whether a read failed because of the database or the disk, and not because of this program. */
export function isUnreadable(error: unknown): boolean {
  return errorCodeOf(error) !== undefined || (error as NodeJS.ErrnoException)?.code === "ERR_INVALID_STATE";
}

export const isBusy = (error: unknown): boolean => ((errorCodeOf(error) ?? 0) & 0xff) === SQLITE_BUSY;
export const isDamaged = (error: unknown): boolean => ((errorCodeOf(error) ?? 0) & 0xff) === SQLITE_CORRUPT;
/** Whether a write failed because the disk is full. */
export const isWithoutRoom = (error: unknown): boolean =>
  [SQLITE_FULL, SQLITE_IOERR_WRITE].includes(errorCodeOf(error) ?? 0);
export const isNotDatabase = (error: unknown): boolean => errorCodeOf(error) === SQLITE_NOTADB;

function errorCodeOf(error: unknown): number | undefined {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return code === "ERR_SQLITE_ERROR" && typeof errcode === "number" ? errcode : undefined;
}
