// Rule C27 of docs/inside/correctness.md.
import { type BigIntStats, statSync } from "node:fs";
import { dirname } from "node:path";

/** The path now names another file than the open one, so a restart would not find what is written. */
export class FileMoved extends Error {
  override readonly name = "FileMoved";
}

/** The file has another owner, which took a new lock after the one of this process was removed (rule C27). */
export class FileInUse extends Error {
  override readonly name = "FileInUse";
}

/**
 * What the store opened: the identities of the database and of its lock. Undefined while the files are being created.
 */
export interface OpenedFiles {
  database: string | undefined;
  lock: string | undefined;
}

/**
 * How long a folder's time of change has to stay the same before it is trusted, in ms. File systems record times in
 * steps of up to two seconds (FAT), and a change in the same step would not alter the time.
 */
const STABLE_MS = 3_000;

type Stat = (path: string) => BigIntStats | undefined;

const statFile: Stat = (path) => statSync(path, { bigint: true, throwIfNoEntry: false });

const identityIn = (facts: BigIntStats | undefined): string | undefined => facts && `${facts.dev}:${facts.ino}`;

/** The file beside a database by which one process owns it. */
export const lockOf = (file: string): string => `${file}-lock`;

/** The file's device and inode number; undefined if the path does not exist. */
export function identityOf(path: string): string | undefined {
  return identityIn(statFile(path));
}

/**
 * Detects that a database file or its write-ahead log was moved, removed or replaced while it is open, and that another
 * process has opened it after its lock was removed.
 *
 * The log's own times are not read for every commit: Linux then records a new time with its next write, and the commit
 * waits for this time to be on disk too. Each of the changes above also alters the folder's time of change, which no
 * program can set. The files are compared only after this time has changed.
 */
export class FileGuard {
  readonly #file: string;
  readonly #folder: string;
  readonly #opened: OpenedFiles;
  readonly #monotonic: () => number;
  readonly #stat: Stat;
  #log: string | undefined;
  /** The folder's identity and time of change, and since when they have been the same. */
  #stamp = "";
  #since = 0;
  /** The folder's stamp at the last check of both files, once its time was trusted. */
  #checked: string | undefined;

  /**
   * @param opened the files when the store was opened
   * @param monotonic ms since an arbitrary start
   */
  constructor(
    file: string,
    opened: OpenedFiles,
    { monotonic = () => performance.now(), stat = statFile }: { monotonic?: () => number; stat?: Stat } = {},
  ) {
    this.#file = file;
    this.#folder = dirname(file);
    this.#opened = opened;
    this.#monotonic = monotonic;
    this.#stat = stat;
  }

  /** @throws FileMoved, FileInUse */
  checkFile(): void {
    if (this.#readStamp() !== this.#checked) this.#compareFile();
  }

  /** Call it after a commit, when the write-ahead log exists. @throws FileMoved, FileInUse */
  check(): void {
    const stamp = this.#readStamp();
    if (stamp === this.#checked) return;
    this.#compareFile();
    this.#compareLog();
    if (this.#monotonic() - this.#since >= STABLE_MS) this.#checked = stamp;
  }

  #readStamp(): string {
    const facts = this.#stat(this.#folder);
    const stamp = `${identityIn(facts)}:${facts?.ctimeNs}`;
    if (stamp !== this.#stamp) {
      this.#stamp = stamp;
      this.#since = this.#monotonic();
    }
    return stamp;
  }

  #compareFile(): void {
    if (identityIn(this.#stat(this.#file)) !== this.#opened.database) {
      throw new FileMoved(`${this.#file} was moved, removed or replaced while it was open: put it back`);
    }
    const lock = identityIn(this.#stat(lockOf(this.#file)));
    // A lock that is only missing does no harm: its next owner makes another one.
    if (lock === undefined || lock === this.#opened.lock) return;
    throw new FileInUse(
      `${this.#file} was opened by another process, after ${lockOf(this.#file)} was removed: stop one of the two`,
    );
  }

  #compareLog(): void {
    const log = identityIn(this.#stat(`${this.#file}-wal`));
    this.#log ??= log;
    if (log !== undefined && log === this.#log) return;
    throw new FileMoved(
      `${this.#file}-wal was moved, removed or replaced while it was open: stop the node with SIGTERM, ` +
        "which writes what it holds into the database",
    );
  }
}
