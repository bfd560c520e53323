import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/**
 * Start a node with a car's catalogue, a store in the folder, and a free port.
 *
 * @param opening ends the node when it is disposed
 * @returns the node's address
 * @throws Error if the node does not start; its output on stderr names the cause
 */
export async function openNode(folder: string, opening: AsyncDisposableStack): Promise<string> {
  const flags = ["--port", "0", "--store", `sqlite:${join(folder, "car.db")}`];
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [join(ROOT, "bin/interlock.js"), "serve", ...flags], {
    cwd: ROOT,
    env: { PATH, NODE_COMPILE_CACHE, INTERLOCK_CONFIG: join(ROOT, "config/car.yaml") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  opening.defer(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  for await (const line of createInterface({ input: child.stdout! })) {
    const url = /\bhttp:\/\/\S+/.exec(line)?.[0];
    if (url === undefined) continue;
    child.stdout?.resume();
    return url;
  }
  throw new Error("the node did not start");
}
