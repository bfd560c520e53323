import type { FastifyReply } from "fastify";
import { endWithClient } from "../gateway/http/sockets/hang-up.ts";
import type { Stream, StreamWriter } from "../gateway/streams/open-streams.ts";
import { AppError } from "../protocol/errors.ts";
import type { ByeReason } from "../protocol/event.ts";
import type { Following, RunAddress } from "./live-runs.ts";
import type { Piece, RunEvent, RunListener } from "./run-reader.ts";
import { farewell } from "./run-stream.ts";
import { RunSummary } from "./run-summary.ts";

/** A run whose answer is sent as a whole. It counts as an open stream, because it takes as long. */
export class WholeRun implements Stream, RunListener {
  readonly writer: WaitingReply;
  readonly isFull = false;
  readonly #summary: RunSummary;
  #following: Following | undefined;
  /** Whether a tool was called, by the agent or a sub-agent. */
  hasActed = false;

  /** @param reply the answer that waits for the run; absent: the client cannot disconnect */
  constructor({ resolved }: Pick<RunAddress, "resolved">, reply?: FastifyReply) {
    this.#summary = new RunSummary(resolved);
    this.writer = new WaitingReply(reply);
  }

  /** Stop waiting, and resolve with the output so far. */
  stopWaiting(): void {
    this.writer.end();
  }

  /**
   * Resolves with the run when it has ended or waits for the client. @throws AppError if it cannot be read to its end
   */
  async read(following: Following): Promise<RunSummary> {
    this.#following = following;
    following.advance();
    await this.writer.ended;
    return this.#summary;
  }

  get hasLeft(): boolean {
    return this.writer.hasLeft;
  }

  onPiece(piece: Piece): void {
    this.#summary.addPiece(piece);
  }

  onEvent(event: RunEvent): "go" | "end" {
    this.#summary.addEvent(event);
    if (event.type === "tool_call") this.hasActed = true;
    if (!this.#summary.outcome) return "go";
    this.writer.end();
    return "end";
  }

  onLost(): void {
    this.writer.fail(new AppError("unavailable", "The run cannot be read at the moment."));
  }

  close(): void {
    this.#following?.close();
  }
}

/** The open stream that represents the pending answer. */
export class WaitingReply implements StreamWriter {
  readonly #ended = Promise.withResolvers<void>();
  isClosed = false;
  readonly isCut = false;
  /** The system itself notices that the peer of a silent connection has vanished. */
  readonly socket = null;
  /** The client disconnected before the answer was complete. */
  hasLeft = false;
  onClose: (writer: object) => void = () => {};

  constructor(reply: FastifyReply | undefined) {
    this.#ended.promise.catch(() => {});
    if (!reply) return;
    reply.raw.on("close", () => this.#leave());
    endWithClient(reply.raw);
    if (reply.raw.destroyed) this.#leave();
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  heartbeat(): void {}

  end(): void {
    this.#ended.resolve();
    this.#close();
  }

  fail(error: AppError): void {
    this.#ended.reject(error);
    this.#close();
  }

  endEarly(reason: ByeReason): void {
    const { code, message } = farewell(reason);
    this.fail(new AppError(code, message));
  }

  cut(): void {
    this.destroy();
  }

  destroy(): void {
    this.fail(new AppError("unavailable"));
  }

  #leave(): void {
    if (this.isClosed) return;
    this.hasLeft = true;
    this.fail(new AppError("unavailable", "The client has disconnected."));
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.onClose(this);
  }
}
