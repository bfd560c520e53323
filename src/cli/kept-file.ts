import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** Replace a file of this user's alone, whose folder is made. On disk when it returns. */
export function writeKept(path: string, value: unknown): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const next = `${path}.next`;
  const file = openSync(next, "w", 0o600);
  try {
    writeSync(file, JSON.stringify(value));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(next, path);
}

/** What such a file has. `parse` throws for anything else. Undefined if it cannot be read. */
export function readKept<T>(path: string, parse: (value: unknown) => T): T | undefined {
  try {
    return parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

export const dropKept = (path: string): void => rmSync(path, { force: true });
