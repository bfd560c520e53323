import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Variables } from "./program.ts";

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * What this worker's disk is called: the content of a file in its home folder, beside the files in which programs keep
 * their conversations. Made with `name` when there is none. Undefined where the folder cannot be written to.
 */
export async function readHome(env: Variables, name: string): Promise<string | undefined> {
  const folder = env["XDG_STATE_HOME"] ?? (env["HOME"] && join(env["HOME"], ".local", "state"));
  if (!folder) return undefined;
  const file = join(folder, "interlock", "home");
  try {
    await mkdir(dirname(file), { recursive: true });
    // Two workers that start at once agree on the name that was written first.
    await writeFile(file, name, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    const written = (await readFile(file, "utf8")).trim();
    return NAME.test(written) ? written : undefined;
  } catch {
    return undefined;
  }
}
