import { readFileSync, readlinkSync } from "node:fs";

/**
 * The environment variable that identifies every process of a run, even after a change of group, session or sandbox. It
 * contains marks separated by spaces: one for each worker, if workers run inside each other.
 */
export const MARKER = "INTERLOCK_RUN";

/** `<pid>-<start>-<pid namespace>`: identifies a process of this machine, and no later process with the same pid. */
const OWNER = /^(\d{1,10})-(\d{1,20})-(\d{1,20})\./;

/** The name of this process in marks. Outside Linux the pid is enough, because no code reads marks there. */
export function ownerName(pid = process.pid): string {
  const start = startOf(pid)?.start ?? "0";
  return `${pid}-${start}-${namespaceOf() ?? "0"}`;
}

/**
 * Whether the worker in a mark has ended. False if that is unknown: the worker of another container, or an invalid
 * mark.
 */
export function isOrphaned(mark: string): boolean {
  const [, pid, start, namespace] = OWNER.exec(mark) ?? [];
  if (pid === undefined || namespace !== namespaceOf()) return false;
  const owner = startOf(Number(pid));
  return owner === undefined || owner.start !== start || owner.isDead;
}

/** The start of a process, in ticks since the machine started; undefined for an unknown process. */
function startOf(pid: number): { start: string; isDead: boolean } | undefined {
  try {
    return readStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return undefined;
  }
}

/** A process's name is in parentheses and may contain any character, so the fields begin after the last parenthesis. */
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
