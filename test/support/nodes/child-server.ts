import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { FinishReason, MessageStatus } from "../../../src/protocol/message.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { BARE_ENV } from "../agents/bare-env.ts";
import { readCatalog } from "../catalogs/catalog.ts";
import { KeptLog, makeFolder, StandingClock } from "../stores/sqlite-place.ts";
import { checkStoredFloors } from "../stores/stored-floors-check.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
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

export interface ServerHouse {
  readonly file: string;
  /** Do not check the floors at the end: the test breaks the database, or changes what it was decided by. */
  leaveUnchecked(): void;
  /** A node that is about to start. Whatever happens to the test, the process does not outlive it. */
  begin(options?: StartOptions): ChildServer;
  /**
   * A node that listens.
   * @throws Error with what it printed, when it ends without having listened
   */
  start(options?: StartOptions): Promise<ChildServer>;
}

export interface StartOptions {
  settings?: Record<string, string>;
  /** No file the node writes may grow over it, as on a full disk. */
  maxFileKib?: number;
  /** Where the shell sends its output instead of here: `2>/dev/full`. */
  redirection?: string;
  /** Its stderr is a pipe that is not read. */
  isDeaf?: boolean;
}

/**
 * A database file and a catalogue in a private folder, and the nodes that are started on them. At the end every floor of
 * the file is checked, unless the catalogue was changed meanwhile.
 * @param atEnd what is given to it is called at the end, last given first called; default: the end of the test
 */
export async function makeHouse(
  catalog: Catalog,
  settings: Record<string, string> = {},
  atEnd: (close: () => Promise<void>) => void = onTestFinished,
): Promise<ServerHouse> {
  const { folder, file, remove } = await makeFolder();
  atEnd(remove);
  const config = join(folder, "agents.yaml");
  // JSON is YAML.
  const text = JSON.stringify(catalog);
  await writeFile(config, text);
  let isChecked = settings["INTERLOCK_STORE"] === undefined;
  atEnd(async () => {
    if (!isChecked || !(await stat(config)).isFile()) return;
    if ((await readFile(config, "utf8")) === text) await checkFile(file, text);
  });
  const common = { PORT: "0", INTERLOCK_STORE: `sqlite:${file}`, INTERLOCK_CONFIG: config, ...settings };
  const begin = ({ settings: more = {}, ...options }: StartOptions = {}) => {
    const server = new ChildServer({ ...common, ...more }, options);
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

/** What the nodes left on a file that is theirs alone. */
async function checkFile(file: string, catalog: string): Promise<void> {
  if (!existsSync(file)) return;
  const store = await openSqliteStore({ file, clock: new StandingClock(), log: new KeptLog() });
  try {
    await checkStoredFloors(store, readCatalog(catalog));
  } finally {
    await store.close();
  }
}

/** A real node in a process of its own, on a free port. */
export class ChildServer {
  /** Resolves when the process has ended. */
  readonly ended: Promise<Exit>;
  readonly #child: ChildProcess;
  readonly #address = Promise.withResolvers<void>();
  #url: string | undefined;
  #stdout = "";
  #stderr = "";
  #heard: (() => void) | undefined;

  constructor(env: Record<string, string>, { maxFileKib, redirection = "", isDeaf = false }: StartOptions = {}) {
    const limit = maxFileKib === undefined ? "" : `ulimit -S -f ${maxFileKib}; `;
    const command = `${limit}exec "$0" "$@" ${redirection}`;
    const child = spawn("bash", ["-c", command, process.execPath, "src/cli/main.ts", "serve"], {
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

  #listen(): void {
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
      this.#heard?.();
    });
  }

  /** Read a log that was not read, until a line is as it should be; `work` makes the node say more, again and again. */
  async hear(isIt: (line: LogLine) => boolean, work: () => Promise<void>): Promise<void> {
    this.#listen();
    while (!this.log.some(isIt)) await work();
  }

  /** Resolves when a line of its log is as it should be. */
  async logged(isIt: (line: LogLine) => boolean): Promise<void> {
    while (!this.log.some(isIt)) {
      const heard = new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
      await Promise.race([heard, this.ended.then(() => Promise.reject(new Error(`the node ended\n${this.#stderr}`)))]);
    }
  }

  /** @throws Error with what it printed, when it ends before */
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

  /** What it printed on stderr, whole. */
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

  /** It goes on existing, with all its connections, and does nothing. */
  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child.kill("SIGCONT");
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  /** An answer, whatever its status. Rejects when the node is not there. */
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

  /** A session's log from its beginning, until it has an event that fits. */
  async follow(sessionId: string, fits: (event: ToldEvent) => boolean): Promise<ToldEvent[]> {
    const stream = await fetch(`${this.url}/session/${sessionId}/events?lastEventId=`);
    const told: ToldEvent[] = [];
    let rest = "";
    for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      for (const line of lines) if (line.startsWith("data: ")) told.push(JSON.parse(line.slice(6)));
      if (told.some(fits)) return told;
    }
    throw new Error(`the stream ended after ${told.map(({ type }) => type)}`);
  }

  /** The value of a metric; 0 when it is not there. */
  async metric(name: string): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    return line === undefined ? 0 : Number(line.slice(name.length + 1));
  }
}

/** An event of a stream. */
export interface ToldEvent {
  type: string;
  data: Record<string, unknown>;
}

/** What answers hold; what a particular one lacks is undefined, whatever the type says. */
export interface AnswerBody {
  success: boolean;
  position: string;
  errorCode: string;
  commandId: string;
  sessionId: string;
  messageId: string;
  runId: string;
  deleted: boolean;
  archived: string[];
  status: string;
  session: {
    id: string;
    title: string;
    summary?: string;
    summaryId?: string;
    mode?: string;
    state: string;
    activity: string;
    messageCount: number;
  };
  sessions: AnswerBody["session"][];
  messages: {
    id: string;
    role: string;
    content: string;
    status: MessageStatus;
    runId: string;
    finishReason?: FinishReason;
    summary?: { upTo: string };
  }[];
  holder: { id: string } | null;
}
