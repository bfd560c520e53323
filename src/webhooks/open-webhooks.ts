import type { lookup as lookUp } from "node:dns";
import { suggest } from "../config/nearest.ts";
import { WatchedFile } from "../config/watched-file.ts";
import { readWebhooksFile, type Webhook, type Webhooks } from "../config/webhooks-file.ts";
import type { WebhookTest } from "../protocol/internal/webhook-report.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { Sender, type SendResult } from "./sender.ts";
import type { SentMessage } from "./signature.ts";

export interface OpenWebhooksOptions {
  path: string;
  initial: Webhooks;
  /** Measures elapsed time. */
  clock: Clock;
  /** The wall clock, in ms since 1970. */
  wallNow: () => number;
  newId: () => string;
  /** The catalogue's agents, by name. */
  knownAgents: () => readonly string[];
  log: Logger;
  /** Default: the system's resolver. */
  lookup?: typeof lookUp;
}

/**
 * Read a file of webhooks when a node starts.
 * @throws Error that lists every fault with its line and column
 */
export async function loadWebhooks(path: string): Promise<Webhooks> {
  const reading = await readWebhooksFile(path);
  if (reading.ok) return reading.webhooks;
  throw new Error(`the webhooks cannot be used\n${reading.faults.join("\n")}`);
}

/** The hooks of a file, always as it is now, and what sends to them. A faulty file changes nothing, and is logged. */
export class OpenWebhooks {
  readonly #options: OpenWebhooksOptions;
  readonly #file: WatchedFile<Awaited<ReturnType<typeof readWebhooksFile>>>;
  #webhooks: Webhooks;
  #faults: string | undefined;
  /** By hook: a hook of a newer file has a sender of its own. Those of replaced hooks end with their last request. */
  #senders = new Map<Webhook, Sender>();

  constructor(options: OpenWebhooksOptions) {
    const { path, initial, clock, log } = options;
    this.#options = options;
    this.#webhooks = initial;
    this.#file = new WatchedFile({
      path,
      others: () => this.#webhooks.secretFiles,
      clock,
      load: () => readWebhooksFile(path),
      apply: (reading) => this.#apply(reading),
      isUnreadable: (reading) => !reading.ok,
      onUnwatchable: (error, folder) =>
        log.warn({ err: error, folder }, "the folder of the webhooks cannot be watched; the file is polled"),
    });
    this.#warnOfAgents();
  }

  readonly current = (): ReadonlyMap<string, Webhook> => this.#webhooks.hooks;

  /** Never rejects. */
  readonly send = (hook: Webhook, message: SentMessage, stopping: AbortSignal): Promise<SendResult> => {
    let sender = this.#senders.get(hook);
    if (!sender) {
      sender = new Sender(hook, this.#options);
      this.#senders.set(hook, sender);
    }
    return sender.send(message, stopping);
  };

  /** Send a notice that is a test, once and at once. Undefined if there is no such hook. */
  async test(name: string): Promise<WebhookTest | undefined> {
    const { clock, wallNow, newId } = this.#options;
    const hook = this.current().get(name);
    if (!hook) return undefined;
    const begunAt = clock.now();
    const timestamp = new Date(wallNow()).toISOString();
    const payload = JSON.stringify({ type: "test", timestamp, data: { webhook: name } });
    const result = await this.send(hook, { id: `msg_${newId()}`, payload }, new AbortController().signal);
    const { isAccepted, status } = result;
    const durationMs = Math.max(0, clock.now() - begunAt);
    return {
      ...{ isAccepted, durationMs },
      ...(status !== undefined && { status }),
      ...(!result.isAccepted && { reason: result.reason }),
    };
  }

  async close(): Promise<void> {
    await this.#file.close();
    for (const sender of this.#senders.values()) sender.close();
  }

  #apply(reading: Awaited<ReturnType<typeof readWebhooksFile>>): void {
    const { path, log } = this.#options;
    const faults = reading.ok ? undefined : reading.faults.join("\n");
    const isNews = faults !== this.#faults;
    this.#faults = faults;
    if (!reading.ok) {
      if (isNews)
        log.error({ path, faults: reading.faults }, "the webhooks have faults; the previous ones stay in use");
      return;
    }
    if (isSame(this.#webhooks, reading.webhooks)) return;
    this.#webhooks = reading.webhooks;
    this.#senders = new Map();
    log.info({ path, webhooks: [...reading.webhooks.hooks.keys()] }, "the webhooks were replaced");
    this.#warnOfAgents();
  }

  /** The catalogue may get these agents later. */
  #warnOfAgents(): void {
    const { knownAgents, log } = this.#options;
    const known = knownAgents();
    for (const { name, agents = [] } of this.current().values()) {
      for (const agent of agents) {
        if (known.includes(agent)) continue;
        const facts = { webhook: name, agent };
        log.warn(facts, `a webhook names an agent that is not in the catalogue${suggest(agent, known)}`);
      }
    }
  }
}

const isSame = (one: Webhooks, other: Webhooks): boolean => textOf(one) === textOf(other);

function textOf({ hooks, secretFiles }: Webhooks): string {
  const plain = (_: string, value: unknown) => (value instanceof Set ? [...value] : value);
  return JSON.stringify([[...hooks.values()], secretFiles], plain);
}
