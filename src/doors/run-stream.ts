import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../gateway/access/caller.ts";
import { type Delivery, RIGHT_AFTER_MS } from "../gateway/deliveries/delivery.ts";
import { toAppError } from "../gateway/http/problem.ts";
import type { Stream, Streams } from "../gateway/streams/open-streams.ts";
import { SseWriter } from "../gateway/streams/sse-writer.ts";
import { AppError, type ErrorCode } from "../protocol/errors.ts";
import type { ByeReason } from "../protocol/event.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Following, LiveRuns, RunAddress } from "./live-runs.ts";
import type { Piece, RunEvent, RunListener } from "./run-reader.ts";
import type { ReadOutcome } from "./run-summary.ts";

/** Writes a run in the format of another protocol. Each method returns whole frames. */
export interface RunTranslator {
  begin(): string;
  piece(piece: Piece): string;
  event(event: RunEvent): string;
  /** Frames for a stream that ends before its run. */
  fail(code: ErrorCode, message: string): string;
  /** Set when the answer is complete. */
  readonly outcome: ReadOutcome | undefined;
}

/** Why a stream ends before its run, as codes. */
const END_REASONS: { readonly [reason in ByeReason]: { code: ErrorCode; message: string } } = {
  ended: { code: "session_archived", message: "The session has ended." },
  draining: { code: "unavailable", message: "This node is shutting down. The run goes on." },
  overloaded: { code: "busy", message: "This node has too many streams." },
  token_expired: { code: "unauthorized", message: "The token has expired. The run goes on." },
};

/** The message and code for a stream that must end, or may not begin. */
export const farewell = (reason: ByeReason): { code: ErrorCode; message: string } => END_REASONS[reason];

/** @throws AppError if the reader or this node has too many streams */
export function mustHaveRoom(streams: Streams, reader: Caller | undefined): void {
  const refusal = streams.makeRoom(reader);
  if (refusal) throw new AppError(farewell(refusal).code, farewell(refusal).message);
}

interface RunStreamOptions {
  reply: FastifyReply;
  stopwatch: Clock;
  translator: RunTranslator;
  /** Whether the answer arrives, if that is watched. */
  delivery: Delivery | undefined;
  onClose: (outcome: StreamOutcome) => void;
}

/**
 * How a stream ended. `left`: the client disconnected before the end; `unread`: it did so before it can have read a
 * word; `cut`: this node ended the stream, and the run continues.
 */
export type StreamOutcome = ReadOutcome | "left" | "unread" | "cut";

/** An event stream of another protocol that shows one run. */
class RunStream implements Stream, RunListener {
  readonly writer: ReplyWriter;
  readonly #options: RunStreamOptions;
  readonly #begunAt: number;
  #following: Following | undefined;
  #isCut = false;
  #hasSpoken = false;

  constructor(options: RunStreamOptions) {
    this.#options = options;
    this.#begunAt = options.stopwatch.now();
    this.writer = new ReplyWriter(options.reply, this.#begunAt, (code, message) => this.fail(code, message));
    this.#send(options.translator.begin());
  }

  /** Start to show the run. */
  follow(following: Following): void {
    this.#following = following;
    this.writer.source = following;
    if (this.writer.isClosed) following.close();
    else following.advance();
  }

  get isFull(): boolean {
    return this.writer.isFull;
  }

  onPiece(piece: Piece): void {
    this.#hasSpoken = true;
    this.#send(this.#options.translator.piece(piece));
  }

  onEvent(event: RunEvent): "go" | "end" {
    const { translator } = this.#options;
    if (event.type === "complete" && event.data.cancelled) this.#options.delivery?.arrive();
    this.#send(translator.event(event));
    if (!translator.outcome) return "go";
    this.writer.end();
    return "end";
  }

  onBehind(): void {
    this.writer.isCut = true;
    this.fail("unavailable", "The stream is read too slowly. The run goes on.");
  }

  onLost(): void {
    this.fail("unavailable", "The run cannot be read at the moment.");
  }

  fail(code: ErrorCode, message: string): void {
    this.#isCut = true;
    this.#options.delivery?.lose();
    this.#send(this.#options.translator.fail(code, message));
    this.writer.end();
  }

  close(): void {
    this.#following?.close();
    const { onClose, translator } = this.#options;
    onClose(translator.outcome ?? (this.#isCut ? "cut" : this.#outcomeOfLeaving()));
  }

  /**
   * The connection of a stream that has just begun broke perhaps without it, and its client may ask again. A browser
   * does so if it had used the connection before.
   */
  #outcomeOfLeaving(): "left" | "unread" {
    const { stopwatch, delivery } = this.#options;
    const isYoung = stopwatch.now() - this.#begunAt <= RIGHT_AFTER_MS;
    if (isYoung && (!this.#hasSpoken || delivery?.isBrowsersOwn)) return "unread";
    delivery?.arrive();
    return "left";
  }

  #send(frames: string): void {
    if (frames !== "") this.writer.write(frames);
  }
}

export interface RunStreamContext {
  streams: Streams;
  stopwatch: Clock;
  log: Logger;
}

export interface RunAnswer extends Pick<RunStreamOptions, "translator" | "onClose"> {
  context: RunStreamContext;
  runs: LiveRuns;
  request: FastifyRequest;
  reply: FastifyReply;
}

/**
 * Answer with a run as an event stream. If the run cannot be followed, the stream ends with an error of its protocol.
 */
export async function streamRun(address: RunAddress, answer: RunAnswer): Promise<FastifyReply> {
  const { context, runs, request, reply, translator, onClose } = answer;
  const { streams, stopwatch, log } = context;
  const { delivery } = request;
  const stream = new RunStream({ reply, stopwatch, translator, delivery, onClose });
  streams.add(stream, request.caller);
  try {
    stream.follow(await runs.follow(address, stream));
  } catch (thrown) {
    const { code, message } = toAppError(thrown);
    log.warn({ err: thrown, traceId: request.id }, "a run could not be followed");
    stream.fail(code, message);
  }
  return reply;
}

/** Writes the reason for an early end in the format of the protocol. */
class ReplyWriter extends SseWriter {
  readonly #fail: RunStream["fail"];

  constructor(reply: FastifyReply, now: number, fail: RunStream["fail"]) {
    reply.hijack();
    super(reply.raw, reply.getHeaders() as Record<string, string>, now, { opening: "", isChunked: true });
    this.#fail = fail;
  }

  override endEarly(reason: ByeReason): void {
    const { code, message } = farewell(reason);
    this.#fail(code, message);
  }
}
