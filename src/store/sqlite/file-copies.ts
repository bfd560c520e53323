import { link, open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { newMeta } from "../meta.ts";
import { listMigrations, migrationsFolder, otherSchema } from "../migrate.ts";
import { APPLICATION_ID, damageAdvice, openReader, schemaDifference } from "./database-file.ts";
import { FileLock } from "./file-lock.ts";
import { preparePath } from "./file-path.ts";

const FILE_MODE = 0o600;
/** All pages in one step: a backup in several steps begins again whenever the node commits in between. */
const ALL_PAGES = 0x7fff_ffff;

/**
 * Copy a store's file while a node may use it: one consistent state, as a single file for its owner only.
 * @param to a path that does not exist
 * @returns the number of sessions in the copy
 * @throws Error with a sentence; no file then remains at `to`
 */
export async function backUp(file: string, to: string): Promise<number> {
  const from = openSource(file);
  try {
    checkKind(from, file);
    await (await open(to, "wx", FILE_MODE)).close();
    return await copyTo(from, to, () => undefined).catch(async (error: Error) => {
      await removeFiles(to);
      throw error;
    });
  } catch (cause) {
    throw (cause as NodeJS.ErrnoException).code === "EEXIST" ? new Error(`${to} exists: name a new file`) : cause;
  } finally {
    from.close();
  }
}

/**
 * Put a backup in the place of a store's file, with a new epoch, so that every client reads the state again. A file
 * that it replaces is kept beside it.
 * @returns the path of the replaced file, if there was one, and the number of sessions
 * @throws Error with a sentence if a node uses the file, or the backup is no store of this version or is damaged;
 *   nothing is replaced then
 */
export async function restore(from: string, file: string): Promise<{ kept?: string; sessions: number }> {
  const source = openSource(from);
  try {
    await checkStore(source, from);
    const path = await preparePath(resolve(file));
    const lock = FileLock.acquire(path);
    const copy = `${path}-restoring`;
    try {
      await removeFiles(copy);
      await (await open(copy, "wx", FILE_MODE)).close();
      const { epoch } = newMeta();
      const sessions = await copyTo(source, copy, (db) => db.prepare("UPDATE meta SET epoch = ?").run(epoch));
      return { ...(await replace(path, copy, epoch)), sessions };
    } finally {
      await removeFiles(copy);
      lock.release();
    }
  } finally {
    source.close();
  }
}

/** @throws Error with a sentence if the database is no store, is newer than this program, or is damaged */
async function checkStore(db: DatabaseSync, file: string): Promise<void> {
  checkKind(db, file);
  const known = await listMigrations(migrationsFolder("sqlite"));
  const version = pragma(db, "user_version");
  if (version > known.length) throw new Error(`${file} has version ${version}, and this program knows ${known.length}`);
  const difference = schemaDifference(db, known.slice(0, version));
  if (difference !== undefined) throw new Error(otherSchema(file, difference));
  const fault = String(Object.values(db.prepare("PRAGMA quick_check(1)").get()!)[0]);
  if (fault !== "ok") throw new Error(damageAdvice(file, fault));
}

/** Replace the database by the copy. Whenever the process dies, one of the two is at the path, whole. */
async function replace(path: string, copy: string, epoch: string): Promise<{ kept?: string }> {
  const isNew = !foldLog(path);
  const kept = `${path}-before-${epoch}`;
  // Until the copy has the place, the former file has two names, with which no node opens it.
  if (!isNew) await link(path, kept);
  for (const suffix of ["-wal", "-shm"]) await rm(`${path}${suffix}`, { force: true });
  await rename(copy, path);
  return isNew ? {} : { kept };
}

/** Copy the write-ahead log into the database. @returns false for an empty file, which has nothing to keep */
function foldLog(path: string): boolean {
  try {
    const db = new DatabaseSync(path);
    try {
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      return db.prepare("SELECT 1 FROM sqlite_schema").get() !== undefined;
    } finally {
      db.close();
    }
  } catch {
    // A damaged database is kept as it is.
    return true;
  }
}

async function copyTo(from: DatabaseSync, to: string, change: (db: DatabaseSync) => unknown): Promise<number> {
  await backup(from, to, { rate: ALL_PAGES });
  const db = new DatabaseSync(to);
  try {
    // A single file, without a log beside it.
    db.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    change(db);
    return Number(db.prepare("SELECT count(*) AS count FROM sessions WHERE state <> 'staged'").get()!["count"]);
  } finally {
    db.close();
  }
}

function openSource(file: string): DatabaseSync {
  try {
    return openReader(file);
  } catch (cause) {
    throw new Error(`${file} cannot be opened: ${(cause as Error).message}`, { cause });
  }
}

function checkKind(db: DatabaseSync, file: string): void {
  let kind: number;
  try {
    kind = pragma(db, "application_id");
  } catch (cause) {
    throw new Error(`${file} cannot be read: ${(cause as Error).message}`, { cause });
  }
  if (kind !== APPLICATION_ID) throw new Error(`${file} is not a database of Interlock's`);
}

const pragma = (db: DatabaseSync, name: "application_id" | "user_version"): number =>
  Object.values(db.prepare(`PRAGMA ${name}`).get()!)[0] as number;

async function removeFiles(file: string): Promise<void> {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) await rm(`${file}${suffix}`, { force: true });
}
