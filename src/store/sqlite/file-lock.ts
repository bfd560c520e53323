// Rule C27 of docs/inside/correctness.md.
import { DatabaseSync } from "node:sqlite";
import { lockOf } from "./file-identity.ts";
import { isBusy } from "./result-code.ts";

/**
 * Makes one process the owner of a database file (rule C27) by an exclusive transaction that never ends, on a second,
 * empty database beside it. The operating system releases it when the process ends in any way. The empty file remains,
 * because deleting a lock file would allow two owners.
 */
export class FileLock {
  readonly #db: DatabaseSync;

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** @throws Error with a sentence if the file has an owner, or its folder is not writable */
  static acquire(file: string): FileLock {
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(lockOf(file));
      db.exec("BEGIN EXCLUSIVE");
      return new FileLock(db);
    } catch (cause) {
      db?.close();
      const reason = isBusy(cause)
        ? "is in use by another Interlock: a SQLite store has one owner at a time"
        : `cannot be locked: ${(cause as Error).message}`;
      throw new Error(`${file} ${reason}`, { cause });
    }
  }

  release(): void {
    this.#db.close();
  }
}
