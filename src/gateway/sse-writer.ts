import type { ServerResponse } from "node:http";
import { BOUNDS } from "../config/bounds.ts";
import type { LiveType } from "../protocol/event.ts";
import { envelopeJson } from "../protocol/event.ts";

/** What became of a write: sent on, sent on but the reader is behind, or nobody is there. */
export type Written = "ok" | "full" | "closed";

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  connection: "close",
  "x-content-type-options": "nosniff",
};

/** One event stream on the wire: frames in, bytes out. Says when the reader is behind, and when it is there again. */
export class SseWriter {
  readonly #response: ServerResponse;
  /** Bytes the kernel has taken, and when that last grew, in ms. */
  #taken = 0;
  #takenAt: number;
  #heartbeatAt: number;
  #isFull = false;
  #hasEnded = false;
  #isClosed = false;
  /** The reader has taken what waited. */
  onDrain: () => void = () => {};
  onClose: () => void = () => {};

  constructor(response: ServerResponse, headers: Record<string, string>, now: number) {
    this.#response = response;
    this.#takenAt = now;
    this.#heartbeatAt = now;
    // A client may go while its request is looked at: there is no `close` to come.
    this.#isClosed = response.destroyed;
    // A stream ends with its connection, so its frames travel as they are: chunks around them would cost as much again.
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, { ...HEADERS, ...headers });
    // By itself: joined to the first frame, the head would be kept in dozens of pieces as long as the stream lives.
    response.flushHeaders();
    response.on("close", () => this.#close());
    response.on("drain", () => this.#drained());
    // A reader that is gone is no error of ours; `close` follows.
    response.on("error", () => {});
    response.write(`retry: ${BOUNDS.retryMs}\n\n`);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** @param frame whole frames, each with its blank line */
  write(frame: Uint8Array | string): Written {
    if (this.#isClosed || this.#hasEnded) return "closed";
    this.#response.write(frame);
    if (this.#isFull) return "full";
    if (this.#response.writableLength <= BOUNDS.unsentBytes) return "ok";
    this.#isFull = true;
    return "full";
  }

  /** An event that is not logged. */
  tell(
    type: LiveType | "error" | "message",
    data: unknown,
    at: number,
    about: { sessionId?: string; id?: string } = {},
  ): Written {
    const { sessionId, id } = about;
    const json = envelopeJson({ type, json: JSON.stringify(data), at, sessionId });
    return this.write(`${id === undefined ? "" : `id: ${id}\n`}data: ${json}\n\n`);
  }

  /** The position before the first event to come: a frame without data. */
  place(id: string): void {
    this.write(`id: ${id}\n\n`);
  }

  /** Say so and end. With `reconnectInMs` the client comes back then. */
  bye(reason: string, at: number, reconnectInMs?: number): void {
    if (reconnectInMs !== undefined) this.write(`retry: ${reconnectInMs}\n\n`);
    this.tell("bye", { reason, ...(reconnectInMs !== undefined && { reconnectInMs }) }, at);
    this.#hasEnded = true;
    this.#response.end();
  }

  /** Cut the connection: the reader comes back by its position. With a reset, so that the kernel keeps nothing for it. */
  destroy(): void {
    const { socket } = this.#response;
    // A socket that is being shut down cannot be reset, and one that is asked to all the same is never closed.
    if (socket && !socket.writableEnded) socket.resetAndDestroy();
    this.#response.destroy();
  }

  /**
   * Called every second for all: keeps proxies awake, and notices who has stalled.
   * @returns false for a reader that has taken nothing for too long
   */
  tick(now: number): boolean {
    if (this.#isClosed) return true;
    const { socket } = this.#response;
    const taken = socket ? socket.bytesWritten - socket.writableLength : 0;
    if (taken !== this.#taken || this.#response.writableLength === 0) {
      this.#taken = taken;
      this.#takenAt = now;
    } else if (now - this.#takenAt >= BOUNDS.stallMs) return false;
    if (now - this.#heartbeatAt >= BOUNDS.heartbeatMs) {
      this.write(":\n\n");
      this.#heartbeatAt = now;
    }
    return true;
  }

  #drained(): void {
    this.#isFull = false;
    this.onDrain();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onClose();
  }
}
