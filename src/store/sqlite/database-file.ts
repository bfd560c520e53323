import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { type Meta, newMeta } from "../meta.ts";
import {
  bareSql,
  listMigrations,
  type Migration,
  type MigrationTarget,
  migrate,
  migrationsFolder,
} from "../migrate.ts";
import { pagesBeforeCheckpoint } from "./log-checkpoint.ts";
import { prepareQuery } from "./query.ts";
import { isDamaged, isNotDatabase } from "./result-code.ts";
import type { WriterSettings } from "./writer/writer-job.ts";

/**
 * The application id that `migrations/sqlite` writes into a file's header, to recognise the databases of other
 * programs.
 */
export const APPLICATION_ID = 0x464c6f72;
/** How long the writer waits for another process's lock, for example a backup's, in ms. */
const BUSY_MS = 2_000;
/** The size to which the write-ahead log is cut after it has grown, in bytes. */
const MAX_IDLE_WAL = 16_777_216;
/** The writer's page cache, in KiB. It keeps the active floors and sessions in memory. */
const WRITER_CACHE_KIB = 65_536;

/** Open the only writing connection. The file must exist: a lost one is not replaced by a new one. */
export function openWriter({ file, isDurable }: WriterSettings): DatabaseSync {
  const existing = pathToFileURL(file);
  existing.searchParams.set("mode", "rw");
  const db = new DatabaseSync(existing, { timeout: BUSY_MS, enableForeignKeyConstraints: true });
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = ${isDurable ? "FULL" : "OFF"};
    PRAGMA journal_size_limit = ${MAX_IDLE_WAL};
    PRAGMA wal_autocheckpoint = ${pagesBeforeCheckpoint(file)};
    PRAGMA cache_size = -${WRITER_CACHE_KIB};`);
  return db;
}

/** Open a read-only connection, in addition to the writing one. */
export function openReader(file: string): DatabaseSync {
  return new DatabaseSync(file, { readOnly: true });
}

/**
 * Create a store's file, or migrate it to the newest version.
 * @throws Error with a sentence if the file is not a store, is newer than this program, or a checked page is damaged
 */
export async function prepareFile(
  settings: WriterSettings,
  { now, checksPages }: { now: number; checksPages: boolean },
): Promise<Meta> {
  const db = openFile(settings);
  try {
    if (checksPages) checkPages(db, settings.file);
    await migrate(new SqliteTarget(settings.file, db), await listMigrations(migrationsFolder("sqlite")));
    const { epoch, secret } = newMeta();
    db.prepare("INSERT OR IGNORE INTO meta (id, epoch, secret, created_at) VALUES (1, ?, ?, ?)").run(
      epoch,
      secret,
      now,
    );
    return prepareQuery<Meta>(db, "SELECT epoch, secret FROM meta").get()!;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (isDamaged(cause)) throw new Error(damageAdvice(settings.file, message), { cause });
    // The engine's own message names no file.
    throw code === "ERR_SQLITE_ERROR" ? new Error(`${settings.file} cannot be used: ${message}`, { cause }) : cause;
  } finally {
    db.close();
  }
}

function openFile(settings: WriterSettings): DatabaseSync {
  try {
    new DatabaseSync(settings.file).close();
    return openWriter(settings);
  } catch (cause) {
    if (isDamaged(cause)) throw new Error(damageAdvice(settings.file, (cause as Error).message), { cause });
    if (isNotDatabase(cause)) throw new Error(`${settings.file} is not a SQLite database`, { cause });
    throw new Error(`${settings.file} cannot be opened: ${(cause as Error).message}`, { cause });
  }
}

/** What is wrong with a damaged database, and how to recover. */
export function damageAdvice(file: string, reason: string): string {
  return (
    `${file} is damaged (${reason}): keep a copy of it, and restore a backup; ` +
    `without one, sqlite3 ${file} ".recover" | sqlite3 recovered.db saves what can still be read`
  );
}

function checkPages(db: DatabaseSync, file: string): void {
  const fault = faultIn(db.prepare("PRAGMA quick_check(1)").get());
  if (fault !== undefined) throw new Error(damageAdvice(file, fault));
}

/**
 * Check the pages table by table, on a connection of its own. Between two tables the snapshot is released, so that the
 * write-ahead log can be copied into the database, and the check can end.
 * @returns the first fault; undefined if there is none, or if the store is ending
 */
export function findDamage(file: string, isEnding: () => boolean): string | undefined {
  const db = openReader(file);
  try {
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    const check = db.prepare("SELECT * FROM pragma_quick_check(?)");
    for (const { name } of [{ name: "sqlite_schema" }, ...tables]) {
      if (isEnding()) return undefined;
      const fault = faultIn(check.get(name!));
      if (fault !== undefined) return fault;
    }
    return undefined;
  } catch (error) {
    if (isDamaged(error)) return (error as Error).message;
    throw error;
  } finally {
    db.close();
  }
}

/** What the first row of a check says; undefined if it found nothing. */
function faultIn(row: Record<string, unknown> | undefined): string | undefined {
  const [fault] = Object.values(row!);
  return fault === "ok" ? undefined : String(fault).replaceAll("\n", " ");
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

  async differenceFrom(applied: readonly Migration[]): Promise<string | undefined> {
    return schemaDifference(this.#db, applied);
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

/** The first table, index or trigger that these migrations make, and that the database lacks or has otherwise. */
export function schemaDifference(db: DatabaseSync, applied: readonly Migration[]): string | undefined {
  const model = new DatabaseSync(":memory:");
  try {
    for (const { sql } of applied) model.exec(sql);
    const found = schemaOf(db);
    for (const [name, sql] of schemaOf(model)) if (found.get(name) !== sql) return name;
    return undefined;
  } finally {
    model.close();
  }
}

/** The statement of each table, index and trigger, by its kind and name. */
function schemaOf(db: DatabaseSync): Map<string, string> {
  const rows = db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").all();
  return new Map(rows.map(({ type, name, sql }) => [`${type} ${name}`, bareSql(sql as string)]));
}
