import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** What a server under measurement can be asked beside its requests. */
export type Ask =
  | { ask: "usage" }
  | { ask: "memory" }
  | { ask: "emit"; events: number; floors: number }
  | { ask: "stop" };

export interface Usage {
  /** µs of CPU since the process began, user and system, of all its threads. */
  cpuUs: number;
  /** The same of its main thread alone. */
  mainUs: number;
}

export interface Memory {
  /** Bytes on and off the JavaScript heap, after a collection. */
  heap: number;
  /** Bytes the kernel counts. */
  rss: number;
}

/** A server in a process of its own, so that the load shares no core with it that it need not share. */
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

/** In the server's process: tell the address, then answer what is asked. */
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
  // The measuring process is gone, for any reason.
  process.on("disconnect", () => process.exit(1));
  process.send!({ url });
}

function readUsage(): Usage {
  const { user, system } = process.cpuUsage();
  const main = process.threadCpuUsage();
  return { cpuUs: user + system, mainUs: main.user + main.system };
}

/** A collection of its own message: its time must not count as that of what is measured. */
function readMemory(): Memory {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}
