import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Create a folder and its missing parents. Node's own recursive `mkdir` repeats without end where the system answers
 * ENOENT although the parent exists, as `/proc` and folders that are mounted on demand do.
 *
 * @param mode the permissions of each new folder, before the umask
 * @throws NodeJS.ErrnoException
 */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  if (await isThere(folder)) return;
  await makeFolder(dirname(folder), mode);
  await unlessExists(mkdir(folder, { mode }));
}

/** Whether a file or folder exists, as far as this user may see. */
export function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** Wait until a file or folder is made. It is no error if another process made it at the same time. */
export async function unlessExists(making: Promise<unknown>): Promise<void> {
  try {
    await making;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
