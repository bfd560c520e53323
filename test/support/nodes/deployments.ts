import { describe, expect, inject } from "vitest";
import type { StreamEvent } from "../clients/frame-reader.ts";
import { headOf } from "../clients/node-client.ts";
import { SessionReader } from "../clients/session-reader.ts";
import { atEndOfSuite } from "../runner/at-end-of-suite.ts";
import { beforeTries } from "../runner/before-tries.ts";
import { type ChildServer, type Installation, makeInstallation } from "./child-server.ts";
import { Cluster, describeClusters } from "./cluster.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** The deployment that `describeDeployments` tests, by the project. */
    deployment: "in one process" | "scaled out";
  }
}

type Catalog = Parameters<typeof makeInstallation>[0];

/** Real nodes that answer clients, in one of the two deployments. */
export interface DeploymentUnderTest {
  /** Whether one process has every role. */
  readonly isEmbedded: boolean;
  /** The node to which clients send messages. */
  readonly here: ChildServer;
  /** The node at which clients read and answer: another gateway, if there is one. */
  readonly there: ChildServer;
  /** The processes that run agents. */
  readonly workers: readonly ChildServer[];
  /** Kill every node with SIGKILL, and start as many on the same data. */
  restart(): Promise<void>;
  /**
   * Kill the processes that run agents with SIGKILL, and start others. In the embedded deployment that is the whole
   * node.
   */
  loseWorker(): Promise<void>;
}

export interface DeploymentOptions {
  catalog: () => Catalog | Promise<Catalog>;
  settings?: Record<string, string>;
}

/**
 * One suite for both deployments: a node with a SQLite file, in `npm test`; and two gateways, an orchestrator and a
 * worker over PostgreSQL and Redis, in `npm run test:long`. The nodes start once per suite.
 */
export function describeDeployments(
  name: string,
  options: DeploymentOptions,
  suite: (deployment: DeploymentUnderTest) => void,
): void {
  const deployment = inject("deployment");
  const title = `${name}, ${deployment}`;
  if (deployment === "in one process") {
    describe(title, () => suiteOver(options, embedded, suite));
    return;
  }
  describeClusters(title, (servers) => {
    const start: Start = async ({ catalog, settings = {} }, atEnd) => {
      const cluster = await Cluster.make(servers, { catalog: await catalog(), settings, atEnd });
      const all = () => cluster.startAll(["gateway"], ["gateway"], ["orchestrator"], ["worker"]);
      return {
        nodes: await all(),
        restart: all,
        worker: () => cluster.start(["worker"]),
      };
    };
    suiteOver(options, start, suite);
  });
}

type Nodes = readonly [here: ChildServer, there: ChildServer, orchestrator: ChildServer, worker: ChildServer];
interface Started {
  nodes: Nodes;
  restart(): Promise<Nodes>;
  worker(): Promise<ChildServer>;
}
type Start = (options: DeploymentOptions, atEnd: (close: () => Promise<void>) => void) => Promise<Started>;

const embedded: Start = async ({ catalog, settings = {} }, atEnd) => {
  const installation: Installation = await makeInstallation(await catalog(), settings, atEnd);
  const one = async (): Promise<Nodes> => {
    const node = await installation.start();
    return [node, node, node, node];
  };
  return { nodes: await one(), restart: one, worker: () => installation.start() };
};

function suiteOver(options: DeploymentOptions, start: Start, suite: (deployment: DeploymentUnderTest) => void): void {
  const atEnd = atEndOfSuite();
  let started: Started;
  let nodes: Nodes | undefined;
  // Again after a failed test: it may have ended between the end of a node and the start of the next one.
  beforeTries(async () => {
    if (nodes) await Promise.all(nodes.map((node) => node.kill()));
    started = await start(options, atEnd);
    nodes = started.nodes;
  });
  suite({
    isEmbedded: start === embedded,
    get here() {
      return nodes![0];
    },
    get there() {
      return nodes![1];
    },
    get workers() {
      return [nodes![3]];
    },
    async restart() {
      await Promise.all(nodes!.map((node) => node.kill()));
      nodes = await started.restart();
    },
    async loseWorker() {
      const [here, there, orchestrator, worker] = nodes!;
      await worker.kill();
      const next = await started.worker();
      nodes = here === worker ? [next, next, next, next] : [here, there, orchestrator, next];
    },
  });
}

