import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";

/**
 * The environment variable that identifies every process of a run, even after a change of group, session or sandbox. It
 * contains marks separated by spaces: one for each worker, if workers run inside each other.
 */
export const MARKER = "INTERLOCK_RUN";

/**
 * Sets a limit and then becomes the program that its arguments name: no shell reads them, and the pid stays the same.
 * Part of util-linux.
 */
const PRLIMIT = "/usr/bin/prlimit";
/** Programs of one worker that get a number. */
const MAX_NUMBERED = 100_000_000;

/**
 * Numbers for the programs of a worker, as a second mark: the soft limit of a process's resident set, in bytes. Linux
 * has not enforced this limit since 2.4.30, but every process inherits it, also one that clears its environment, leaves
 * its session and loses its parent, and everybody may read it. The numbers are near 2^62, so a program that adapts to
 * the limit is not hampered.
 */
export class ProgramNumbers {
  /** The beginning of all numbers of this worker, and of no number of another. */
  readonly prefix = `4${String(randomInt(10_000_000_000)).padStart(10, "0")}`;
  #count = 0;
  #isUsable: Promise<boolean> | undefined;

  /** A number that no other program has; undefined if this machine cannot set it. */
  async next(): Promise<string | undefined> {
    this.#isUsable ??= runs([...limitCommand(`${this.prefix}00000000`), PRLIMIT, "--version"]);
    if (!(await this.#isUsable) || this.#count >= MAX_NUMBERED - 1) return undefined;
    this.#count += 1;
    return `${this.prefix}${String(this.#count).padStart(8, "0")}`;
  }
}

/** The command that starts a program, whose path and arguments follow, with this number as its limit. */
export const limitCommand = (number: string): [string, ...string[]] => [PRLIMIT, `--rss=${number}:`, "--"];

/** The soft limit of the resident set in a file `/proc/<pid>/limits`. */
export const limitIn = (limits: string): string | undefined => /^Max resident set +(\d+)/m.exec(limits)?.[1];

async function runs([file = "", ...args]: readonly string[]): Promise<boolean> {
  const child = spawn(file, args, { stdio: "ignore", env: {}, cwd: "/" });
  return await new Promise((resolve) => {
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
}

/** `<pid>-<start>-<pid namespace>`: identifies a process of this machine, and no later process with the same pid. */
const OWNER = /^(\d{1,10})-(\d{1,20})-(\d{1,20})\./;

/** The name of this process in marks. Outside Linux the pid is enough, because no code reads marks there. */
export function ownerName(pid = process.pid): string {
  const start = processStatOf(pid)?.start ?? "0";
  return `${pid}-${start}-${namespaceOf() ?? "0"}`;
}

/**
 * Whether the worker in a mark has ended. False if that is unknown: the worker of another container, or an invalid
 * mark.
 */
export function isOrphaned(mark: string): boolean {
  const [, pid, start, namespace] = OWNER.exec(mark) ?? [];
  if (pid === undefined || namespace !== namespaceOf()) return false;
  const owner = processStatOf(Number(pid));
  return owner === undefined || owner.start !== start || owner.isDead;
}

/** What the kernel knows of a process; undefined for an unknown one. */
export function processStatOf(pid: number): ProcessStat | undefined {
  try {
    return readStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return undefined;
  }
}

/** The flag `PF_KTHREAD` of Linux: a thread of the kernel, which has neither a program nor an environment. */
const KERNEL_FLAG = 0x20_0000;

interface ProcessStat {
  /** In ticks since the machine started. */
  start: string;
  parentPid: number;
  isDead: boolean;
  isKernel: boolean;
}

/** A process's name is in parentheses and may contain any character, so the fields begin after the last parenthesis. */
function readStat(stat: string): ProcessStat {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return {
    start: fields[19] ?? "",
    parentPid: Number(fields[1]),
    isDead: fields[0] === "Z" || fields[0] === "X",
    isKernel: (Number(fields[6]) & KERNEL_FLAG) !== 0,
  };
}

function namespaceOf(): string | undefined {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0];
  } catch {
    return undefined;
  }
}
