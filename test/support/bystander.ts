import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/**
 * A thread that looks at a node while others attack it: how soon `/health` and a command of a user of its own are
 * answered. It has a thread to itself, so that the attackers' own work does not count.
 */

/** How soon an answer came, in ms. */
export interface Look {
  health: number;
  command: number;
}

export interface BystanderData {
  url: string;
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

function ask(url: string, method: string, path: string, agent: Agent | false, body?: string): Promise<number> {
  const begunAt = performance.now();
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "Content-Type": "application/json", "Content-Length": body.length };
    const sent = request(url + path, { method, agent, headers }, (response) => {
      response.resume();
      response.on("end", () => {
        if (response.statusCode === 200) resolve(performance.now() - begunAt);
        else reject(new Error(`${method} ${path} is ${response.statusCode}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

async function watch({ url, sessionId }: BystanderData): Promise<void> {
  const agent = new Agent({ keepAlive: true });
  let isOver = false;
  parentPort!.once("message", () => {
    isOver = true;
  });
  const looks: Look[] = [];
  while (!isOver) {
    // A probe comes by a connection of its own.
    const health = await ask(url, "GET", "/health", false);
    const title = JSON.stringify({ title: `look ${looks.length}` });
    const command = await ask(url, "PATCH", `/session/${sessionId}`, agent, title);
    looks.push({ health, command });
    await new Promise((resolve) => {
      setTimeout(resolve, PAUSE_MS);
    });
  }
  parentPort!.postMessage(looks);
  agent.destroy();
}

if (parentPort && workerData?.sessionId) await watch(workerData);
