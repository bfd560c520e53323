// Rules C2, C4, C21 and C24 of docs/inside/correctness.md.
import { z } from "zod";
import type { Bus, Subscription, Unsubscribe } from "../bus/bus.ts";
import { Reassembler, toPieces } from "../bus/message-pieces.ts";
import { AppError, ERROR_CODES } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import { Envelope } from "../protocol/internal/command.ts";
import { Reply } from "../protocol/internal/reply.ts";
import { flow } from "../shared/flow.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Span, Tracer } from "../shared/ports/tracer.ts";
import { TransientMap } from "../shared/transient-map.ts";
import { CommandTimeouts } from "./command-timeouts.ts";

/**
 * Executes a command on its floor. Rejects with `AppError`: `busy`, `unavailable`, `internal` or
 * `idempotency_mismatch`.
 */
export type Dispatch = (envelope: Envelope) => Promise<Reply>;

export interface MailboxOptions {
  bus: Bus;
  clock: Clock;
  /** Identifies this node; part of the topic of its replies. */
  nodeId: string;
  newId: () => string;
  /** The topic on which the floor's owner receives commands. */
  topicOf: (floorId: FloorId) => string;
  /** Called when a command is sent again after 500 ms without a reply. */
  onRepeat?: () => void;
  /** Why no floor answers, if it is known: said once a command has timed out. */
  whyLate?: () => string | undefined;
  /** Traces commands whose envelope has a trace. The system's own commands start none. */
  tracer?: Tracer | undefined;
}

const AWAY = "the bus is away";
const TOO_LATE = "the floor's node did not answer in time";

/** How long a command waits for its reply before it is sent again, in ms. */
const RESEND_MS = 500;

const Outcome = z.union([
  z.object({ reply: Reply }),
  z.object({ error: z.object({ code: z.enum(ERROR_CODES), message: z.string() }) }),
]);
type Outcome = z.infer<typeof Outcome>;

/** A reading of a node's clock. A sender that echoes it proves that it was still waiting after that instant. */
const Reading = z.object({ by: z.string(), at: z.number() });
type Reading = z.infer<typeof Reading>;

/**
 * A request to the floor's owner. The owner parses the envelope separately, so that it can answer an unknown command.
 */
const Request = z.object({
  replyTo: z.string(),
  correlationId: z.string(),
  envelope: z.unknown(),
  /** How long the sender waits, counted from the sending of this request, in ms. */
  leftMs: z.number(),
  /** The owner's clock reading from its last `again` response to this request. */
  seen: Reading.optional().catch(undefined),
});
type Request = z.infer<typeof Request>;
/** A response: the outcome, or `again`, which the sender answers by repeating the request at once if it still waits. */
const Response = z.union([
  z.object({ correlationId: z.string(), outcome: Outcome }),
  z.object({ correlationId: z.string(), again: Reading }),
]);
type Response = z.infer<typeof Response>;

/** The difference between two nodes' clocks beyond which a timeout from the other node is not trusted, in ms. */
const CLOCKS_MS = 250;

interface WaitingRequest {
  /** The topic the request was sent to. */
  topic: string;
  resolve: (outcome: Outcome) => void;
  /** Repeat the request at once: the owner does not know whether this node still waits. */
  resend: (seen: Reading) => void;
}

/**
 * Request and reply over any bus. A request is repeated until a reply arrives or it times out. A repeat joins
 * the original or finds its receipt (rules C2 and C3), so the command takes effect once. After the timeout, and as
 * soon as the bus is known to be away, the outcome is unknown: `unavailable`.
 */
export class Mailbox {
  readonly #options: MailboxOptions;
  readonly #waiting = new TransientMap<string, WaitingRequest>();
  readonly #reassembler = new Reassembler();
  /** Of commands to this node's own floors. */
  readonly #timeouts: CommandTimeouts;
  /** Of this process's orchestrator; undefined: all floors are on other nodes. */
  #local: { dispatch: Dispatch; serves: (floorId: FloorId) => boolean } | undefined;
  #replies: Subscription | undefined;
  #forget: Unsubscribe | undefined;

  constructor(options: MailboxOptions) {
    this.#options = options;
    this.#timeouts = new CommandTimeouts(options.clock);
  }

