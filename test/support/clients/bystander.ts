import { readdirSync, readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/**
 * A thread that looks at a node while others attack it: how soon `/health` and a command of a user of its own are
 * answered. It has a thread to itself, so that the attackers' own work does not count.
 */

/**
 * How soon an answer came, in ms, without the time in which the node's threads or this one were ready to run while the
 * machine's cores did other work.
 */
export interface Look {
  health: number;
  command: number;
}

export interface BystanderData {
  url: string;
  /** The node's process. */
  pid: number;
  /** A session of the user's. */
  sessionId: string;
}

/** Between two looks, in ms. */
const PAUSE_MS = 100;

/** What the node's process takes at most until now, in MiB. */
export function peakMemory(pid: number): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib) / 1_024;
}

/** How long a thread has waited for a core since it began, in ms. 0 where the kernel does not count it. */
function waitOf(thread: string): number {
  try {
    const [, waitedNs] = readFileSync(`/proc/${thread}/schedstat`, "utf8").split(" ");
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}

/** The same for this thread and a node's threads of these names. */
function waitFor(pid: number, names: readonly string[]): number {
  const threads = readdirSync(`/proc/${pid}/task`).map((id) => `${pid}/task/${id}`);
  const named = threads.filter((thread) => names.includes(readFileSync(`/proc/${thread}/comm`, "utf8").trim()));
  return ["thread-self", ...named].reduce((sum, thread) => sum + waitOf(thread), 0);
}

/** A probe is answered by the main thread alone, a command also by the thread that writes. */
const MAIN = ["MainThread"];
const MAIN_AND_WRITER = [...MAIN, "WorkerThread"];

/** How long a piece of work takes, in ms, without the time in which these threads waited for a core. */
async function durationOf(pid: number, threads: readonly string[], work: () => Promise<void>): Promise<number> {
  const waitedBefore = waitFor(pid, threads);
  const begunAt = performance.now();
  await work();
  const waited = waitFor(pid, threads) - waitedBefore;
  // Threads that waited at the same time are counted each.
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
    // A probe comes by a connection of its own.
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
