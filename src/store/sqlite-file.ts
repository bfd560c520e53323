import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { type Meta, newMeta } from "./meta.ts";
import { listMigrations, type Migration, type MigrationTarget, migrate, migrationsFolder } from "./migrate.ts";
import { isNoDatabase } from "./sqlite-fault.ts";
import type { WriterSettings } from "./sqlite-job.ts";

/** What `migrations/sqlite` writes into a file's header, so that another program's database is not taken for ours. */
const APPLICATION_ID = 0x464c6f72;
/** How long the writer waits for somebody else's lock, a backup's say, in ms. */
const BUSY_MS = 2_000;
/** To what the log shrinks after it has grown, in bytes. */
const MAX_IDLE_WAL = 16_777_216;

/** The connection that writes; there must be one only. The file must be there: a lost one is not replaced by a new. */
export function openWriter({ file, isDurable }: WriterSettings): DatabaseSync {
  const existing = pathToFileURL(file);
  existing.searchParams.set("mode", "rw");
  const db = new DatabaseSync(existing, { timeout: BUSY_MS, enableForeignKeyConstraints: true });
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = ${isDurable ? "FULL" : "OFF"};
    PRAGMA journal_size_limit = ${MAX_IDLE_WAL};`);
  return db;
}

/** A connection that only reads, beside the one that writes. */
export function openReader(file: string): DatabaseSync {
  return new DatabaseSync(file, { readOnly: true });
}

/**
 * Make a file an up-to-date store: new, or migrated.
 * @throws Error with a sentence when it is something else, or newer than this program
 */
export async function prepareFile(settings: WriterSettings, now: number): Promise<Meta> {
  const db = openFile(settings);
  try {
    await migrate(new SqliteTarget(settings.file, db), await listMigrations(migrationsFolder("sqlite")));
    const { epoch, secret } = newMeta();
    db.prepare("INSERT OR IGNORE INTO meta (id, epoch, secret, created_at, format) VALUES (1, ?, ?, ?, 1)").run(
      epoch,
      secret,
      now,
    );
    return db.prepare("SELECT epoch, secret FROM meta").get() as unknown as Meta;
  } finally {
    db.close();
  }
}

function openFile(settings: WriterSettings): DatabaseSync {
  try {
    new DatabaseSync(settings.file).close();
    return openWriter(settings);
  } catch (cause) {
    if (isNoDatabase(cause)) throw new Error(`${settings.file} is not a SQLite database`, { cause });
    throw new Error(`${settings.file} cannot be opened: ${(cause as Error).message}`, { cause });
  }
}

class SqliteTarget implements MigrationTarget {
  readonly name: string;
  readonly #db: DatabaseSync;

  constructor(name: string, db: DatabaseSync) {
    this.name = name;
    this.#db = db;
  }

  async version(): Promise<number> {
    const isEmpty = this.#db.prepare("SELECT 1 FROM sqlite_schema").get() === undefined;
    if (!isEmpty && this.#pragma("application_id") !== APPLICATION_ID) {
      throw new Error(`${this.name} is a SQLite database, but not one of Interlock's`);
    }
    return this.#pragma("user_version");
  }

  async apply({ version, sql }: Migration): Promise<void> {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      this.#db.exec(sql);
      this.#db.exec(`PRAGMA user_version = ${version}`);
      this.#db.exec("COMMIT");
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  #pragma(name: "application_id" | "user_version"): number {
    return Object.values(this.#db.prepare(`PRAGMA ${name}`).get()!)[0] as number;
  }
}
