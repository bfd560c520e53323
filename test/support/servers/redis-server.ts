import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { access, constants, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { freePort } from "./free-port.ts";
import type { ServerChoice, ServerKind, TestServer } from "./server-choice.ts";

export interface RedisServer extends TestServer {
  url: string;
}

/** A Redis for tests that only use it. */
export const redis: ServerKind<RedisServer> = {
  name: "Redis",
  variable: "TEST_REDIS_URL",
  at: async (url) => ({ url, stop: async () => {} }),
  async inContainer() {
    const { GenericContainer, Wait } = await import("testcontainers");
    const container = await new GenericContainer("redis:7-alpine")
      .withCommand(["redis-server", "--save", "", "--appendonly", "no"])
      .withExposedPorts(6_379)
      .withWaitStrategy(Wait.forLogMessage("Ready to accept connections"))
      .start();
    const url = `redis://${container.getHost()}:${container.getMappedPort(6_379)}`;
    return { url, stop: async () => void (await container.stop()) };
  },
  findBinaries: async () => ((await findRedis()) ? () => startRedis() : undefined),
};

/** A Redis that is a process of this machine: it can be frozen, killed and restarted. */
export async function chooseRedisProcess(): Promise<ServerChoice<RedisProcess>> {
  return (await findRedis())
    ? { how: "this machine's binaries", start: () => startRedis() }
    : { missing: "no redis-server on this machine" };
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
export async function startRedis({ password, config = [] }: RedisOptions = {}): Promise<RedisProcess> {
  const file = await findRedis();
  if (!file) throw new Error("there is no redis-server on this machine");
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

/** The path of the binary, if it is installed. */
async function findRedis(): Promise<string | undefined> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, "redis-server");
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return file;
  }
  return undefined;
}
