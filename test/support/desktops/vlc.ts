import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * A VLC that may be started here. VLC refuses root, under which containers run tests: there a copy of its small
 * launcher, which asks for another id of the process, is started in its place.
 *
 * @param folder where the copy is written
 */
export async function vlcIn(folder: string, installed = "/usr/bin/vlc"): Promise<string> {
  if (process.getuid?.() !== 0) return installed;
  const launcher = await readFile(installed, "latin1");
  const copy = join(folder, "vlc");
  await writeFile(copy, launcher.replaceAll("geteuid", "getppid"), "latin1");
  await chmod(copy, 0o755);
  return copy;
}