let sessions = 0;

/** A session to which one node's client writes and which the other's reads. */
export class Talk {
  readonly id: string;
  readonly #deployment: DeploymentUnderTest;
  readonly #reader: SessionReader;

  private constructor(id: string, deployment: DeploymentUnderTest, reader: SessionReader) {
    this.id = id;
    this.#deployment = deployment;
    this.#reader = reader;
  }

  /** A new session with its own floor. */
  static async open(deployment: DeploymentUnderTest, agentId: string, fields: object = {}): Promise<Talk> {
    sessions += 1;
    const id = `talk-${process.pid}-${sessions}-${Date.now().toString(36)}`;
    const { status, body } = await deployment.here.post("/session/create", { id, agentId, activate: true, ...fields });
    expect(status, JSON.stringify(body)).toBe(200);
    return new Talk(id, deployment, await SessionReader.of(deployment.there, id));
  }

  /** The received part of its log. */
  get events(): readonly StreamEvent[] {
    return this.#reader.transcript.logs.get(this.id) ?? [];
  }

  eventsOf(type: string): StreamEvent[] {
    return this.events.filter((event) => event.type === type);
  }

  /** The session's state, by the received events. */
  get state(): string | undefined {
    return this.#reader.transcript.stateOf(this.id);
  }

  /** Whether an unfinished message has this text. */
  reading(text: string): boolean {
    return [...this.#reader.transcript.writing.values()].includes(text);
  }

  async until(holds: (talk: this) => boolean): Promise<void> {
    await this.#reader.until(() => holds(this));
  }

  /** Send a client's message, which must be accepted. */
  async send(message: object, node = this.#deployment.here): Promise<{ runId: string }> {
    const { status, body } = await node.post("/message", { sessionId: this.id, ...message });
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  }

  /** Start a turn. */
  async say(content: string): Promise<string> {
    return (await this.send({ type: "chat", content })).runId;
  }

  /** Run a turn to its end. */
  async ask(content: string): Promise<StreamEvent[]> {
    const from = this.events.length;
    await this.ended(await this.say(content));
    return this.events.slice(from);
  }

  /** The end of a run. All that was committed with it has been received. */
  async ended(runId: string): Promise<StreamEvent> {
    const complete = () => this.eventsOf("complete").find(({ data }) => data.runId === runId);
    await this.until(() => complete() !== undefined);
    await this.#caughtUp();
    return complete()!;
  }

  /** Resolves when all that is in the log by now was received: the events of one commit may arrive apart. */
  async #caughtUp(): Promise<void> {
    const head = await headOf(this.#deployment.there, this.id);
    await this.#reader.until((transcript) => transcript.seqOf(this.id) >= head);
  }

  /** The pending question or confirmation. All that was committed with it has been received. */
  async asked(type: "tool_confirmation_request" | "user_question_request"): Promise<StreamEvent> {
    const open = () => {
      const settled = new Set(this.eventsOf("interaction_resolved").map(({ requestId }) => requestId));
      return this.eventsOf(type).find(({ requestId }) => !settled.has(requestId));
    };
    await this.until(() => open() !== undefined);
    await this.#caughtUp();
    return open()!;
  }

  /** Answer a question or confirmation at the other node. */
  async answer({ type, requestId }: StreamEvent, response: unknown): Promise<void> {
    await this.send({ type: type.replace("_request", "_response"), requestId, response }, this.#deployment.there);
  }

  /** The session in the store. */
  async messages() {
    return (await this.#deployment.there.ask("GET", `/session/${this.id}/messages?limit=500`)).body.messages;
  }

  async session() {
    return (await this.#deployment.there.ask("GET", `/session/${this.id}`)).body.session;
  }

  /** Its whole log, read by a client without a position. */
  async replay(): Promise<readonly StreamEvent[]> {
    const reader = await new SessionReader(`${this.#deployment.here.url}/session/${this.id}/events`).open();
    const head = this.events.at(-1)!.seq!;
    await reader.until((transcript) => transcript.seqOf(this.id) >= head);
    reader.close();
    return reader.transcript.logs.get(this.id)!;
  }

  /** Continue to read after the nodes were restarted. */
  async comeBack(): Promise<void> {
    this.#reader.moveTo(this.#deployment.there.url);
    await this.#reader.open();
  }
}
