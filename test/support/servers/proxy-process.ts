import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { delimiter } from "node:path";
import { onTestFinished } from "vitest";

/** Debian installs proxies in folders that are on root's PATH only. */
const env = { PATH: [process.env["PATH"], "/usr/sbin", "/usr/local/sbin"].join(delimiter) };

export function isInstalled(program: string, versionFlag: string): boolean {
  return spawnSync(program, [versionFlag], { env }).status === 0;
}

interface Manner {
  /** What it writes to stderr when it listens. */
  started: RegExp;
  /** The signal that ends it at once. */
  end: NodeJS.Signals;
}

/** Start a proxy. It ends with the test. */
export async function startProxy(program: string, args: readonly string[], { started, end }: Manner): Promise<void> {
  const child = spawn(program, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill(end);
    await ended;
  });
  let said = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding("utf8").on("data", (piece) => {
      said += piece;
      if (started.test(said)) resolve();
    });
    void ended.then(() => reject(new Error(`${program} did not start\n${said}`)));
  });
}
