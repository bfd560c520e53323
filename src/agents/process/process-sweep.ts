import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { isOrphaned, MARKER, readStat } from "./marker.ts";

/** Scans of the process table before a sweep gives up. A scan takes about 3 ms per hundred processes. */
const MAX_SCANS = 200;
/** The pause between two scans, in which killed processes end, in ms. */
const SCAN_PAUSE_MS = 10;
/** Files that are read concurrently. */
const BATCH = 64;

interface ProcessRow {
  readonly pid: number;
  readonly parentPid: number;
  readonly marks: readonly string[];
}

/** Kill all processes with a mark that has this prefix, and their descendants. */
export async function killMarked(prefix: string): Promise<SweepResult> {
  return await sweep((mark) => mark.startsWith(prefix));
}

/** Kill the processes that ended workers of this machine left behind. */
export async function killOrphans(): Promise<SweepResult> {
  return await sweep(isOrphaned);
}

export interface SweepResult {
  readonly killed: number;
  /** Processes that could not be killed, because they hang in the kernel. */
  readonly left: number;
}

/**
 * Repeat until no process is found, because a process may start another during a scan. Without /proc it finds nothing.
 */
async function sweep(isWanted: (mark: string) => boolean): Promise<SweepResult> {
  const killed = new Set<number>();
  let targets: number[] = [];
  for (let scan = 0; scan < MAX_SCANS; scan += 1) {
    if (scan > 0) await sleep(SCAN_PAUSE_MS);
    targets = findTargets(await listProcesses(), isWanted);
    if (targets.length === 0) break;
    for (const pid of targets) {
      try {
        process.kill(pid, "SIGKILL");
        killed.add(pid);
      } catch {
        // The process has ended, or its pid belongs to another user now.
      }
    }
  }
  return { killed: killed.size, left: targets.length };
}

/** The marked processes, and their descendants that removed the mark from their environment. */
function findTargets(rows: readonly ProcessRow[], isWanted: (mark: string) => boolean): number[] {
  const children = Map.groupBy(rows, ({ parentPid }) => parentPid);
  const found = new Set<number>();
  const add = (pid: number) => {
    if (pid === process.pid || found.has(pid)) return;
    found.add(pid);
    for (const child of children.get(pid) ?? []) add(child.pid);
  };
  for (const { pid, marks } of rows) if (marks.some(isWanted)) add(pid);
  return [...found];
}

async function listProcesses(): Promise<ProcessRow[]> {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number);
  const rows: ProcessRow[] = [];
  for (let first = 0; first < pids.length; first += BATCH) {
    const batch = await Promise.all(pids.slice(first, first + BATCH).map(readProcess));
    rows.push(...batch.filter((row) => row !== undefined));
  }
  return rows;
}

async function readProcess(pid: number): Promise<ProcessRow | undefined> {
  try {
    const { parentPid, isDead } = readStat(await readFile(`/proc/${pid}/stat`, "utf8"));
    if (isDead) return undefined;
    // The environment of another user's process cannot be read. It belongs to no run, but may be the parent of such a
    // process.
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    const entry = environment.split("\0").find((line) => line.startsWith(`${MARKER}=`));
    return { pid, parentPid, marks: entry?.slice(MARKER.length + 1).split(" ") ?? [] };
  } catch {
    return undefined;
  }
}
