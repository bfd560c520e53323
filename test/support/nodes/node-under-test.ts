import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import type { WhatIfAnswer } from "../../../src/client/client-error.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { type App, createApp } from "../../../src/node/app.ts";
import type { SpentBudget } from "../../../src/protocol/budget.ts";
import type { Decision } from "../../../src/protocol/decision.ts";
import { ERRORS, type ErrorCode } from "../../../src/protocol/errors.ts";
import type { SwitchOutcome } from "../../../src/protocol/internal/reply.ts";
import type { ListedRun } from "../../../src/protocol/listed-run.ts";
import type { LogLine, Message } from "../../../src/protocol/message.ts";
import type { Routed } from "../../../src/protocol/routed.ts";
import type { AgentInfo, Session } from "../../../src/protocol/session.ts";
import { E2E_AGENTS } from "../catalogs/e2e-catalog.ts";
import { SseReader } from "../clients/sse-reader.ts";
import { PublishedSchemas } from "../documents/published-schema.ts";
import { differencesIn, isReplayed } from "../floors/replayed-logs.ts";

type File = Record<string, unknown>;

export interface NodeOptions {
  /** The catalogue's agents. Default: `E2E_AGENTS`. */
  agents?: readonly File[];
  /** The catalogue's other keys. Default: `general` is the default agent. */
  catalog?: File;
  /** Settings other than a free port, a store in memory and a silent log. */
  settings?: Record<string, string>;
  /** Further variables of its environment. Default: none. */
  env?: Record<string, string>;
  /** Whether failures in the log are expected. Default: a logged failure fails the test that stops the node. */
  mayFail?: boolean;
  /** The folder of the built page. Default: the app's own. */
  pageFolder?: string;
}

/** The fields of all answers. A field that an answer lacks is undefined in spite of its type. */
export interface AnswerBody {
  success: boolean;
  position: string;
  session: Session & { messages: Message[]; hasMore: boolean };
  sessions: Session[];
  page: number;
  pageSize: number;
  total: number;
  hasMore: boolean;
  messages: Message[];
  logs: LogLine[];
  deleted: boolean;
  archived: string[];
  floorId: string;
  floors: { floorId: string }[];
  holder: Session | null;
  paused: Session[];
  queued: Session[];
  flags: Record<string, boolean>;
  decisions: Decision[];
  runs: ListedRun[];
  next: string;
  decision: Decision;
  sessionId: string;
  messageId: string;
  runId: string;
  outcome: SwitchOutcome;
  interrupted: { runId: string; messageId: string };
  agents: (AgentInfo & { priority: number; interruptible: boolean; capabilities: string[]; available: boolean })[];
  defaultAgentId: string;
  errorCode: ErrorCode;
  error: string;
  retryable: boolean;
  traceId: string;
  retryAfterMs: number;
  budget: SpentBudget;
  refused: WhatIfAnswer["refused"];
  routed: Routed;
  issues: { path: string; message: string }[];
  allowed: string[];
  availableAgents: AgentInfo[];
  commandId: string;
  status: string;
  missing: string[];
  catalog: { hash: string; loadedAt: number; faultCount: number; faults: { line: number; message: string }[] };
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  bytes: Buffer;
  body: AnswerBody;
}

export interface RequestOptions {
  /** The `Idempotency-Key`. */
  key?: string;
  headers?: OutgoingHttpHeaders;
  /** Sent unchanged, in place of JSON. */
  raw?: string;
}

/** The schemas that the nodes of this process publish, by their roles: no other setting changes an answer's schema. */
const published = new Map<string, PublishedSchemas>();

/** A node in this process, reached over real HTTP. Every JSON answer is checked against the published schemas. */
export class NodeUnderTest {
  readonly url: string;
  readonly #app: App;
  readonly #folder: string;
  readonly #mayFail: boolean;
  /** Whether anybody may read its floors' logs: it is a gateway that runs, and wants no credential. */
  #isReadable: boolean;
  readonly #faults: unknown[];
  readonly #agent = new Agent({ keepAlive: true });
  readonly #streams: SseReader[] = [];
  #schemas: PublishedSchemas | undefined;
  #users = 0;
  /** The texts of its catalogues, in the order in which they were written. */
  readonly #catalogues: string[] = [];

