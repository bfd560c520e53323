import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { BARE_ENV } from "../agents/bare-env.ts";
import type { StreamEvent } from "../clients/frame-reader.ts";
import { metricOf } from "../clients/node-client.ts";
import { SseReader } from "../clients/sse-reader.ts";
import { KeptLog, makeFolder, StandingClock } from "../stores/sqlite-place.ts";
import { checkStoredFloors } from "../stores/stored-floors-check.ts";
import { CLI } from "./cli.ts";
import type { AnswerBody } from "./node-under-test.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** The arguments of `npm start`: V8's options, the program and its command. */
const START: string[] = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8"))
  .scripts.start.split(" ")
  .slice(1)
  .map((word: string) => (word === "src/cli/main.ts" ? CLI : word));
const ADDRESS = /^Interlock is listening on (http:\/\/\S+)$/m;

type Catalog = { agents: Record<string, unknown>[] } & Record<string, unknown>;

/** A line of a node's log. */
export interface LogLine {
  level: number;
  msg: string;
  floorId?: string;
  lines?: number;
  agentId?: string;
  finishReason?: string;
  err?: { message?: string };
}

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Installation {
  readonly file: string;
  /** Do not check the floors at the end: the test damages the database, or changes the catalogue. */
  leaveUnchecked(): void;
  /** Starts a node. The process ends with the test at the latest. */
  begin(options?: StartOptions): ChildServer;
  /**
   * Starts a node and waits until it listens.
   * @throws Error with its output, if it ends before it listens
   */
  start(options?: StartOptions): Promise<ChildServer>;
}

export interface StartOptions {
  settings?: Record<string, string>;
  /** The catalogue of this node alone. */
  catalog?: Catalog;
  /** The largest size of a file that the node writes, to simulate a full disk. */
  maxFileKib?: number;
  /** A redirection of its output by the shell: `2>/dev/full`. */
  redirection?: string;
  /** Its stderr is a pipe without a reader. */
  isDeaf?: boolean;
  /** Further words of its command line. */
  flags?: readonly string[];
  /** A program with its arguments that becomes the node. */
  prefix?: readonly string[];
}

/**
 * A database file and a catalogue in a private folder, and the nodes that are started on them. At the end every floor
 * of the file is checked, unless the catalogue was changed meanwhile.
 * @param atEnd registers a function for the end, last registered first called; default: the end of the test
 */
export async function makeInstallation(
  catalog: Catalog,
  settings: Record<string, string> = {},
  atEnd: (close: () => Promise<void>) => void = onTestFinished,
): Promise<Installation> {
  const { folder, file, remove } = await makeFolder();
  atEnd(remove);
  const config = join(folder, "agents.yaml");
  // JSON is valid YAML.
  const text = JSON.stringify(catalog);
  await writeFile(config, text);
  /** The catalogues of single nodes. */
  const others: string[] = [];
  let isChecked = settings["INTERLOCK_STORE"] === undefined;
  atEnd(async () => {
    if (!isChecked || !(await stat(config)).isFile() || !existsSync(file)) return;
    if ((await readFile(config, "utf8")) !== text) return;
    // The file after the nodes, opened without them.
    const store = openSqliteStore({ file, clock: new StandingClock(), log: new KeptLog() });
    await checkStoredFloors(store, text, others);
  });
  const common = { PORT: "0", INTERLOCK_STORE: `sqlite:${file}`, INTERLOCK_CONFIG: config, ...settings };
  const begin = ({ settings: more = {}, catalog: own, ...options }: StartOptions = {}) => {
    const itsConfig = own && { INTERLOCK_CONFIG: join(folder, `agents-${randomUUID()}.yaml`) };
    if (itsConfig) {
      others.push(JSON.stringify(own));
      writeFileSync(itsConfig.INTERLOCK_CONFIG, others.at(-1)!);
    }
    const server = new ChildServer({ ...common, ...itsConfig, ...more }, options);
    atEnd(() => server.kill());
    return server;
  };
  return {
    file,
    begin,
    leaveUnchecked() {
      isChecked = false;
    },
    async start(options) {
      const server = begin(options);
      await server.listening();
      return server;
    },
  };
}

