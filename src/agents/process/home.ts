import { link, readFile, unlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isThere, makeFolder, unlessExists } from "../../system/make-folder.ts";
import type { Environment } from "./program.ts";

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * The name of this worker's disk: the content of a file in its home folder, where programs keep their conversations.
 * Creates the file with `name` if it is missing. Undefined if the folder is not writable.
 */
export async function readHome(env: Environment, name: string): Promise<string | undefined> {
  const folder = env["XDG_STATE_HOME"] ?? (env["HOME"] && join(env["HOME"], ".local", "state"));
  if (!folder) return undefined;
  const file = join(folder, "interlock", "home");
  try {
    if (!(await isThere(file))) await writeOnce(file, name);
    const written = (await readFile(file, "utf8")).trim();
    return NAME.test(written) ? written : undefined;
  } catch {
    return undefined;
  }
}

/** If workers start at once, the first one's name remains. The file always contains a name. */
async function writeOnce(file: string, name: string): Promise<void> {
  await makeFolder(dirname(file));
  const own = `${file}.${name}`;
  await writeFile(own, name);
  await unlessExists(link(own, file)).finally(() => unlink(own));
}
