import type { Agent, Part, RunControl, Turn } from "../agents/agent.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import type { AgentId, MessageId, RunId, SessionId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import { RouterCall, RouterQuestion, type RouterReply, routerTopic } from "../protocol/internal/router-question.ts";
import { addUsage, type Usage } from "../protocol/message.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { raceAborted, sleep } from "../shared/waiting.ts";

export interface RouterAnswersOptions {
  bus: Bus;
  epoch: string;
  nodeId: string;
  agents: { find(id: AgentId): Agent | undefined; canRun(id: AgentId): boolean };
  /** Measures elapsed time: it must not jump. */
  clock: Clock;
  newId: () => string;
}

/** Router agents that a worker runs at once. Further calls are left to other workers. */
const MAX_RUNNING = 32;
/** The longest answer, in UTF-16 units: a name is shorter. */
const MAX_ANSWER = 256;
/** What models put around a name. */
const EDGES = /^[\s"'`“”‘’«»「」*.。:：]+|[\s"'`“”‘’«»「」*.。:：]+$/gu;

class TooMuch extends Error {}

/**
 * Runs router agents on a worker: agents that are asked which agent hears a sentence. Nothing is stored here, because a
 * question without an answer is decided by the next row of `routing`; the floor counts the tokens of an answer.
 */
export class RouterAnswers {
  readonly #options: RouterAnswersOptions;
  readonly #running = new Set<AbortController>();
  #subscriptions: Subscription[] = [];

  constructor(options: RouterAnswersOptions) {
    this.#options = options;
  }

  /** @throws AppError `unavailable` when the bus is away */
  async start(): Promise<void> {
    const { bus, epoch } = this.#options;
    this.#subscriptions.push(await bus.subscribe(this.#own, (message) => void this.#receive(message)));
    this.#subscriptions.push(await bus.subscribe(routerTopic(epoch), (message) => this.#offer(message)));
  }

  stop(): void {
    for (const subscription of this.#subscriptions.splice(0)) subscription.end();
    for (const running of this.#running) running.abort();
  }

  get #own(): string {
    const { epoch, nodeId } = this.#options;
    return `${routerTopic(epoch)}.${nodeId}`;
  }

  #offer(message: Uint8Array): void {
    const call = readMessage(RouterCall, message);
    if (!call || this.#running.size >= MAX_RUNNING || !this.#options.agents.canRun(call.agentId)) return;
    this.#reply(call.replyTo, { worker: this.#own });
  }

  async #receive(message: Uint8Array): Promise<void> {
    const question = readMessage(RouterQuestion, message);
    if (question) this.#reply(question.replyTo, await this.#ask(question));
  }

  #reply(topic: string, reply: RouterReply): void {
    void this.#options.bus.publish(topic, writeMessage(reply));
  }

  async #ask(question: RouterQuestion): Promise<RouterReply> {
    const agent = this.#options.agents.find(question.agentId);
    if (!agent || this.#running.size >= MAX_RUNNING) return { why: "failed" };
    const running = new AbortController();
    this.#running.add(running);
    const late = this.#options.clock.after(question.withinMs, () => running.abort());
    const used: { usage?: Usage } = {};
    try {
      const named = await raceAborted(running.signal, () => this.#read(agent, question, running.signal, used));
      return { named, ...used };
    } catch (error) {
      if (error instanceof TooMuch) return { why: "too_much", ...used };
      return { why: running.signal.aborted ? "late" : "failed", ...used };
    } finally {
      late.cancel();
      running.abort();
      this.#running.delete(running);
    }
  }

  /** What the agent writes, without what models put around a name. @param used gets its tokens, also if it fails */
  async #read(
    agent: Agent,
    { content }: RouterQuestion,
    signal: AbortSignal,
    used: { usage?: Usage },
  ): Promise<string> {
    let text = "";
    for await (const part of agent.run(this.#turnOf(content), this.#controlOf(signal))) {
      if (part.type === "usage") used.usage = used.usage ? addUsage(used.usage, part.usage) : part.usage;
      text += writtenIn(part);
      if (text.length > MAX_ANSWER) throw new TooMuch("the router agent wrote more than a name");
      signal.throwIfAborted();
    }
    return text.replace(EDGES, "");
  }

  /** A turn of a session that does not exist. */
  #turnOf(content: string): Turn {
    const { newId, clock } = this.#options;
    const [sessionId, runId] = [`router-${newId()}` as SessionId, newId() as RunId];
    const id = newId() as MessageId;
    const createdAt = clock.now();
    const input = { id, sessionId, role: "user" as const, content, status: "success" as const, runId, createdAt };
    return { runId, attempt: 1, sessionId, input, history: [], approvedTools: [] };
  }

  #controlOf(signal: AbortSignal): RunControl {
    const { clock } = this.#options;
    const refuse = () => Promise.reject(new Error("a router agent has no user and no images"));
    return {
      signal,
      untilMayAct: async () => signal.throwIfAborted(),
      askUser: refuse,
      loadImage: refuse,
      sleep: (delayMs) => sleep(clock, delayMs, signal),
      after: (delayMs, callback) => clock.after(delayMs, callback),
    };
  }
}

function writtenIn(part: Part): string {
  if (part.type === "text") return part.text;
  return part.type === "message" ? part.content : "";
}
