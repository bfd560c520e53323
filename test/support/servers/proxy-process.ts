import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";

interface Manner {
  /** What it writes to stderr when it listens. */
  started: RegExp;
  /** The signal that ends it at once. */
  end: NodeJS.Signals;
}

/** Start a proxy by its path. It ends with the test. */
export async function startProxy(
  program: string,
  args: readonly string[],
  { started, end }: Manner,
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
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
  return child;
}
