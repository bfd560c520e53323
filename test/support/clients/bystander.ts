/**
 * A thread that measures a node while others attack it: the response times of `/health` and of a command of its own
 * user. A separate thread, so that the work of the attacking clients does not delay the measurement.
 */

import { readdirSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/** A response time in ms, without the time in which the node's threads or this one were runnable but had no core. */
export interface Look {
  health: number;
  command: number;
}

export interface BystanderData {
  url: string;
  /** The node's process. */
  pid: number;
  /** A session of the measuring user. */
  sessionId: string;
}

/** The interval between two measurements, in ms. */
const PAUSE_MS = 100;

/** The node's peak resident memory so far, in MiB. */
export function peakMemory(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib) / 1_024;
}

/** How long a thread has waited for a core since it started, in ms. 0 if the kernel does not count it. */
function waitOf(thread: string): number {
  try {
    const [, waitedNs] = readFileSync(`/proc/${thread}/schedstat`, "utf8").split(" ");
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}

/** The same for this thread and the node's threads with these names. */
function waitFor(pid: number, names: readonly string[]): number {
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => `${pid}/task/${id}`);
  const named = threads.filter((thread) => names.includes(readFileSync(`/proc/${thread}/comm`, "utf8").trim()));
  return ["thread-self", ...named].reduce((sum, thread) => sum + waitOf(thread), 0);
}

/** The main thread alone answers a probe; a command also needs the writer's thread. */
const MAIN = ["MainThread"];
const MAIN_AND_WRITER = [...MAIN, "WorkerThread"];

/** The duration of `work` in ms, without the time in which these threads waited for a core. */
async function durationOf(pid: number, threads: readonly string[], work: () => Promise<void>): Promise<number> {
  const waitedBefore = waitFor(pid, threads);
  const begunAt = performance.now();
  await work();
  const waited = waitFor(pid, threads) - waitedBefore;
  // Threads that wait at the same time are each counted.
  return Math.max(0, performance.now() - begunAt - waited);
}

function ask(url: string, method: string, path: string, agent: Agent | false, body?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": body.length };
    const sent = request(url + path, { method, agent, headers }, (response) => {
      response.resume();
      response.on("end", () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${method} ${path} is ${response.statusCode}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

async function watch({ url, pid, sessionId }: BystanderData): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  let isOver = false;
  parentPort!.once("message", () => {
    isOver = true;
  });
  const looks: Look[] = [];
  while (!isOver) {
    // Each probe uses a new connection.
    const health = await durationOf(pid, MAIN, () => ask(url, "GET", "/health", false));
    const title = JSON.stringify({ title: `look ${looks.length}` });
    const patch = () => ask(url, "PATCH", `/session/${sessionId}`, agent, title);
    const command = await durationOf(pid, MAIN_AND_WRITER, patch);
    looks.push({ health, command });
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE_MS);
    });
  }
  parentPort!.postMessage(looks);
  agent.destroy();
}

if (parentPort && workerData?.sessionId) await watch(workerData);