  /** Listen for replies. */
  async start(): Promise<void> {
    const { bus } = this.#options;
    this.#replies = await bus.subscribe(this.#replyTopic, (piece) => {
      const message = this.#reassembler.add(piece);
      const response = message && readMessage(Response, message);
      if (!response) return;
      const waiting = this.#waiting.get(response.correlationId);
      if ("again" in response) waiting?.resend(response.again);
      else waiting?.resolve(response.outcome);
    });
    this.#forget = bus.onAway(() => this.#giveUpWhatIsAway());
  }

  stop(): void {
    this.#replies?.end();
    this.#forget?.();
    for (const { resolve } of this.#waiting.values()) resolve(unavailable("shutting down"));
  }

  get #replyTopic(): string {
    return `reply.${this.#options.nodeId}`;
  }

  /**
   * From now on dispatch commands for floors of this process without the bus.
   * @param serves whether this process serves a floor at present
   */
  serve(dispatch: Dispatch, serves: (floorId: FloorId) => boolean): void {
    this.#local = { dispatch, serves };
  }

  /** Serve the requests that arrive on a topic. Malformed messages are ignored. */
  async serveTopic(topic: string, dispatch: Dispatch): Promise<Subscription> {
    const { bus, clock, nodeId } = this.#options;
    return bus.subscribe(topic, async (piece) => {
      const message = this.#reassembler.add(piece);
      const request = message && readMessage(Request, message);
      if (!request) return;
      const { replyTo, correlationId } = request;
      const parsed = Envelope.safeParse(request.envelope);
      // Rule C24: another release may know this command.
      if (!parsed.success)
        return this.#reply(replyTo, correlationId, unavailable("this node does not know the command"));
      const leftMs = this.#timeLeft(request, parsed.data.timeoutAt);
      const now = clock.now();
      if (leftMs === "doubtful") return this.#publish(replyTo, { correlationId, again: { by: nodeId, at: now } });
      const envelope = { ...parsed.data, timeoutAt: now + leftMs };
      const outcome =
        leftMs < 0 ? unavailable("the command was on its way until its deadline") : await outcomeOf(dispatch, envelope);
      this.#reply(replyTo, correlationId, outcome);
    });
  }

  /**
   * How long a command may still be started, in ms; negative: it has timed out. A message may be delayed on the
   * bus for any time, and clocks of nodes may be wrong, so this node trusts the timeout only if it agrees with the
   * time that was left when the request was sent. Otherwise it requests the sender to repeat the request with this
   * node's clock reading: the repeat was sent after that reading, which bounds its age without another clock.
   */
  #timeLeft({ leftMs, seen }: Request, timeoutAt: number): number | "doubtful" {
    const { clock, nodeId } = this.#options;
    const now = clock.now();
    const untilMs = timeoutAt - now;
    if (seen?.by === nodeId && seen.at <= now) return leftMs - (now - seen.at);
    return untilMs >= 0 && untilMs <= leftMs + CLOCKS_MS ? Math.min(untilMs, leftMs) : "doubtful";
  }

  /** The number of this node's commands that wait for their reply. */
  get underWay(): number {
    return this.#timeouts.size + this.#waiting.size;
  }

  /**
   * Send a command to its floor. Resolves with the floor's reply; a refusal is a reply.
   * @throws AppError `busy`, `unavailable`, `internal`, or `idempotency_mismatch` if a command with this key and
   *   another body is unanswered
   */
  readonly send = (envelope: Envelope): Promise<Reply> => {
    const { tracer } = this.#options;
    return tracer && envelope.trace !== undefined ? this.#sendTraced(tracer, envelope) : this.#route(envelope);
  };

  async #sendTraced(tracer: Tracer, envelope: Envelope): Promise<Reply> {
    const span = beginSend(tracer, envelope);
    try {
      const reply = await this.#route({ ...envelope, trace: span.trace });
      span.end({ "interlock.outcome": reply.ok ? "ok" : reply.code });
      return reply;
    } catch (error) {
      const outcome = error instanceof AppError ? error.code : "internal";
      span.end({ "interlock.outcome": outcome }, outcome);
      throw error;
    }
  }

  /** Decides where a command goes: to this process, if it serves the floor, else to the topic of the floor's owner. */
  #route(envelope: Envelope): Promise<Reply> {
    const { floorId, command, caller } = envelope;
    const { bus, topicOf } = this.#options;
    const dispatch = this.#local?.serves(floorId) ? this.#local.dispatch : undefined;
    flow.onHop?.("mailbox", `${command.type} to ${floorId}, ${dispatch ? "on this node" : "over the bus"}`);
    // A bus that stays in the process is never away.
    if (dispatch && bus.isLocal) return this.#sendHere(dispatch, envelope);
    const topic = topicOf(floorId);
    // Rule C21: refuse a client's command whose events other nodes could not receive, but let runs and timers of a
    // floor on this node report.
    if (this.#isAway(topic) && (!dispatch || caller !== undefined))
      return Promise.reject(new AppError("unavailable", AWAY));
    return dispatch ? this.#sendHere(dispatch, envelope) : this.#sendOverBus(topic, envelope);
  }

  /** With one promise, because every command of a single process comes this way. */
  #sendHere(dispatch: Dispatch, envelope: Envelope): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timeout = this.#timeouts.add(envelope.timeoutAt, () => reject(new AppError("unavailable", TOO_LATE)));
      const onReply = (reply: Reply) => {
        this.#timeouts.remove(timeout);
        resolve(reply);
      };
      const onError = (error: unknown) => {
        this.#timeouts.remove(timeout);
        reject(error instanceof AppError ? error : new AppError("internal", undefined, { cause: error }));
      };
      try {
        dispatch(envelope).then(onReply, onError);
      } catch (error) {
        onError(error);
      }
    });
  }

  async #sendOverBus(topic: string, envelope: Envelope): Promise<Reply> {
    const { bus, clock, newId, onRepeat, whyLate } = this.#options;
    const correlationId = newId();
    const replyTo = this.#replyTopic;
    let seen: Reading | undefined;
    let again: Timer | undefined;
    const makePieces = () => {
      const request: Request = { replyTo, correlationId, envelope, leftMs: envelope.timeoutAt - clock.now(), seen };
      return toPieces(writeMessage(request), newId);
    };
    let pieces = makePieces();
    const send = () => {
      again?.cancel();
      for (const piece of pieces) void bus.publish(topic, piece);
      again = clock.after(RESEND_MS, () => {
        onRepeat?.();
        // Repeat a request of several pieces unchanged: the repeat's pieces then replace lost ones of the original.
        if (pieces.length === 1) pieces = makePieces();
        send();
      });
    };
    const resend = (reading: Reading) => {
      seen = reading;
      pieces = makePieces();
      send();
    };
    const giveUp = timeout(clock, envelope.timeoutAt, () => whyLate?.() ?? TOO_LATE);
    try {
      const outcome = await Promise.race([
        new Promise<Outcome>((resolve) => {
          this.#waiting.set(correlationId, { topic, resolve, resend });
          send();
        }),
        giveUp.passed,
      ]);
      if ("reply" in outcome) return outcome.reply;
      throw new AppError(outcome.error.code, outcome.error.message);
    } finally {
      again?.cancel();
      giveUp.cancel();
      this.#waiting.delete(correlationId);
    }
  }

  #reply(topic: string, correlationId: string, outcome: Outcome): void {
    try {
      this.#publish(topic, { correlationId, outcome });
    } catch {
      this.#publish(topic, {
        correlationId,
        outcome: { error: { code: "internal", message: "the answer is too large" } },
      });
    }
  }

  /** @throws AppError `too_large` when the message does not fit the bus */
  #publish(topic: string, message: Response): void {
    const { bus, newId } = this.#options;
    for (const piece of toPieces(writeMessage(message), newId)) void bus.publish(topic, piece);
  }

  /** Whether requests to the topic, or the replies to them, are known not to arrive. */
  #isAway(topic: string): boolean {
    const { bus } = this.#options;
    return bus.isAway(topic) || bus.isAway(this.#replyTopic);
  }

  #giveUpWhatIsAway(): void {
    for (const { topic, resolve } of this.#waiting.values()) if (this.#isAway(topic)) resolve(unavailable(AWAY));
  }
}

function beginSend(tracer: Tracer, { floorId, command, commandId, trace }: Envelope): Span {
  const facts = { "interlock.floor.id": floorId, "interlock.command.id": commandId };
  return tracer.begin("send", `send ${command.type}`, trace, facts);
}

const unavailable = (message: string): Outcome => ({ error: { code: "unavailable", message } });

async function outcomeOf(dispatch: Dispatch, envelope: Envelope): Promise<Outcome> {
  try {
    return { reply: await dispatch(envelope) };
  } catch (error) {
    const { code, message } = error instanceof AppError ? error : new AppError("internal");
    return { error: { code, message } };
  }
}

function timeout(clock: Clock, at: number, why: () => string): { passed: Promise<Outcome>; cancel: () => void } {
  let timer: Timer | undefined;
  const passed = new Promise<Outcome>((resolve) => {
    timer = clock.after(Math.max(0, at - clock.now()), () => resolve(unavailable(why())));
  });
  return { passed, cancel: () => timer?.cancel() };
}