  private constructor(
    app: App,
    url: string,
    folder: string,
    { settings = {}, mayFail = false }: NodeOptions,
    faults: unknown[],
  ) {
    this.#app = app;
    this.url = url;
    this.#folder = folder;
    this.#mayFail = mayFail;
    const { INTERLOCK_ROLES: roles = "gateway", INTERLOCK_AUTH: auth } = settings;
    this.#isReadable = roles.includes("gateway") && auth === undefined;
    this.#faults = faults;
  }

  /** @param atEnd stops it: at the end of the test (`onTestFinished`), or of the file (`afterAll`) */
  static async start(options: NodeOptions = {}, atEnd?: (stop: () => Promise<void>) => void) {
    const { agents = E2E_AGENTS, catalog, settings, env = {}, pageFolder } = options;
    const folder = await mkdtemp(join(tmpdir(), "interlock-e2e-"));
    const configPath = join(folder, "agents_config.yaml");
    const text = JSON.stringify({ agents, ...(catalog ?? { default_agent: "general" }) });
    await writeFile(configPath, text);
    const reading = readSettings({
      PORT: "0",
      INTERLOCK_STORE: "sqlite::memory:",
      INTERLOCK_CONFIG: configPath,
      INTERLOCK_DRAIN: "1s",
      LOG_LEVEL: "silent",
      ...settings,
    });
    if (!reading.ok) throw new Error(`the test's settings are faulty: ${JSON.stringify(reading.faults)}`);
    const faults: unknown[] = [];
    const log = { debug() {}, info() {}, warn() {}, error: (...entry: unknown[]) => void faults.push(entry) };
    const app = createApp({ settings: reading.settings, env, log, ...(pageFolder !== undefined && { pageFolder }) });
    const { url } = await app.start().catch(async (error: unknown) => {
      await rm(folder, { recursive: true });
      throw error;
    });
    const node = new NodeUnderTest(app, url, folder, options, faults);
    node.#catalogues.push(await readFile(settings?.["INTERLOCK_CONFIG"] ?? configPath, "utf8"));
    const roles = settings?.["INTERLOCK_ROLES"] ?? "";
    let schemas = published.get(roles);
    if (!schemas) {
      const { text } = await node.send("GET", "/openapi.json");
      schemas = new PublishedSchemas(JSON.parse(text));
      published.set(roles, schemas);
    }
    node.#schemas = schemas;
    atEnd?.(() => node.stop());
    return node;
  }

