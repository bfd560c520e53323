/**
 * A thread that measures a node while others attack it: what it does before it answers `/health`, and a command of its
 * own user. A separate thread, so that the work of the attacking clients does not delay the measurement.
 */

import { readdirSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/**
 * How long the node's threads worked between a request and its answer, in ms. A busy machine delays the answer, and
 * does not make more work of it.
 */
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

/** How long the node's threads with these names have worked since they started, in ms. */
function workOf(pid: number, names: readonly string[]): number {
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => `/proc/${pid}/task/${id}`);
  const named = threads.filter((thread) => names.includes(readFileSync(`${thread}/comm`, "utf8").trim()));
  return named.reduce(
    (sum, thread) => sum + Number(readFileSync(`${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6,
    0,
  );
}

/** The main thread alone answers a probe; a command also needs the writer's thread. */
const MAIN = ["MainThread"];
const MAIN_AND_WRITER = [...MAIN, "WorkerThread"];

/** How long these threads worked during `work`, in ms. */
async function workDuring(pid: number, threads: readonly string[], work: () => Promise<void>): Promise<number> {
  const before = workOf(pid, threads);
  await work();
  return workOf(pid, threads) - before;
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
    const health = await workDuring(pid, MAIN, () => ask(url, "GET", "/health", false));
    const title = JSON.stringify({ title: `look ${looks.length}` });
    const patch = () => ask(url, "PATCH", `/session/${sessionId}`, agent, title);
    const command = await workDuring(pid, MAIN_AND_WRITER, patch);
    looks.push({ health, command });
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE_MS);
    });
  }
  parentPort!.postMessage(looks);
  agent.destroy();
}

if (parentPort && workerData?.sessionId) await watch(workerData);
