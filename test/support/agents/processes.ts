import { readdirSync, readFileSync } from "node:fs";
import { vi } from "vitest";
import { PATIENCE_MS } from "../runner/patience.ts";

/** The processes that have the marker in their environment, without zombies. */
export function processesWith(word: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "latin1").includes(word);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Whether the process runs; a zombie does not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\t[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Resolves when no process has the marker in its environment. */
export async function gone(word: string): Promise<void> {
  await vi.waitFor(() => {
    const left = processesWith(word);
    if (left.length > 0) throw new Error(`processes are left: ${left.join()}`);
  }, PATIENCE_MS);
}

/** Resolves when `count` processes have the marker in their environment. */
export async function running(word: string, count: number): Promise<number[]> {
  return await vi.waitFor(() => {
    const found = processesWith(word);
    if (found.length < count) throw new Error(`${found.length} of ${count} processes run`);
    return found;
  }, PATIENCE_MS);
}

/**
 * Scripts for /bin/sh that start a process without the environment of its run, and print its pid. They continue when
 * the process runs. The keys say what else it has left.
 */
export const LEAVERS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    "": '/usr/bin/env -i sh -c "$p" &',
    ", lost its parent": '(/usr/bin/env -i sh -c "$p" &)',
    ", left the process session": '/usr/bin/setsid /usr/bin/env -i sh -c "$p" &',
    ", lost two parents and left the process session": `(/usr/bin/env -i /usr/bin/setsid sh -c "sh -c '$p' &" &)`,
  }).map(([left, line]) => [left, `p='echo $$; exec /bin/sleep 600 >/dev/null 2>&1'; pid=$( ${line} ); echo "$pid"`]),
);
