import { DatabaseSync } from "node:sqlite";
import { isBusy } from "./sqlite-fault.ts";

/**
 * Makes one process the owner of a database file (rule C27): an exclusive transaction, never ended, on a second, empty
 * database beside it. The operating system drops it with the process, however that ends; the empty file stays, because
 * to delete a lock's file is to lock nothing.
 */
export class FileLock {
  readonly #db: DatabaseSync;

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** @throws Error with a sentence: the file has an owner, or nothing can be written beside it */
  static take(file: string): FileLock {
    let db: DatabaseSync | undefined;
    try {
      db = new DatabaseSync(`${file}-lock`);
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
