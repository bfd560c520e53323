import { open } from "node:fs/promises";

/**
 * A file's bytes, at most one more than allowed whatever the file's size says, so that a longer one is noticed and never
 * held.
 *
 * @throws Error when there is no such file, it cannot be read, or it is no regular file
 */
export async function readBounded(path: string, maxBytes: number): Promise<Buffer> {
  const file = await open(path);
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

/** Why a file could not be read, as a sentence that reads on from its name. */
export function whyUnreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR" ? "there is no such file" : `the file cannot be read: ${message}`;
}
