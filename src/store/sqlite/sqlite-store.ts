import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { FloorId } from "../../protocol/ids.ts";
import { LogThrottle } from "../../shared/log-throttle.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { Meta } from "../meta.ts";
import { commonReads } from "../reads.ts";
import { sqliteHits } from "../search-words.ts";
import type { Store } from "../store.ts";
import { damageAdvice, openReader, prepareFile } from "./database-file.ts";
import { identityOf, lockOf } from "./file-identity.ts";
import { FileLock } from "./file-lock.ts";
import { keepPrivate, preparePath } from "./file-path.ts";
import { noticeOutbox } from "./notice-queries.ts";
import { PageCheck } from "./page-check.ts";
import { ReadConnection } from "./read-connection.ts";
import { fileFaultOf } from "./result-code.ts";
import { smallWrites } from "./small-writes.ts";
import { stateReads } from "./state-reads.ts";
import { viewReads } from "./view-reads.ts";
import { WriterThread } from "./writer/writer-thread.ts";

export interface SqliteOptions {
  /**
   * The path of the database. A missing folder is created. `:memory:` is a file in a private temporary folder that is
   * removed when the store is closed; its commits do not wait for the disk.
   */
  file: string;
  clock: Clock;
  log: Logger;
  /** The largest database whose pages are checked before it is served, in bytes. Default: `START_CHECK_SIZE`. */
  startCheckSize?: number;
}

/**
 * The check of this many bytes takes a tenth of a second. A larger database is checked in the background while it is
 * served.
 */
const START_CHECK_SIZE = 67_108_864;

export interface SqliteStore extends Store {
  /**
   * Why requests fail, as sentences for `/ready` without the file's name. A file may be gone before a write finds out.
   */
  faults(): string[];
  /**
   * Floors with a session whose time comes by `until`, on the wall clock, but whose alarm comes later than that: the
   * clock was set forward since. `aheadMs`: by how much it is ahead of the floors' time.
   */
  lateRings(until: number, aheadMs: number, limit: number): Promise<FloorId[]>;
}

/**
 * Open a SQLite store. One process owns the file while it is open (rule C27). Writes go to a thread of their own and
 * share transactions. Reads run on this thread, on a read-only connection, and continue while writes are refused.
 * @throws Error with a sentence if the file is in use, is not a store, is newer than this program, or is damaged
 */
export async function openSqliteStore({
  file,
  clock,
  log,
  startCheckSize = START_CHECK_SIZE,
}: SqliteOptions): Promise<SqliteStore> {
  const temporary = file === ":memory:" ? await mkdtemp(join(tmpdir(), "interlock-")) : undefined;
  const named = temporary === undefined ? resolve(file) : join(temporary, "interlock.db");
  await using opened = new AsyncDisposableStack();
  if (temporary !== undefined) opened.defer(() => rm(temporary, { recursive: true, force: true }));
  const path = await preparePath(named);
  const lock = FileLock.acquire(path);
  opened.defer(() => lock.release());
  const files = { database: identityOf(path), lock: identityOf(lockOf(path)) };
  const settings = { file: path, opened: files, isDurable: temporary === undefined };
  const checksPages = (await stat(path)).size <= startCheckSize;
  const meta = await prepareFile(settings, { now: clock.now(), checksPages });
  await keepPrivate(path);
  const damage = new Damage(path, log);
  const onDamage = (fault: string) => damage.report(fault);
  const thread = new WriterThread(settings, clock, log, onDamage);
  opened.defer(() => thread.close());
  await thread.start();
  const reader = openReader(path);
  // Closed before the writer, whose connection is then the last one and leaves a single file.
  opened.defer(() => reader.close());
  if (!checksPages) {
    const check = new PageCheck({ file: path, log, onDamage });
    opened.defer(() => check.close());
  }
  const failedReads = new FailedReads({ file: path, clock, log }, damage);
  const faults = () => [
    ...(damage.isFound ? ["the database is damaged: the log says what to do"] : []),
    ...(identityOf(path) === files.database ? [] : ["the database's file was moved, removed or replaced: put it back"]),
    ...(thread.isRefusing ? ["the database refuses writes: the log says why"] : []),
  ];
  const connection = new ReadConnection(reader, (error) => failedReads.report(error));
  const store = storeOn(connection, thread, { meta, faults, release: () => parts.disposeAsync() });
  const parts = opened.move();
  return store;
}

interface StoreParts {
  meta: Meta;
  faults: () => string[];
  /** Called when all writes are done: closes the reader, ends the threads, and releases the file. */
  release: () => Promise<void>;
}

function storeOn(db: ReadConnection, thread: WriterThread, { meta, faults, release }: StoreParts): SqliteStore {
  return {
    ...stateReads(db),
    ...viewReads(db),
    ...commonReads(db, sqliteHits),
    ...smallWrites(thread),
    ...noticeOutbox(db, thread),
    epoch: meta.epoch,
    secret: meta.secret,
    faults,
    commit: thread.commit,

    /** Finish pending writes and refuse new ones as `unavailable`. Further calls do nothing. */
    async close() {
      await thread.finish();
      await release();
    },
  };
}

/** Damage that was found while the store is open, by the check, a read or a write. It is logged once. */
class Damage {
  readonly #file: string;
  readonly #log: Logger;
  isFound = false;

  constructor(file: string, log: Logger) {
    this.#file = file;
    this.#log = log;
  }

  report(fault: string): void {
    if (this.isFound) return;
    this.isFound = true;
    this.#log.error({ file: this.#file }, damageAdvice(this.#file, fault));
  }
}

/** Reads that failed because of the database or the disk. They are logged once a minute, and damage once. */
class FailedReads {
  readonly #options: SqliteOptions;
  readonly #damage: Damage;
  readonly #notes = new LogThrottle();

  constructor(options: SqliteOptions, damage: Damage) {
    this.#options = options;
    this.#damage = damage;
  }

  report(error: Error): void {
    if (fileFaultOf(error) === "damage") return this.#damage.report(error.message);
    const { file, clock, log } = this.#options;
    if (this.#notes.isDue(clock.now())) log.error({ err: error, file }, "the database cannot be read");
  }
}
