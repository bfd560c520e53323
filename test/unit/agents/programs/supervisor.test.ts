import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { isOrphaned, ownerName } from "../../../../src/agents/process/marker.ts";
import { killMarked, killOrphans } from "../../../../src/agents/process/process-sweep.ts";
import { Supervisor } from "../../../../src/agents/process/supervisor.ts";
import { gone, isAlive, LEAVERS, processesWith, running } from "../../../support/agents/processes.ts";
import { commandAdapter } from "../../../support/agents/programs.ts";
import { RealClock } from "../../../support/catalogs/watched-file.ts";

const WORKER = fileURLToPath(new URL("../../../support/agents/supervising-worker.ts", import.meta.url));
const { command, args } = commandAdapter("stubborn") as { command: string; args: string[] };
const newTag = () => `tag-${randomUUID()}`;

/** A worker in a separate process, with a program that has a child in another process session. */
async function startWorker(): Promise<{ worker: ChildProcess; tag: string }> {
  const { worker, tag } = spawnWorker([command, ...args]);
  await once(worker.stdout!, "data");
  // The program, and its child in a separate process session; the worker has the marker under another name.
  await running(`TEST_TAG=${tag}`, 2);
  return { worker, tag: `TEST_TAG=${tag}` };
}

function spawnWorker(program: readonly string[]): { worker: ChildProcess; tag: string } {
  const tag = newTag();
  const worker = spawn(process.execPath, ["--no-warnings", WORKER, JSON.stringify(program)], {
    env: { PATH: process.env["PATH"], PROGRAM_TAG: tag },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    worker.kill("SIGKILL");
    for (const pid of processesWith(tag)) process.kill(pid, "SIGKILL");
  });
  return { worker, tag };
}

/** The worker's watchdog: the only process whose arguments name the worker. */
function watchdogOf(worker: ChildProcess): number {
  const all = processesWith("").filter((pid) => commandLine(pid).includes(`\0${ownerName(worker.pid)}.`));
  expect(all).toHaveLength(1);
  return all[0]!;
}

const watchdogsOfThis = () =>
  processesWith("").filter((pid) => commandLine(pid).includes(`watchdog-main.ts\0${ownerName()}.`));

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

describe("a worker that is killed with SIGKILL", () => {
  test("a worker that is killed with SIGKILL leaves no process behind, not even in other sessions", async () => {
    const { worker, tag } = await startWorker();
    worker.kill("SIGKILL");
    await gone(tag);
  });

  // The program ends with its input, as coding agents do, so that its processes are its descendants no longer.
  test("a worker that is killed with SIGKILL leaves no process behind that cleared its environment, however it left", async () => {
    const { worker } = spawnWorker(["/bin/sh", "-c", `${Object.values(LEAVERS).join("; ")}; exec /bin/cat`]);
    const names = Object.keys(LEAVERS);
    let printed = "";
    while (printed.split("\n").length <= names.length) printed += (await once(worker.stdout!, "data")).join("");
    const pids = printed.trim().split("\n").map(Number);
    const left = () => names.filter((_, index) => isAlive(pids[index]!));
    onTestFinished(() => {
      for (const pid of pids.filter(isAlive)) process.kill(pid, "SIGKILL");
    });
    expect(left()).toEqual(names);
    worker.kill("SIGKILL");
    await expect.poll(left).toEqual([]);
  });

  test("if the watchdog was killed before its worker, the start of the next worker ends the remaining processes", async () => {
    const { worker, tag } = await startWorker();
    worker.kill("SIGSTOP");
    const watchdog = watchdogOf(worker);
    process.kill(watchdog, "SIGKILL");
    worker.kill("SIGKILL");
    await once(worker, "exit");
    // Not how many it killed: any other worker that starts on this machine ends them too.
    await killOrphans();
    await gone(tag);
  });
});

describe("a supervisor", () => {
  const open = () => {
    const supervisor = new Supervisor({ clock: new RealClock() });
    onTestFinished(() => supervisor.close());
    return supervisor;
  };
  const programOf = (tag: string) => ({
    file: command,
    args,
    cwd: process.cwd(),
    env: { PATH: process.env["PATH"]!, TEST_TAG: tag },
  });

  test("a supervisor that closes ends all its programs, starts no other, and leaves another supervisor's running", async () => {
    const [one, other] = [open(), open()];
    const [mine, theirs] = [newTag(), newTag()];
    await Promise.all([one.start(programOf(mine)), other.start(programOf(theirs))]);
    await running(mine, 2);
    await running(theirs, 2);
    await one.close();
    expect([processesWith(mine).length, processesWith(theirs).length]).toEqual([0, 2]);
    const watchdogs = watchdogsOfThis();
    await expect(one.start(programOf(mine))).rejects.toThrow("shutting down");
    expect(watchdogsOfThis()).toEqual(watchdogs);
  });

  test("a supervisor restarts its watchdog when the watchdog is killed", async () => {
    // Other supervisors of this process have theirs, which they restart only while they have programs.
    const others = new Set(watchdogsOfThis());
    const own = () => watchdogsOfThis().filter((pid) => !others.has(pid));
    await open().start(programOf(newTag()));
    const [before, ...rest] = own();
    expect(rest).toEqual([]);
    process.kill(before!, "SIGKILL");
    await expect.poll(() => own().filter((pid) => pid !== before).length).toBe(1);
  });

  test("a supervisor reports that a program cannot be started, without its arguments", async () => {
    const start = open().start({ ...programOf("x"), file: "/nowhere/at-all", args: ["secret"] });
    await expect(start).rejects.toThrow(/^the program cannot be started: ENOENT$/);
  });
});

describe("the mark of a process", () => {
  test("a mark is an orphan's if its owner's pid is unused or used again, and not while the owner lives", () => {
    const mine = ownerName();
    const [pid, start, namespace] = mine.split("-");
    const owners = [mine, `${pid}-${Number(start) - 1}-${namespace}`, `4194999-1-${namespace}`];
    expect(owners.map((owner) => isOrphaned(`${owner}.x.1.`))).toEqual([false, true, true]);
  });

  test("a mark of another container, or a malformed one, is left alone", () => {
    const [pid, start, namespace] = ownerName().split("-");
    const elsewhere = `${pid}-${Number(start) - 1}-${Number(namespace) + 1}.x.1.`;
    expect([elsewhere, "", "nonsense", `${pid}-${start}`].filter(isOrphaned)).toEqual([]);
  });

  test("a mark that no process has ends no process", async () => {
    expect(await killMarked([`none-${randomUUID()}`])).toEqual({ killed: 0, left: 0 });
  });

  test("a process of another user, which cannot be killed, is reported at once, and a later process with its pid is left alone", async () => {
    const child = spawn("/bin/sleep", ["600"]);
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child, "spawn");
    const pid = child.pid!;
    const [, start = ""] = ownerName(pid).split("-");
    const kill = vi.spyOn(process, "kill").mockImplementation(() => {
      throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
    });
    onTestFinished(() => kill.mockRestore());
    const unused = [`none-${randomUUID()}`];
    expect(await killMarked(unused, [{ pid, start: `${Number(start) - 1}` }])).toEqual({ killed: 0, left: 0 });
    expect(kill).not.toHaveBeenCalled();
    expect(await killMarked(unused, [{ pid, start }])).toEqual({ killed: 0, left: 1 });
    expect(kill).toHaveBeenCalledTimes(1);
    kill.mockRestore();
    expect(await killMarked(unused, [{ pid, start }])).toEqual({ killed: 1, left: 0 });
  });
});
