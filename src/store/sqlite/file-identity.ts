import { statSync } from "node:fs";

/** The path now names another file than the open one, so a restart would not find what is written. */
export class FileMoved extends Error {
  override readonly name = "FileMoved";
}

/** The file's device and inode number; undefined if the path does not exist. */
export function identityOf(path: string): string | undefined {
  const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
  return facts && `${facts.dev}:${facts.ino}`;
}

/** Detects that a database file or its write-ahead log was moved, removed or replaced while it is open. */
export class FileGuard {
  readonly #file: string;
  readonly #identity: string | undefined;
  #log: string | undefined;

  /** @param identity the file when the store was opened */
  constructor(file: string, identity: string | undefined) {
    this.#file = file;
    this.#identity = identity;
  }

  /** @throws FileMoved */
  checkFile(): void {
    if (identityOf(this.#file) === this.#identity) return;
    throw new FileMoved(`${this.#file} was moved, removed or replaced while it was open: put it back`);
  }

  /** Call it after a commit, when the write-ahead log exists. @throws FileMoved */
  check(): void {
    this.checkFile();
    const log = identityOf(`${this.#file}-wal`);
    this.#log ??= log;
    if (log !== undefined && log === this.#log) return;
    throw new FileMoved(
      `${this.#file}-wal was moved, removed or replaced while it was open: stop the node with SIGTERM, ` +
        "which writes what it holds into the database",
    );
  }
}
