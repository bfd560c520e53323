import { z } from "zod";
import { readMessage } from "../protocol/bus-message.ts";
import type { Clock, Timer } from "../protocol/clock.ts";
import { Envelope } from "../protocol/command.ts";
import { AppError, ERROR_CODES } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import { Reply } from "../protocol/reply.ts";
import type { Bus, Unsubscribe } from "./bus.ts";

/** Answers what is asked of a floor. Rejects with `AppError`: `busy`, `unavailable` or `internal`. */
export type Serve = (envelope: Envelope) => Promise<Reply>;

export interface MailboxOptions {
  bus: Bus;
  clock: Clock;
  /** Names this node's replies on the bus. */
  nodeId: string;
  newId: () => string;
  /** The topic on which the floor's owner is asked. */
  topicOf: (floorId: FloorId) => string;
  /** Answers here, without the bus, while this node looks after the floor. */
  local?: ((floorId: FloorId) => Serve | undefined) | undefined;
}

/** How long an ask waits for its reply before it asks again, in ms. */
const ASK_AGAIN_MS = 500;

const Outcome = z.union([
  z.object({ reply: Reply }),
  z.object({ error: z.object({ code: z.enum(ERROR_CODES), message: z.string() }) }),
]);
type Outcome = z.infer<typeof Outcome>;

/** What travels to whoever serves a floor; whether the envelope makes sense there is looked at apart. */
const Question = z.object({ replyTo: z.string(), askId: z.string(), envelope: z.unknown() });
/** What travels back. */
const Response = z.object({ askId: z.string(), outcome: Outcome });

/**
 * Request and reply over any bus. An ask is repeated until it is answered or its deadline has passed: a repeat joins
 * its original or finds its receipt (rules C2 and C3), so it takes effect once. After the deadline the outcome is
 * unknown: `unavailable`.
 */
export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #waiting = new Map<string, (outcome: Outcome) => void>();
  #unsubscribe: Unsubscribe | undefined;

  constructor(options: MailboxOptions) {
    this.#options = options;
  }

  /** Listen for replies. */
  async start(): Promise<void> {
    this.#unsubscribe = await this.#options.bus.subscribe(this.#replyTopic, (message) => {
      const response = readMessage(Response, message);
      if (response) this.#waiting.get(response.askId)?.(response.outcome);
    });
  }

  stop(): void {
    this.#unsubscribe?.();
    for (const settle of this.#waiting.values()) settle({ error: { code: "unavailable", message: "shutting down" } });
  }

  get #replyTopic(): string {
    return `reply.${this.#options.nodeId}`;
  }

  /** Answer what is asked on a topic. The answer to a message that makes no sense is silence. */
  async serve(topic: string, serve: Serve): Promise<Unsubscribe> {
    const { bus, clock } = this.#options;
    return bus.subscribe(topic, async (message) => {
      const question = readMessage(Question, message);
      if (!question) return;
      const { replyTo, askId, envelope } = question;
      const parsed = Envelope.safeParse(envelope);
      // Rule C24: what this release does not know, another may.
      const outcome: Outcome = !parsed.success
        ? { error: { code: "unavailable", message: "this node does not know the command" } }
        : clock.now() > parsed.data.deadline
          ? { error: { code: "unavailable", message: "the deadline has passed" } }
          : await settle(serve, parsed.data);
      await bus.publish(replyTo, encode({ askId, outcome }));
    });
  }

  /** @throws AppError `busy`, `unavailable` or `internal`; a refusal is a reply */
  async ask(envelope: Envelope): Promise<Reply> {
    const serve = this.#options.local?.(envelope.floorId);
    if (serve) return this.#askHere(serve, envelope);
    const outcome = await this.#askOverBus(envelope);
    if ("reply" in outcome) return outcome.reply;
    throw new AppError(outcome.error.code, outcome.error.message);
  }

  #askHere(serve: Serve, envelope: Envelope): Promise<Reply> {
    const { clock } = this.#options;
    const serveSafely = async () => serve(envelope);
    return new Promise((resolve, reject) => {
      const late = clock.after(Math.max(0, envelope.deadline - clock.now()), () => reject(tooLate()));
      serveSafely().then(
        (reply) => {
          late.cancel();
          resolve(reply);
        },
        (error) => {
          late.cancel();
          reject(error instanceof AppError ? error : new AppError("internal", undefined, { cause: error }));
        },
      );
    });
  }

  async #askOverBus(envelope: Envelope): Promise<Outcome> {
    const { bus, clock, newId, topicOf } = this.#options;
    const askId = newId();
    const message = encode({ replyTo: this.#replyTopic, askId, envelope });
    let again: Timer | undefined;
    const send = () => {
      void bus.publish(topicOf(envelope.floorId), message);
      again = clock.after(ASK_AGAIN_MS, send);
    };
    const giveUp = deadline(clock, envelope.deadline);
    try {
      return await Promise.race([
        new Promise<Outcome>((resolve) => {
          this.#waiting.set(askId, resolve);
          send();
        }),
        giveUp.passed,
      ]);
    } finally {
      again?.cancel();
      giveUp.cancel();
      this.#waiting.delete(askId);
    }
  }
}

async function settle(serve: Serve, envelope: Envelope): Promise<Outcome> {
  try {
    return { reply: await serve(envelope) };
  } catch (error) {
    const { code, message } = error instanceof AppError ? error : new AppError("internal");
    return { error: { code, message } };
  }
}

const tooLate = () => new AppError("unavailable", "nobody answered in time");

function deadline(clock: Clock, at: number): { passed: Promise<Outcome>; cancel: () => void } {
  let timer: Timer | undefined;
  const passed = new Promise<Outcome>((resolve) => {
    const { code, message } = tooLate();
    timer = clock.after(Math.max(0, at - clock.now()), () => resolve({ error: { code, message } }));
  });
  return { passed, cancel: () => timer?.cancel() };
}

const encoder = new TextEncoder();
const encode = (value: unknown) => encoder.encode(JSON.stringify(value));
