import type { Bus } from "../bus/bus.ts";
import { type Catalog, findAgent } from "../config/catalog/catalog.ts";
import { MAX_SENTENCE } from "../config/catalog/routing.ts";
import type { AgentId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import {
  type RouterCall,
  type RouterQuestion,
  RouterReply,
  routerTopic,
} from "../protocol/internal/router-question.ts";
import type { RouteAnswer, RouteQuestion } from "../routing/route.ts";
import type { Clock } from "../shared/ports/clock.ts";

export interface RouterQuestionsOptions {
  bus: Bus;
  epoch: string;
  /** Measures elapsed time, and never jumps. */
  clock: Clock;
  newId: () => string;
}

type AskRow = Extract<RouteQuestion, { kind: "ask" }>;

/** Questions of this node at once. Further ones are decided by the next row. */
const MAX_ASKED = 256;
/** Adapters of models, which have to be told that the answer is a name. */
const MODELS: ReadonlySet<string> = new Set(["ai-sdk", "acp"]);

/** Asks router agents which agent hears a sentence: on the first worker that offers to run them. */
export class RouterQuestions {
  readonly #options: RouterQuestionsOptions;
  #asked = 0;

  constructor(options: RouterQuestionsOptions) {
    this.#options = options;
  }

  /** What the router agent of a row answers in time. */
  async ask(row: AskRow, catalog: Catalog, sentence: string, workspaceId: string | undefined): Promise<RouteAnswer> {
    const agent = findAgent(catalog, row.agent, workspaceId);
    if (!agent || this.#asked >= MAX_ASKED) return { why: "failed" };
    const content = contentOf(row, catalog, sentence.slice(0, MAX_SENTENCE), MODELS.has(agent.adapter.kind));
    this.#asked += 1;
    try {
      return await this.#send(agent.id, content, row.withinMs);
    } finally {
      this.#asked -= 1;
    }
  }

  async #send(agentId: AgentId, content: string, withinMs: number): Promise<RouteAnswer> {
    const { bus, epoch, clock, newId } = this.#options;
    const replyTo = `${epoch}.routed.${newId()}`;
    const endsAt = clock.now() + withinMs;
    const { promise, resolve } = Promise.withResolvers<RouteAnswer>();
    let isGiven = false;
    const receive = (message: Uint8Array) => {
      const reply = readMessage(RouterReply, message);
      if (!reply) return;
      if (!("worker" in reply)) return resolve(reply);
      if (isGiven) return;
      isGiven = true;
      const question: RouterQuestion = { agentId, replyTo, content, withinMs: Math.max(1, endsAt - clock.now()) };
      void bus.publish(reply.worker, writeMessage(question));
    };
    const late = clock.after(withinMs, () => resolve({ why: "late" }));
    const subscribing = bus.subscribe(replyTo, receive);
    subscribing.then(
      () => bus.publish(routerTopic(epoch), writeMessage({ agentId, replyTo } satisfies RouterCall)),
      () => resolve({ why: "failed" }),
    );
    try {
      return await promise;
    } finally {
      late.cancel();
      subscribing.then(
        (subscription) => subscription.end(),
        () => {},
      );
    }
  }
}

/** A program gets the sentence alone. A model is told what to answer, and what each agent is for. */
function contentOf({ among }: AskRow, { agents }: Catalog, sentence: string, isModel: boolean): string {
  if (!isModel) return sentence;
  const names = among.map((name) => {
    const description = agents.get(name)?.description ?? "";
    return description === "" ? `- ${name}` : `- ${name}: ${description}`;
  });
  const question = "Which of these agents is to hear the sentence? Answer with its name alone.";
  return `${question}\n${names.join("\n")}\n\nThe sentence: ${sentence}`;
}