  /** Replace the catalogue's file atomically. */
  async writeCatalog(text: string): Promise<void> {
    const path = join(this.#folder, "agents_config.yaml");
    this.#catalogues.push(text);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }

  /** Stop as after a signal, while clients are connected. */
  async shutDown(): Promise<void> {
    this.#isReadable = false;
    await this.#app.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await Promise.all(this.#streams.map((stream) => stream.close()));
    const isPlayed = this.#isReadable && isReplayed(expect.getState().testPath);
    const differences = isPlayed ? await this.#replayLogs() : [];
    this.#agent.destroy();
    await this.shutDown();
    if (!this.#mayFail) expect(this.#faults).toEqual([]);
    expect(differences).toEqual([]);
  }

  /** What is otherwise if the logs of its floors are played with its own catalogues. */
  async #replayLogs(): Promise<string[]> {
    const client = createClient({ baseUrl: this.url });
    const differences: string[] = [];
    const { floors } = await client.listFloors({ limit: 1_000 });
    for (const { floorId } of floors) {
      const { events, hasMore } = await client.readFloorLog(floorId, { limit: 2_000 });
      if (!hasMore) differences.push(...differencesIn({ floorId, events: events.reverse(), texts: this.#catalogues }));
    }
    return differences;
  }

  /**
   * A user id that no test of this node has, so that a repeated test finds an empty floor.
   * @param name the id's prefix; a number follows
   */
  newUser(name = "user"): string {
    this.#users += 1;
    return `${name}${this.#users}`;
  }

  /** An id that no session of this node has, so that a repeated test creates a new one. @param name the id's prefix */
  newId(name: string): string {
    return this.newUser(`${name}-`);
  }

  readonly get = (path: string, options?: RequestOptions) => this.#ask("GET", path, undefined, options);
  readonly post = (path: string, body?: unknown, options?: RequestOptions) => this.#ask("POST", path, body, options);
  readonly put = (path: string, body: unknown, options?: RequestOptions) => this.#ask("PUT", path, body, options);
  readonly patch = (path: string, body: unknown, options?: RequestOptions) => this.#ask("PATCH", path, body, options);
  readonly delete = (path: string, options?: RequestOptions) => this.#ask("DELETE", path, undefined, options);

  /** The messages of a session. @param role only those of this one */
  async messages(sessionId: string, role?: Message["role"]): Promise<AnswerBody["messages"]> {
    const { status, text, body } = await this.get(`/session/${sessionId}/messages?limit=500`);
    expect(status, text).toBe(200);
    return body.messages.filter((message) => role === undefined || message.role === role);
  }

  /** One request, sent as given. */
  async send(method: string, path: string, headers: OutgoingHttpHeaders = {}, content?: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      // The path is sent unchanged, because `URL` would normalise it.
      const { hostname, port } = new URL(this.url);
      const sent = request({ hostname, port, method, path, headers, agent: this.#agent }, async (response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) chunks.push(chunk as Buffer);
        const bytes = Buffer.concat(chunks);
        const text = bytes.toString();
        const { "content-type": type, "content-encoding": encoding } = response.headers;
        const isJson = encoding === undefined && type?.startsWith("application/json");
        const body = (isJson && text !== "" ? JSON.parse(text) : undefined) as AnswerBody;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, bytes, body });
      });
      sent.on("error", reject);
      sent.end(content);
    });
  }

  /** Send a POST and close the connection before the answer. */
  sendAndLeave(path: string, body: unknown): Promise<void> {
    return new Promise((resolve) => {
      const headers = { "Content-Type": "application/json" };
      const sent = request(this.url + path, { method: "POST", headers, agent: false });
      sent.on("error", () => {});
      sent.on("close", resolve);
      sent.end(JSON.stringify(body), () => sent.destroy());
    });
  }

  /** Open an event stream; it is closed when the node stops. */
  async stream(path: string, headers?: Record<string, string>): Promise<SseReader> {
    const stream = await SseReader.open(this.url + path, headers);
    this.#streams.push(stream);
    return stream;
  }

  async #ask(method: string, path: string, body: unknown, options: RequestOptions = {}): Promise<Answer> {
    const { key, headers, raw } = options;
    const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const answer = await this.send(
      method,
      path,
      {
        ...((content !== undefined || method === "POST") && { "Content-Type": "application/json" }),
        ...(content !== undefined && { "Content-Length": Buffer.byteLength(content) }),
        ...(key !== undefined && { "Idempotency-Key": key }),
        ...headers,
      },
      content,
    );
    if (answer.body !== undefined) this.#check(method, path, answer);
    return answer;
  }

  /** Every JSON answer matches its schema; every failure is a problem with matching code, status and `retryable`. */
  #check(method: string, path: string, { status, body, text }: Answer): void {
    const what = `${status} to ${method} ${path}: ${text.slice(0, 2_000)}`;
    expect(this.#schemas!.findFault(method, path.split("?", 1)[0]!, status, body), what).toBeUndefined();
    if (status < 400 || status === 503) return;
    const { status: published, retry } = ERRORS[body.errorCode];
    expect({ status, retryable: body.retryable }, what).toEqual({ status: published, retryable: retry !== "no" });
    expect(text, "an answer tells nothing of the server's inside").not.toMatch(/\bat .+:\d+:\d+|node_modules|\.ts\b/);
  }
}
