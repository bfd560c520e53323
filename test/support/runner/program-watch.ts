import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

// Reads `+<pid>` and `-<pid>` for each program that a test process starts and that ends. When the pipe is closed,
// because the test process has ended, it kills the programs that are left, and what they have started.

/** What the children of killed programs get to end in order, and what they end themselves, in ms. */
const GRACE_MS = 3_000;

/** When each program was started, so that another process that got its number is left alone. */
const programs = new Map<number, string | undefined>();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
for await (const line of createInterface({ input: process.stdin })) {
  const pid = Number(line.slice(1));
  if (line.startsWith("+")) programs.set(pid, statOf(pid)?.startedAt);
  else programs.delete(pid);
}
const left = [...programs].filter(isSame);
const started = descendantsOf(left.map(([pid]) => pid)).map((pid) => [pid, statOf(pid)?.startedAt] as const);
kill(left);
for (const until = Date.now() + GRACE_MS; started.some(isSame) && Date.now() < until; ) await setTimeout(50);
kill(started);

function isSame([pid, startedAt]: readonly [number, string | undefined]): boolean {
  return startedAt !== undefined && statOf(pid)?.startedAt === startedAt;
}

function kill(all: readonly (readonly [number, string | undefined])[]): void {
  for (const [pid] of all.filter(isSame)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  }
}

function statOf(pid: number): { parent: number; startedAt: string } | undefined {
  try {
    // The name of the program, in brackets, may have spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .split(" ");
    return { parent: Number(fields[1]), startedAt: fields[19]! };
  } catch {
    // It has ended, or this system has no /proc.
    return undefined;
  }
}

function descendantsOf(roots: readonly number[]): number[] {
  const found = new Set(roots);
  const all = processes().map((pid) => [pid, statOf(pid)?.parent] as const);
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const [pid, parent] of all) if (parent !== undefined && found.has(parent)) found.add(pid);
  }
  return [...found].filter((pid) => !roots.includes(pid));
}

function processes(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Boolean);
  } catch {
    return [];
  }
}
