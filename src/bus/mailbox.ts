import { z } from "zod";
import { readMessage } from "../protocol/bus-message.ts";
import type { Clock, Timer } from "../protocol/clock.ts";
import { Envelope } from "../protocol/command.ts";
import { AppError, ERROR_CODES } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import { Reply } from "../protocol/reply.ts";
import type { Tracer } from "../protocol/tracer.ts";
import type { Bus, Unsubscribe } from "./bus.ts";
import { ParcelDesk, toPieces } from "./parcel.ts";

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
  /** Nobody has answered for a while, and it was asked again. */
  onRepeat?: () => void;
  /** For asks that are part of something; what the system asks of itself begins no trace. */
  tracer?: Tracer | undefined;
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

interface Waiting {
  /** Where it was asked. */
  topic: string;
  settle: (outcome: Outcome) => void;
}

/**
 * Request and reply over any bus. An ask is repeated until it is answered or its deadline has passed: a repeat joins
 * its original or finds its receipt (rules C2 and C3), so it takes effect once. After the deadline, and as soon as the
 * bus is known to be away, the outcome is unknown: `unavailable`.
 */
export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #desk = new ParcelDesk();
  #underWay = 0;
  #forget: Unsubscribe[] = [];

  constructor(options: MailboxOptions) {
    this.#options = options;
  }

  /** Listen for replies. */
  async start(): Promise<void> {
    const { bus } = this.#options;
    const unsubscribe = await bus.subscribe(this.#replyTopic, (piece) => {
      const message = this.#desk.take(piece);
      const response = message && readMessage(Response, message);
      if (response) this.#waiting.get(response.askId)?.settle(response.outcome);
    });
    this.#forget = [unsubscribe, bus.onAway(() => this.#giveUpWhatIsAway())];
  }

  stop(): void {
    for (const forget of this.#forget) forget();
    for (const { settle } of this.#waiting.values()) settle(unavailable("shutting down"));
  }

  get #replyTopic(): string {
    return `reply.${this.#options.nodeId}`;
  }

  /** Answer what is asked on a topic. The answer to a message that makes no sense is silence. */
  async serve(topic: string, serve: Serve): Promise<Unsubscribe> {
    const { bus, clock } = this.#options;
    return bus.subscribe(topic, async (piece) => {
      const message = this.#desk.take(piece);
      const question = message && readMessage(Question, message);
      if (!question) return;
      const { replyTo, askId, envelope } = question;
      const parsed = Envelope.safeParse(envelope);
      // Rule C24: what this release does not know, another may.
      const outcome: Outcome = !parsed.success
        ? unavailable("this node does not know the command")
        : clock.now() > parsed.data.deadline
          ? unavailable("the deadline has passed")
          : await settle(serve, parsed.data);
      this.#reply(replyTo, askId, outcome);
    });
  }

  /** Asks of this node that wait for their answer. */
  get underWay(): number {
    return this.#underWay;
  }

  /** @throws AppError `busy`, `unavailable` or `internal`; a refusal is a reply */
  async ask(envelope: Envelope): Promise<Reply> {
    const { tracer } = this.#options;
    this.#underWay += 1;
    try {
      return await (tracer && envelope.trace !== undefined ? this.#askTraced(envelope, tracer) : this.#ask(envelope));
    } finally {
      this.#underWay -= 1;
    }
  }

  async #askTraced(envelope: Envelope, tracer: Tracer): Promise<Reply> {
    const { floorId, command, commandId, trace } = envelope;
    const facts = { "interlock.floor.id": floorId, "interlock.command.id": commandId };
    const span = tracer.begin("ask", `ask ${command.type}`, trace, facts);
    try {
      const reply = await this.#ask({ ...envelope, trace: span.trace });
      span.end({ "interlock.outcome": reply.ok ? "ok" : reply.code });
      return reply;
    } catch (error) {
      const outcome = error instanceof AppError ? error.code : "internal";
      span.end({ "interlock.outcome": outcome }, outcome);
      throw error;
    }
  }

  async #ask(envelope: Envelope): Promise<Reply> {
    const { local, topicOf } = this.#options;
    const topic = topicOf(envelope.floorId);
    const serve = local?.(envelope.floorId);
    // Rule C21. What others could not hear of is not begun; what runs and timers say to a floor of this node is kept.
    if (this.#isAway(topic) && (!serve || envelope.caller !== undefined)) throw new AppError("unavailable", AWAY);
    if (serve) return this.#askHere(serve, envelope);
    const outcome = await this.#askOverBus(topic, envelope);
    if ("reply" in outcome) return outcome.reply;
    throw new AppError(outcome.error.code, outcome.error.message);
  }

  #askHere(serve: Serve, envelope: Envelope): Promise<Reply> {
    const { clock } = this.#options;
    const serveSafely = async () => serve(envelope);
    return new Promise((resolve, reject) => {
      const late = clock.after(Math.max(0, envelope.deadline - clock.now()), () =>
        reject(new AppError("unavailable", TOO_LATE)),
      );
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

  async #askOverBus(topic: string, envelope: Envelope): Promise<Outcome> {
    const { bus, clock, newId, onRepeat } = this.#options;
    const askId = newId();
    const pieces = toPieces(encode({ replyTo: this.#replyTopic, askId, envelope }), newId);
    let again: Timer | undefined;
    const send = () => {
      for (const piece of pieces) void bus.publish(topic, piece);
      again = clock.after(ASK_AGAIN_MS, () => {
        onRepeat?.();
        send();
      });
    };
    const giveUp = deadline(clock, envelope.deadline);
    try {
      return await Promise.race([
        new Promise<Outcome>((resolve) => {
          this.#waiting.set(askId, { topic, settle: resolve });
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

  #reply(topic: string, askId: string, outcome: Outcome): void {
    const { bus, newId } = this.#options;
    const piecesOf = (said: Outcome) => toPieces(encode({ askId, outcome: said }), newId);
    let pieces: Uint8Array[];
    try {
      pieces = piecesOf(outcome);
    } catch {
      pieces = piecesOf({ error: { code: "internal", message: "the answer is too large" } });
    }
    for (const piece of pieces) void bus.publish(topic, piece);
  }

  /** Whether nothing arrives there, or no answer comes from there. */
  #isAway(topic: string): boolean {
    const { bus } = this.#options;
    return bus.isAway(topic) || bus.isAway(this.#replyTopic);
  }

  #giveUpWhatIsAway(): void {
    for (const { topic, settle } of this.#waiting.values()) if (this.#isAway(topic)) settle(unavailable(AWAY));
  }
}

const AWAY = "the bus is away";
const unavailable = (message: string): Outcome => ({ error: { code: "unavailable", message } });

async function settle(serve: Serve, envelope: Envelope): Promise<Outcome> {
  try {
    return { reply: await serve(envelope) };
  } catch (error) {
    const { code, message } = error instanceof AppError ? error : new AppError("internal");
    return { error: { code, message } };
  }
}

const TOO_LATE = "nobody answered in time";

function deadline(clock: Clock, at: number): { passed: Promise<Outcome>; cancel: () => void } {
  let timer: Timer | undefined;
  const passed = new Promise<Outcome>((resolve) => {
    timer = clock.after(Math.max(0, at - clock.now()), () => resolve(unavailable(TOO_LATE)));
  });
  return { passed, cancel: () => timer?.cancel() };
}

const encoder = new TextEncoder();
const encode = (value: unknown) => encoder.encode(JSON.stringify(value));
