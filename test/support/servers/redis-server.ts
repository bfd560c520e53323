import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startOutside } from "../programs/outside-run.ts";
import type { StartedNeed } from "../programs/suites.ts";
import { freePort } from "./free-port.ts";

export interface RedisServer {
  url: string;
  stop(): Promise<void>;
}

/** A Redis for suites that only use it. */
export const REDIS: StartedNeed<RedisServer> = {
  program: "redis",
  ways: ["url", "container", "machine"],
  async start(way, at) {
    if (way === "url") return { url: at, stop: async () => {} };
    return way === "container" ? await startContainer() : await startProcess(at);
  },
};

/** One that the suite may stop or configure. */
export const OWN_REDIS: StartedNeed<RedisServer> = { ...REDIS, ways: ["container", "machine"] };

/** A Redis that is a process of this machine: it can be frozen, killed and restarted. */
export const REDIS_PROCESS: StartedNeed<RedisProcess, RedisOptions> = {
  program: "redis",
  ways: ["machine"],
  start: (_way, at, options) => startProcess(at, options),
};

/** One for a program that is no test. @throws Error if none is available */
export function startRedis(): Promise<RedisProcess> {
  return startOutside(REDIS_PROCESS);
}

async function startContainer(): Promise<RedisServer> {
  const { GenericContainer, Wait } = await import("testcontainers");
  const container = await new GenericContainer("redis:7-alpine")
    .withCommand(["redis-server", "--save", "", "--appendonly", "no"])
    .withExposedPorts(6_379)
    .withWaitStrategy(Wait.forLogMessage("Ready to accept connections"))
    .start();
  const url = `redis://${container.getHost()}:${container.getMappedPort(6_379)}`;
  return { url, stop: async () => void (await container.stop()) };
}

export interface RedisOptions {
  /** The password that it requires. */
  password?: string;
  /**
   * Further arguments of its command line, such as `["--maxmemory", "1mb"]`; the path of a configuration file must be
   * the first.
   */
  config?: readonly string[];
}

/** A separate Redis on a free port of 127.0.0.1, without persistence. It ends with the process. */
async function startProcess(file: string, { password, config = [] }: RedisOptions = {}): Promise<RedisProcess> {
  const guard = password === undefined ? [] : ["--requirepass", password];
  for (let tries = 1; ; tries++) {
    const folder = await mkdtemp(join(tmpdir(), "interlock-redis-"));
    const port = await freePort();
    const words = [...config, "--port", String(port), "--bind", "127.0.0.1", "--dir", folder, ...guard];
    const server = new RedisProcess(file, [...words, "--save", "", "--appendonly", "no"], folder, port, password);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      // Another process may take the free port before Redis does.
      if (tries === PORT_TRIES) throw error;
    }
  }
}

const PORT_TRIES = 3;
const READY = /Ready to accept connections|\+monitor master/;

/** All of them end with the test at the latest. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export class RedisProcess implements RedisServer {
  readonly url: string;
  readonly port: number;
  readonly #file: string;
  readonly #words: readonly string[];
  readonly #folder: string;
  #child: ChildProcess | undefined;

  constructor(file: string, words: readonly string[], folder: string, port: number, password?: string) {
    this.#file = file;
    this.#words = words;
    this.#folder = folder;
    this.port = port;
    const user = password === undefined ? "" : `:${encodeURIComponent(password)}@`;
    this.url = `redis://${user}127.0.0.1:${port}`;
  }

  /** @throws Error with its output, if it does not start */
  async start(): Promise<void> {
    const child = spawn(this.#file, this.#words, { stdio: ["ignore", "pipe", "ignore"] });
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    let printed = "";
    await new Promise<void>((resolve, reject) => {
      child.stdout!.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
        if (READY.test(printed)) resolve();
      });
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`Redis did not start\n${printed}`)));
    });
  }

  get pid(): number {
    return this.#child!.pid!;
  }

  /** Freeze it: the process and its connections stay, and it does nothing. */
  freeze(): void {
    this.#child!.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child!.kill("SIGCONT");
  }

  /** SIGKILL; resolves when it has ended. After a restart it is empty, at the same address. */
  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
