import { constants } from "node:fs";
import { open } from "node:fs/promises";

/**
 * Read a file, but at most `maxBytes + 1` bytes, whatever size the file reports. The caller recognises a file that is
 * too long by the extra byte, and its contents are never held in memory.
 *
 * @throws Error when the file does not exist, cannot be read, or is not a regular file
 */
export async function readBounded(path: string, maxBytes: number): Promise<Buffer> {
  // Without O_NONBLOCK, opening a named pipe waits for a writer, in a thread that cannot be cancelled.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!(await file.stat()).isFile()) throw new Error("it is not a regular file");
    const buffer = Buffer.alloc(maxBytes + 1);
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return buffer.subarray(0, length);
  } finally {
    await file.close();
  }
}

/** Why a file could not be read, as a sentence to append to its name. */
export function whyUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR" ? "there is no such file" : `the file cannot be read: ${message}`;
}
