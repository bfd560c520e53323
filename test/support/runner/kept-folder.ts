import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const NODE_MODULES = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const CACHE = join(NODE_MODULES, ".cache/tests");
/** The installed packages with their versions. npm writes this file at each install. */
const INSTALLED = join(NODE_MODULES, ".package-lock.json");
/** A run in another terminal may still use a folder with another key. */
const KEPT_MS = 86_400_000;

/**
 * A folder that is expensive to make, kept below `node_modules/.cache` for later test files and later runs.
 * @param name its content, in a word
 * @param key everything on which its content depends: another key makes another folder
 * @param make fills the given empty folder. A folder that it could not fill is not kept.
 * @returns the path of the folder, which must not be changed
 */
export async function keptFolder(
  name: string,
  key: readonly (string | Buffer)[],
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash("sha256");
  for (const part of key) hash.update(`${part.length} `).update(part);
  const folder = join(CACHE, `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  await mkdir(CACHE, { recursive: true });
  // A rename makes the folder visible only when it is complete. If several processes make it, the first one is kept.
  const made = await mkdtemp(join(CACHE, "making-"));
  try {
    await make(made);
    await rename(made, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  await removeOld(name, folder);
  return folder;
}

/** A key of what is built from these folders: their files, and the installed packages. */
export async function keyOf(...folders: readonly string[]): Promise<(string | Buffer)[]> {
  return [await readFile(INSTALLED), ...(await Promise.all(folders.map(readSources))).flat()];
}

/** The path and the text of every file in a folder, in a fixed order. */
async function readSources(folder: string): Promise<(string | Buffer)[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const isSource = (file: string) => !/[\\/](?:node_modules|dist)[\\/]/.test(file.slice(folder.length));
  const sources = files.filter(isSource).sort();
  return (await Promise.all(sources.map(async (file) => [file, await readFile(file)]))).flat();
}

async function removeOld(name: string, current: string): Promise<void> {
  for (const entry of await readdir(CACHE)) {
    const path = join(CACHE, entry);
    if (path === current || !(entry.startsWith(`${name}-`) || entry.startsWith("making-"))) continue;
    const age =
      Date.now() -
      (await stat(path).then(
        ({ mtimeMs }) => mtimeMs,
        () => Date.now(),
      ));
    if (age > KEPT_MS) await rm(path, { recursive: true, force: true });
  }
}
