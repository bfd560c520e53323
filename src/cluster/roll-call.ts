import { z } from "zod";
import type { Bus, Subscription } from "../bus/bus.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import { type HeardReport, NodeReport } from "../protocol/internal/node-report.ts";
import type { Clock } from "../shared/ports/clock.ts";

export interface RollCallOptions {
  bus: Bus;
  /** Measures elapsed time: it must not jump. */
  clock: Clock;
  epoch: string;
  nodeId: string;
  /** What this node says of itself. */
  report: () => Promise<NodeReport>;
}

/** How long nodes may take to answer, in ms. */
const PATIENCE_MS = 500;
/** A node that has not answered for so long is forgotten, in ms: operators see for a while which node is gone. */
const FORGET_MS = 60_000;
/** Reports of so many other nodes are kept. Those of further nodes are dropped. */
const MAX_NODES = 1_000;

const Question = z.union([z.object({ by: z.string().max(256) }), z.object({ left: z.string().max(256) })]);
type Question = z.infer<typeof Question>;

interface KnownReport {
  report: NodeReport;
  at: number;
}

/**
 * Asks all nodes what they do, when it starts and when an operator wants to know. Nothing is sent while no operator
 * asks. Answers are hints, as all messages on the bus: a node that does not answer may only be cut off from the bus.
 */
export class RollCall {
  readonly #options: RollCallOptions;
  /** Other nodes, by id. */
  readonly #known = new Map<string, KnownReport>();
  /** Nodes that asked, and whose answer this node has not had yet: the next call waits for them too. */
  readonly #expected = new Set<string>();
  /** Whether a call has waited for its whole time, so that the other nodes are known. */
  #knowsOthers = false;
  #subscriptions: Subscription[] = [];
  /** The call of the start. */
  #first = Promise.resolve();
  /** Requests during a call share it. */
  #calling: Promise<HeardReport[]> | undefined;
  /** Called for each answer during a call. */
  #onReport: () => void = () => {};

  constructor(options: RollCallOptions) {
    this.#options = options;
  }

  /** @throws AppError `unavailable` when the bus is away */
  async start(): Promise<void> {
    const { bus, nodeId } = this.#options;
    if (bus.isLocal) return;
    this.#subscriptions.push(await bus.subscribe(this.#answersOf(nodeId), (message) => this.#receive(message)));
    this.#subscriptions.push(await bus.subscribe(this.#questions, (message) => void this.#answer(message)));
    // The first request of an operator then has all nodes, and the others learn of this one.
    this.#first = this.#call().then(
      () => {},
      () => {},
    );
  }

  /** Tell the other nodes that this one stops, so that they do not show it as silent. */
  async stop(): Promise<void> {
    const { bus, nodeId } = this.#options;
    if (!bus.isLocal) await this.#send(this.#questions, { left: nodeId } satisfies Question);
    for (const subscription of this.#subscriptions.splice(0)) subscription.end();
  }

  /** Every node's report, this node's first, then in the order of their ids. Takes at most half a second. */
  call(): Promise<HeardReport[]> {
    // The call of the start may have begun before other nodes were there.
    this.#calling ??= this.#first
      .then(() => this.#call())
      .finally(() => {
        this.#calling = undefined;
      });
    return this.#calling;
  }

  async #call(): Promise<HeardReport[]> {
    const { bus, clock, nodeId, report } = this.#options;
    const own: HeardReport = { ...(await report()), isSelf: true };
    if (bus.isLocal) return [own];
    const begun = clock.now();
    const hasAnswered = ({ at }: KnownReport) => at >= begun;
    await new Promise<void>((resolve) => {
      const late = clock.after(PATIENCE_MS, resolve);
      this.#onReport = () => {
        if (!this.#knowsOthers || this.#expected.size > 0 || ![...this.#known.values()].every(hasAnswered)) return;
        late.cancel();
        resolve();
      };
      void this.#send(this.#questions, { by: nodeId } satisfies Question);
    });
    this.#onReport = () => {};
    this.#knowsOthers = true;
    // A node that asked and does not answer is cut off, or has ended.
    this.#expected.clear();
    const now = clock.now();
    for (const [node, { at }] of this.#known) if (now - at > FORGET_MS) this.#known.delete(node);
    const others = [...this.#known.values()].map((known) =>
      hasAnswered(known) ? known.report : { ...known.report, silentMs: Math.round(now - known.at) },
    );
    return [own, ...others.sort((one, other) => (one.node < other.node ? -1 : 1))];
  }

  async #answer(message: Uint8Array): Promise<void> {
    const question = readMessage(Question, message);
    const { nodeId, report } = this.#options;
    if (!question) return;
    if ("left" in question) {
      this.#known.delete(question.left);
      this.#expected.delete(question.left);
    } else if (question.by !== nodeId) {
      if (!this.#known.has(question.by) && this.#expected.size < MAX_NODES) this.#expected.add(question.by);
      await this.#send(this.#answersOf(question.by), await report());
    }
  }

  #receive(message: Uint8Array): void {
    const report = readMessage(NodeReport, message);
    if (!report || report.node === this.#options.nodeId) return;
    if (!this.#known.has(report.node) && this.#known.size >= MAX_NODES) return;
    this.#expected.delete(report.node);
    this.#known.set(report.node, { report, at: this.#options.clock.now() });
    this.#onReport();
  }

  #send(topic: string, message: Question | NodeReport): Promise<void> {
    return this.#options.bus.publish(topic, writeMessage(message));
  }

  get #questions(): string {
    return `${this.#options.epoch}.reports`;
  }

  #answersOf(nodeId: string): string {
    return `${this.#options.epoch}.reports.${nodeId}`;
  }
}
