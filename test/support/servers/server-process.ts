import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BARE_ENV } from "../agents/bare-env.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** The arguments of `npm start`: V8's options, the program and its command. */
const START: string[] = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"))
  .scripts.start.split(" ")
  .slice(1);
/** The timeout of a start, and of an orderly end. */
const PATIENCE_MS = 60_000;
const ADDRESS = /\bhttp:\/\/\S+/;

export interface ServerOptions {
  /** The arguments after `serve --port 0`; default: a store in memory. */
  flags?: readonly string[];
  /** The only `INTERLOCK_…` variables in its environment. */
  env?: Readonly<Record<string, string>>;
}

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** All of them end with the test at the latest. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A real node in a separate process, on a free port of 127.0.0.1. */
export class ServerProcess {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #exit: Promise<Exit>;
  readonly #output: { text: string };

  private constructor(child: ChildProcess, url: string, exit: Promise<Exit>, output: { text: string }) {
    this.#child = child;
    this.url = url;
    this.#exit = exit;
    this.#output = output;
  }

  /** @throws Error with its output, if it does not start */
  static async start({ flags = ["--store", "sqlite::memory:"], env = {} }: ServerOptions = {}): Promise<ServerProcess> {
    const child = spawn(process.execPath, [...START, "--port", "0", ...flags], {
      cwd: ROOT,
      env: { ...BARE_ENV, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    running.add(child);
    const exit = once(child, "exit").then(([code, signal]): Exit => {
      running.delete(child);
      return { code, signal };
    });
    const output = { text: "" };
    const listening = new Promise<string>((resolve) => {
      for (const stream of [child.stdout!, child.stderr!]) {
        stream.setEncoding("utf8").on("data", (text: string) => {
          output.text += text;
          const address = ADDRESS.exec(output.text)?.[0];
          if (address !== undefined) resolve(address);
        });
      }
    });
    const url = await Promise.race([listening, exit, after(PATIENCE_MS)]);
    if (typeof url === "string") return new ServerProcess(child, url, exit, output);
    child.kill("SIGKILL");
    throw new Error(`the server did not start\n${output.text}`);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** All its output so far, of both streams. */
  get logs(): string {
    return this.#output.text;
  }

  /** SIGTERM. Resolves when it has ended. If it does not end, it is killed, and the call rejects. */
  async stop(): Promise<Exit> {
    this.#child.kill("SIGTERM");
    const exit = await Promise.race([this.#exit, after(PATIENCE_MS)]);
    if (exit) return exit;
    await this.kill();
    throw new Error(`the server did not stop\n${this.logs}`);
  }

  /** SIGKILL. Resolves when it has ended. */
  async kill(): Promise<Exit> {
    this.#child.kill("SIGKILL");
    return this.#exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

function after(ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    setTimeout(() => resolve(undefined), ms).unref();
  });
}