/** A real node in a separate process, on a free port. */
export class ChildServer {
  /** Resolves when the process has ended. */
  readonly ended: Promise<Exit>;
  readonly #child: ChildProcess;
  readonly #address = Promise.withResolvers<void>();
  #url: string | undefined;
  #stdout = "";
  #stderr = "";
  #heard: (() => void) | undefined;

  constructor(
    env: Record<string, string>,
    { maxFileKib, redirection = "", isDeaf = false, flags = [], prefix = [] }: StartOptions = {},
  ) {
    const limit = maxFileKib === undefined ? "" : `ulimit -S -f ${maxFileKib}; `;
    const own = [...prefix, process.execPath, ...START, ...flags];
    const inShell = ["bash", "-c", `${limit}exec "$0" "$@" ${redirection}`, ...own];
    const [command, ...args] = limit + redirection === "" ? own : inShell;
    const child = spawn(command!, args, {
      cwd: ROOT,
      env: { ...BARE_ENV, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
      this.#url ??= ADDRESS.exec(this.#stdout)?.[1];
      if (this.#url) this.#address.resolve();
    });
    if (!isDeaf) this.#listen();
    this.ended = once(child, isDeaf ? "exit" : "close").then(([code, signal]) => ({ code, signal }));
  }

  /**
   * Starts a node with the shipped catalogue and these settings, on a free port; it ends with the test.
   * @throws Error with its output, if it ends before it listens
   */
  static async start(settings: Record<string, string>): Promise<ChildServer> {
    const server = new ChildServer({ PORT: "0", ...settings });
    onTestFinished(() => server.kill());
    await server.listening();
    return server;
  }

  #listen(): void {
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
      this.#heard?.();
    });
  }

  /** Read a log that was not read before, until a line matches; `work` repeatedly makes the node write more. */
  async hear(isIt: (line: LogLine) => boolean, work: () => Promise<void>): Promise<void> {
    this.#listen();
    while (!this.log.some(isIt)) await work();
  }

  /** Resolves when its stderr has this text. What a node logs arrives by another way than its answers and events. */
  async printed(text: string): Promise<void> {
    await this.#heardThat(() => this.#stderr.includes(text));
  }

  /** Resolves when a line of its log matches. */
  async logged(isIt: (line: LogLine) => boolean): Promise<void> {
    await this.#heardThat(() => this.log.some(isIt));
  }

  async #heardThat(holds: () => boolean): Promise<void> {
    while (!holds()) {
      const heard = new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
      await Promise.race([heard, this.ended.then(() => Promise.reject(new Error(`the node ended\n${this.#stderr}`)))]);
    }
  }

  /** @throws Error with its output, when it ends before */
  async listening(): Promise<void> {
    await Promise.race([this.#address.promise, this.ended]);
    if (!this.#url) throw new Error(`the node did not start\n${this.#stderr}`);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get url(): string {
    return this.#url!;
  }

  get stdout(): string {
    return this.#stdout;
  }

  /** Its complete stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  get log(): LogLine[] {
    const lines = this.#stderr.split("\n").filter((line) => line.startsWith("{") && line.endsWith("}"));
    return lines.map((line) => JSON.parse(line));
  }

  signal(name: "SIGTERM" | "SIGINT"): void {
    this.#child.kill(name);
  }

  /** Freeze it: the process and its connections stay, and it does nothing. */
  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child.kill("SIGCONT");
  }

  /** SIGKILL; resolves when the process has ended. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  /** An answer with any status. Rejects when the node cannot be reached. */
  async ask(method: string, path: string, body?: unknown, key?: string): Promise<{ status: number; body: AnswerBody }> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...((body !== undefined || method === "POST") && { "Content-Type": "application/json" }),
        ...(key !== undefined && { "Idempotency-Key": key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as AnswerBody };
  }

  post(path: string, body?: unknown, key?: string) {
    return this.ask("POST", path, body, key);
  }

  /** A session's log from its beginning, up to an event that matches. */
  async follow(sessionId: string, fits: (event: StreamEvent) => boolean): Promise<StreamEvent[]> {
    const stream = await SseReader.open(`${this.url}/session/${sessionId}/events?lastEventId=`);
    const events = await stream.until(fits);
    await stream.close();
    return events;
  }

  /** The value of a metric; 0 if it is absent. */
  async metric(name: string): Promise<number> {
    return (await metricOf(this, name)) ?? 0;
  }
}
