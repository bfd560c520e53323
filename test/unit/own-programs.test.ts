import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, type TestContext, test } from "vitest";
import { isAlive } from "../support/agents/processes.ts";
import { writeTemporary } from "../support/clients/callers.ts";

const root = resolve(import.meta.dirname, "../..");
const SETUP = pathToFileURL(join(root, "test/support/runner/own-programs.ts")).href;

/** A test process that has started a program, and a program that this one has started; and their numbers. */
async function begin({ onTestFinished }: TestContext): Promise<{ child: ChildProcess; programs: number[] }> {
  const program = `await import(${JSON.stringify(SETUP)});
    const { spawn } = await import("node:child_process");
    const shell = spawn("/bin/sh", ["-c", "/bin/sleep 600 & echo $!; wait"], { env: {} });
    shell.stdout.once("data", (pid) => process.send([shell.pid, Number(pid)]));`;
  const child = fork(await writeTemporary("tests.mjs", program, onTestFinished), { execArgv: [] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [programs] = (await once(child, "message")) as [number[]];
  onTestFinished(() => {
    for (const pid of programs.filter(isAlive)) process.kill(pid, "SIGKILL");
  });
  expect(programs.map(isAlive)).toEqual([true, true]);
  return { child, programs };
}

test.concurrent.for<[how: string, end: (child: ChildProcess) => void]>([
  ["is killed", (child) => void child.kill("SIGKILL")],
  ["is ended", (child) => void child.kill("SIGTERM")],
  ["loses the main process of the tests", (child) => child.disconnect()],
])("the programs of a test process that %s end, and what they have started", async ([, end], context) => {
  const { child, programs } = await begin(context);
  const ended = once(child, "exit");
  end(child);
  await ended;
  await expect.poll(() => programs.filter(isAlive)).toEqual([]);
});
