import { readdirSync, readFileSync } from "node:fs";
import { setImmediate as nextIteration, setTimeout as sleep } from "node:timers/promises";
import { isOrphaned, limitIn, MARKER, processStatOf } from "./marker.ts";

/** Scans of the process table before a sweep gives up. A scan takes about 3 ms per hundred processes. */
const MAX_SCANS = 200;
/** The pause between two scans, in which killed processes end, in ms. */
const SCAN_PAUSE_MS = 10;
/** Processes that are read in one turn of the event loop. */
const BATCH = 64;

/** A process of this machine. A later one with the same pid has another start. */
export interface ProcessName {
  readonly pid: number;
  readonly start: string;
}

interface ProcessRow extends ProcessName {
  readonly parentPid: number;
  /** The marks in its environment, and its limit of the resident set. */
  readonly marks: readonly string[];
}

/**
 * Kill all processes with a mark that has one of these prefixes, and their descendants.
 * @param known further processes to kill, with their descendants
 */
export async function killMarked(
  prefixes: readonly string[],
  known: readonly ProcessName[] = [],
): Promise<SweepResult> {
  return await sweep((mark) => prefixes.some((prefix) => mark.startsWith(prefix)), known);
}

/** Kill the processes that ended workers of this machine left behind. */
export async function killOrphans(): Promise<SweepResult> {
  return await sweep(isOrphaned, []);
}

/** The processes with a mark that has this prefix, and their descendants, which may have removed it. */
export async function findMarked(prefix: string): Promise<ProcessName[]> {
  return findTargets(await listProcesses(), (mark) => mark.startsWith(prefix), []);
}

export interface SweepResult {
  readonly killed: number;
  /** Processes that could not be killed, because they hang in the kernel or are another user's. */
  readonly left: number;
}

/**
 * Repeat until no process is found, because a process may start another during a scan. Without /proc it finds nothing.
 */
async function sweep(isWanted: (mark: string) => boolean, known: readonly ProcessName[]): Promise<SweepResult> {
  const killed = new Set<number>();
  const refused = new Set<number>();
  let targets: ProcessName[] = [];
  for (let scan = 0; scan < MAX_SCANS; scan += 1) {
    if (scan > 0) await sleep(SCAN_PAUSE_MS);
    targets = findTargets(await listProcesses(), isWanted, known);
    if (targets.every(({ pid }) => refused.has(pid))) break;
    for (const target of targets) {
      const outcome = kill(target);
      if (outcome === "killed") killed.add(target.pid);
      if (outcome === "refused") refused.add(target.pid);
    }
  }
  return { killed: killed.size, left: targets.length };
}

/** Kill a process of an earlier scan. It may have ended since, and another may have its pid. */
function kill({ pid, start }: ProcessName): "killed" | "refused" | "gone" {
  if (processStatOf(pid)?.start !== start) return "gone";
  try {
    process.kill(pid, "SIGKILL");
    return "killed";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM" ? "refused" : "gone";
  }
}

/** The marked and the known processes, and their descendants that removed the mark from their environment. */
function findTargets(
  rows: readonly ProcessRow[],
  isWanted: (mark: string) => boolean,
  known: readonly ProcessName[],
): ProcessName[] {
  const children = Map.groupBy(rows, ({ parentPid }) => parentPid);
  const starts = new Map(known.map(({ pid, start }) => [pid, start]));
  const found = new Map<number, ProcessName>();
  const add = ({ pid, start }: ProcessName) => {
    if (pid === process.pid || found.has(pid)) return;
    found.set(pid, { pid, start });
    for (const child of children.get(pid) ?? []) add(child);
  };
  for (const row of rows) if (row.marks.some(isWanted) || starts.get(row.pid) === row.start) add(row);
  return [...found.values()];
}

/** The scan under way, and the one that begins when it has ended. */
let scanning: Promise<ProcessRow[]> | undefined;
let nextScan: Promise<ProcessRow[]> | undefined;

/**
 * The processes of this machine at a moment after the call. Sweeps of many programs that end together share their
 * scans: six hundred sweeps would otherwise read the whole table six hundred times.
 */
async function listProcesses(): Promise<ProcessRow[]> {
  if (!scanning) return await beginScan();
  nextScan ??= scanning.then(beginScan, beginScan);
  return await nextScan;
}

function beginScan(): Promise<ProcessRow[]> {
  nextScan = undefined;
  const scan = readProcesses();
  scanning = scan;
  void scan.finally(() => {
    if (scanning === scan) scanning = undefined;
  });
  return scan;
}

async function readProcesses(): Promise<ProcessRow[]> {
  const pids = processIds();
  const rows: ProcessRow[] = [];
  for (let first = 0; first < pids.length; first += BATCH) {
    if (first > 0) await nextIteration();
    for (const pid of pids.slice(first, first + BATCH)) rows.push(...readProcess(pid));
  }
  return rows;
}

function processIds(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Boolean);
  } catch {
    // This system has no /proc.
    return [];
  }
}

function readProcess(pid: number): ProcessRow[] {
  const stat = processStatOf(pid);
  // On a machine that is no container, most processes are threads of the kernel.
  if (stat === undefined || stat.isDead || stat.isKernel) return [];
  const entry = textOf(`/proc/${pid}/environ`)
    .split("\0")
    .find((line) => line.startsWith(`${MARKER}=`));
  const marks = entry?.slice(MARKER.length + 1).split(" ") ?? [];
  const { start, parentPid } = stat;
  return [{ pid, start, parentPid, marks: [...marks, limitIn(textOf(`/proc/${pid}/limits`)) ?? []].flat() }];
}

/**
 * Read as UTF-8 and at once: otherwise Node.js takes a buffer of 64 KiB for each of these files, and a thread.
 */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It has ended, or is another user's.
    return "";
  }
}
