import { readFileSync, readlinkSync } from "node:fs";

/**
 * The environment variable by which every process of a run is found, even after it moved to another group, session or sandbox.
 * Holds marks separated by spaces: one for each worker in a chain of workers that run one another.
 */
export const MARKER = "INTERLOCK_RUN";

/** `<pid>-<start>-<pid namespace>`: a process of this machine, never to be mistaken for a later one of the same pid. */
const OWNER = /^(\d{1,10})-(\d{1,20})-(\d{1,20})\./;

/** What this process is called in marks. Off Linux nothing reads marks, and the pid is enough. */
export function ownerName(pid = process.pid): string {
  const start = startOf(pid)?.start ?? "0";
  return `${pid}-${start}-${namespaceOf() ?? "0"}`;
}

/** Whether the worker that a mark names is gone. False where that cannot be told: another container's, or no mark. */
export function isOrphaned(mark: string): boolean {
  const [, pid, start, namespace] = OWNER.exec(mark) ?? [];
  if (pid === undefined || namespace !== namespaceOf()) return false;
  const owner = startOf(Number(pid));
  return owner === undefined || owner.start !== start || owner.isDead;
}

/** The start of a process, in ticks since the machine started; undefined where there is no such process. */
function startOf(pid: number): { start: string; isDead: boolean } | undefined {
  try {
    return readStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return undefined;
  }
}

/** A process's name stands in parentheses and may contain any character; the fields begin behind the last one. */
export function readStat(stat: string): { start: string; parentPid: number; isDead: boolean } {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return { start: fields[19] ?? "", parentPid: Number(fields[1]), isDead: fields[0] === "Z" || fields[0] === "X" };
}

function namespaceOf(): string | undefined {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
  } catch {
    return undefined;
  }
}
