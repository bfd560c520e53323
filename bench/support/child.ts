import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Messages to a measured server, sent over the IPC channel and not over HTTP. */
export type Ask =
  | { ask: "usage" }
  | { ask: "memory" }
  | { ask: "emit"; events: number; floors: number }
  | { ask: "stop" };

export interface Usage {
  /** µs of CPU since the process started, user and system, of all threads. */
  cpuUs: number;
  /** The same for the main thread only. */
  mainUs: number;
}

export interface Memory {
  /** Bytes on the JavaScript heap and outside it, after a garbage collection. */
  heap: number;
  /** The resident set size in bytes. */
  rss: number;
}

/** A server in its own process, so that its CPU time and memory are measured without the load generator's. */
export class Child {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, url: string) {
    this.#process = process;
    this.url = url;
  }

  static async start(script: string, args: readonly string[] = []): Promise<Child> {
    const path = fileURLToPath(new URL(`../servers/${script}`, import.meta.url));
    const child = fork(path, args, {
      execArgv: ["--expose-gc", ...(process.env["BENCH_NODE_FLAGS"]?.split(" ") ?? [])],
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    const { url } = await next<{ url: string }>(child);
    return new Child(child, url);
  }

  async usage(): Promise<Usage> {
    return this.ask({ ask: "usage" });
  }

  async memory(): Promise<Memory> {
    return this.ask({ ask: "memory" });
  }

  async ask<T>(question: Ask): Promise<T> {
    this.#process.send(question);
    return next<T>(this.#process);
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.send({ ask: "stop" } satisfies Ask);
    await ended;
  }
}

function next<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) => reject(new Error(`a server ended with ${code}`));
    child.once("exit", onExit);
    child.once("message", (message) => {
      child.off("exit", onExit);
      resolve(message as T);
    });
  });
}

/** Called in the server's process: send the address to the parent, then answer its messages. */
export function serveParent(
  url: string,
  handlers: { emit?: (events: number, floors: number) => Promise<void>; stop: () => unknown },
): void {
  process.on("message", async (message: Ask) => {
    if (message.ask === "usage") process.send!(readUsage());
    if (message.ask === "memory") process.send!(readMemory());
    if (message.ask === "emit") {
      await handlers.emit?.(message.events, message.floors);
      process.send!({ done: true });
    }
    if (message.ask === "stop") {
      await handlers.stop();
      process.exit(0);
    }
  });
  // The parent has exited.
  process.on("disconnect", () => process.exit(1));
  process.send!({ url });
}

function readUsage(): Usage {
  const { user, system } = process.cpuUsage();
  const main = process.threadCpuUsage();
  return { cpuUs: user + system, mainUs: main.user + main.system };
}

/** A separate message, because the time of a garbage collection must not count as usage of the server. */
function readMemory(): Memory {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}
