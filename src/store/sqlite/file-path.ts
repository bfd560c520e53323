// Rule C27 of docs/inside/correctness.md.
import type { Stats } from "node:fs";
import { chmod, lstat, open, readlink, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { makeFolder, unlessExists } from "../../system/make-folder.ts";

/**
 * A database holds private conversations, so other users of the machine can read neither the files nor a folder made
 * for them.
 */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const OTHERS = 0o077;
/** Chained links to follow, more than any system allows. */
const MAX_LINKS = 40;

/**
 * The real path of a database file, whose folder is created if missing and readable by its owner only. Two names of one
 * file would have two logs and two locks, so links are followed, and a file with two hard links is refused (rule C27).
 * A new database is not made beside the log of another one, which its commits would overwrite.
 * @throws Error with a sentence
 */
export async function preparePath(file: string): Promise<string> {
  try {
    await makeFolder(dirname(resolve(file)), FOLDER_MODE);
    const path = await followLinks(file);
    await makeFolder(dirname(path), FOLDER_MODE);
    await refuseOrphanedLog(path);
    await make(path);
    const facts = await stat(path);
    if (!facts.isFile()) throw new Error(`${file} cannot be opened: it is not a file`);
    if (facts.nlink > 1) throw new Error(linksAdvice(path, facts));
    await make(`${path}-lock`);
    return path;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === undefined) throw cause;
    throw new Error(`${file} cannot be opened: ${(cause as Error).message}`, { cause });
  }
}

/** SQLite writes the first page into the database before it makes a log, so a log never belongs to an empty file. */
async function refuseOrphanedLog(path: string): Promise<void> {
  const [size, logSize] = await Promise.all([sizeOf(path), sizeOf(`${path}-wal`)]);
  if (size || !logSize) return;
  throw new Error(
    `${path} is ${size === undefined ? "missing" : "empty"}, but ${path}-wal has commits of it: put the database back; ` +
      `or, for a new one, move ${path}-wal away and keep it with the database that it belongs to`,
  );
}

/** In bytes; undefined if there is no such file. */
async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Create the file for its owner only. An existing file is not opened, because closing it again would drop this
 * process's POSIX locks on it.
 */
async function make(path: string): Promise<void> {
  await unlessExists(open(path, "wx", FILE_MODE).then((file) => file.close()));
}

function linksAdvice(path: string, { nlink, ino }: Stats): string {
  return (
    `${path} has ${nlink} names (hard links), and SQLite would keep a log beside each, which destroys the database: ` +
    `remove the others (find <folder> -inum ${ino}), or copy the file and use the copy`
  );
}

/** The path without links, even if the last link points to a missing file. */
async function followLinks(file: string): Promise<string> {
  let path = file;
  for (let links = 0; links < MAX_LINKS; links++) {
    path = join(await realpath(dirname(path)), basename(path));
    const isLink = await lstat(path).then(
      (facts) => facts.isSymbolicLink(),
      () => false,
    );
    if (!isLink) return path;
    path = resolve(dirname(path), await readlink(path));
  }
  throw new Error(`${file} cannot be opened: too many links`);
}

/** Remove other users' access to a database, for example a copy. Call it only for a file that is Interlock's. */
export async function keepPrivate(path: string): Promise<void> {
  for (const suffix of ["", "-lock", "-wal", "-shm"]) await tighten(`${path}${suffix}`);
}

/** A file of another user stays as it is. */
async function tighten(path: string): Promise<void> {
  try {
    const { mode } = await stat(path);
    if ((mode & OTHERS) !== 0) await chmod(path, FILE_MODE);
  } catch {
    // The file is missing, or this user may not change it.
  }
}
