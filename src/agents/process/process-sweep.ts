import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { isOrphaned, MARKER, readStat } from "./marker.ts";

/** Looks at the process table until a sweep gives up. A look takes some 3 ms per hundred processes. */
const MAX_LOOKS = 200;
/** Between two looks, so that killed processes have gone, in ms. */
const LOOK_AGAIN_MS = 10;
/** Files read at a time. */
const BATCH = 64;

interface ProcessRow {
  readonly pid: number;
  readonly parentPid: number;
  readonly marks: readonly string[];
}

/** Kill all processes of which a mark begins so, and what they started. */
export async function killMarked(prefix: string): Promise<SweepResult> {
  return await sweep((mark) => mark.startsWith(prefix));
}

/** Kill what workers of this machine left behind that are gone themselves. */
export async function killOrphans(): Promise<SweepResult> {
  return await sweep(isOrphaned);
}

export interface SweepResult {
  readonly killed: number;
  /** Processes that do not die; they hang in the kernel. */
  readonly left: number;
}

/** Until none is found: a process may start another while the table is read. Finds nothing where there is no /proc. */
async function sweep(isWanted: (mark: string) => boolean): Promise<SweepResult> {
  const killed = new Set<number>();
  let targets: number[] = [];
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    if (look > 0) await sleep(LOOK_AGAIN_MS);
    targets = findTargets(await listProcesses(), isWanted);
    if (targets.length === 0) break;
    for (const pid of targets) {
      try {
        process.kill(pid, "SIGKILL");
        killed.add(pid);
      } catch {
        // It is gone, or belongs to another user now.
      }
    }
  }
  return { killed: killed.size, left: targets.length };
}

/** Marked processes, and below them those that took the mark out of their environment. */
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
    // Another user's environment cannot be read: such a process is not a run's, but may be the parent of one that is.
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    const entry = environment.split("\0").find((line) => line.startsWith(`${MARKER}=`));
    return { pid, parentPid, marks: entry?.slice(MARKER.length + 1).split(" ") ?? [] };
  } catch {
    return undefined;
  }
}
