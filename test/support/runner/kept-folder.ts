import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CACHE = fileURLToPath(new URL("../../../node_modules/.cache/tests", import.meta.url));
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
