import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CACHE = fileURLToPath(new URL("../../../node_modules/.cache/tests", import.meta.url));
/** A folder of another key may still be in use by a run in another terminal. */
const KEPT_MS = 86_400_000;

/**
 * A folder that is expensive to make, kept below `node_modules/.cache` for later test files and later runs.
 * @param name what it holds, in a word
 * @param key everything that its contents depend on: with another key it is made again
 * @param make fills the empty folder that it is given. A folder that it could not fill is not kept.
 * @returns its path; nobody may change what is in it
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
  // The folder appears at once and whole. Of several processes that make it at the same time, the first one is kept.
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
