import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { BOUNDS } from "../../config/bounds.ts";
import type { LiveType } from "../../protocol/event.ts";
import {
  dataFrame,
  envelopeJson,
  type Frame,
  HEARTBEAT_LINE,
  positionFrame,
  retryLine,
} from "../../protocol/frames.ts";
import { flow } from "../../shared/flow.ts";
import { replaceSentHead, sentHeadOf } from "../http/node-internals.ts";

/** The outcome of a write: written, written but the reader is behind, or the stream is closed. */
export type Written = "ok" | "full" | "closed";

/**
 * `identity` says that the stream has no coding. Clients ignore it, and proxies that pass over `no-transform` add no
 * coding to an answer that names one: Caddy 2.6 compresses what begins with 512 bytes, and holds it back to its end.
 */
const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "content-encoding": "identity",
  connection: "close",
  "x-content-type-options": "nosniff",
};

/** An object, not a function: a function would keep another hundred bytes for each idle stream. */
export interface StreamSource {
  advance(): void;
}

interface SseOptions {
  /** What a new stream begins with. */
  opening?: string;
  /**
   * Whether the stream is sent in chunks, so that its reader can tell its end from a lost connection, or gets each
   * frame although it reads blocks. Browsers need no chunks, which would double the size of small frames. HTTP/1.0 has
   * none.
   */
  isChunked?: boolean;
}

/** The head of every event stream, once it is sent. */
const SENT = "HTTP/1.1 200 OK\r\n\r\n";

/** Whether an event stream is being sent as this answer. */
export const isEventStream = (response: ServerResponse): boolean => sentHeadOf(response) === SENT;

/** Shared by all streams. */
const ignore = () => {};

/** Writes frames to one event stream. Reports when the reader falls behind, and when it has caught up. */
export class SseWriter {
  readonly #response: ServerResponse;
  /**
   * Frames are written to the socket: each write of a response costs another cork and callback. Null if the client left
   * before.
   */
  readonly #socket: Socket | null;
  readonly #isChunked: boolean;
  /** Bytes that the kernel has accepted, and when that number last grew, in ms. */
  #accepted = 0;
  #acceptedAt: number;
  #heartbeatAt: number;
  #isFull = false;
  #hasEnded = false;
  #isClosed = false;
  /** The stream ends because its reader is too slow, or has vanished. */
  isCut = false;
  /** What writes to the stream; it continues when the reader has drained the buffered bytes. */
  source: StreamSource | undefined;
  /** Called with this writer, so that one function can serve all streams. */
  onClose: (writer: object) => void = ignore;

  constructor(
    response: ServerResponse,
    headers: Record<string, string>,
    now: number,
    { opening = retryLine(BOUNDS.retryMs), isChunked = false }: SseOptions = {},
  ) {
    this.#response = response;
    this.#acceptedAt = now;
    this.#heartbeatAt = now;
    // If the client left while its request was handled, no `close` event follows.
    this.#isClosed = response.destroyed;
    if (!isChunked) response.useChunkedEncodingByDefault = false;
    response.writeHead(200, { ...HEADERS, ...headers });
    // Flushed alone: joined to the first frame, the head would stay in memory in dozens of pieces while the stream
    // lives.
    response.flushHeaders();
    replaceSentHead(response, SENT);
    this.#socket = response.socket;
    // Whether it was asked for, and the client's version of HTTP has it.
    this.#isChunked = response.chunkedEncoding;
    // Not of the response: it already has a listener, and for a second one each idle stream would keep a list.
    this.#socket?.on("close", () => this.#close());
    // A reader that disconnected is not an error. `close` follows.
    response.on("error", ignore);
    if (opening !== "") this.write(opening);
    // The client will send nothing more, which ends a stream: ADR 23. `close` follows.
    if (this.#socket?.readableEnded) this.#socket.end();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** Null if the client left before the stream was opened. */
  get socket(): Socket | null {
    return this.#socket;
  }

  /** @param frame whole frames, each with its blank line */
  write(frame: Frame): Written {
    const socket = this.#socket;
    if (this.#isClosed || this.#hasEnded || !socket?.writable) return "closed";
    flow.onHop?.("frame", `${frame.length} bytes`);
    const sent = this.#isChunked ? chunkOf(frame) : frame;
    // Node counts the characters of text that waits, and `writableLength` is compared with numbers of bytes.
    socket.write(typeof sent === "string" && socket.writableLength > 0 ? Buffer.from(sent) : sent);
    if (this.#isFull) return "full";
    if (socket.writableLength <= BOUNDS.unsentBytes) return "ok";
    this.#isFull = true;
    // Only now: a listener for each idle stream would stay in memory.
    socket.once("drain", () => this.#drained());
    return "full";
  }

  /** An event that is not logged. */
  send(
    type: LiveType | "error" | "message",
    data: unknown,
    at: number,
    about: { sessionId?: string; id?: string } = {},
  ): Written {
    const { sessionId, id } = about;
    const json = envelopeJson({ type, json: JSON.stringify(data), at, sessionId });
    return this.write(dataFrame(json, id));
  }

  /** Send a position in a frame without data, after events that are not shown. */
  sendPosition(id: string): void {
    this.write(positionFrame(id));
  }

  /** Send `bye` and end the stream. With `reconnectInMs` the client reconnects after that time. */
  endEarly(reason: string, at: number, reconnectInMs?: number): void {
    if (reconnectInMs !== undefined) this.write(retryLine(reconnectInMs));
    this.send("bye", { reason, ...(reconnectInMs !== undefined && { reconnectInMs }) }, at);
    this.end();
  }

  /** End the stream once all its frames are sent. */
  end(): void {
    this.#hasEnded = true;
    this.#response.end();
  }

  /** Cut off a reader that is too slow, or has vanished. */
  cut(): void {
    this.isCut = true;
    this.destroy();
  }

  /**
   * Close the connection; the reader reconnects with its position. A reset drops what the kernel has buffered for it.
   */
  destroy(): void {
    const socket = this.#socket;
    // Resetting a half-closed socket leaks it.
    if (socket && !socket.writableEnded) socket.resetAndDestroy();
    this.#response.destroy();
  }

  /**
   * Called every second for each stream: sends heartbeats, which keep proxies from closing it, and cuts off a reader
   * that has not drained its socket for `BOUNDS.stallMs`.
   */
  heartbeat(now: number): void {
    if (this.#isClosed) return;
    const unsent = this.#socket?.writableLength ?? 0;
    const accepted = (this.#socket?.bytesWritten ?? 0) - unsent;
    if (accepted !== this.#accepted || unsent === 0) {
      this.#accepted = accepted;
      this.#acceptedAt = now;
    } else if (now - this.#acceptedAt >= BOUNDS.stallMs) return this.cut();
    if (now - this.#heartbeatAt >= BOUNDS.heartbeatMs) {
      this.write(HEARTBEAT_LINE);
      this.#heartbeatAt = now;
    }
  }

  #drained(): void {
    this.#isFull = false;
    this.source?.advance();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onClose(this);
  }
}

/** The chunk that was made last. Many readers in a row get the same frame. */
let made: { frame: Frame; chunk: Frame } = { frame: "", chunk: "" };

/** A piece of a body in HTTP/1.1's chunked coding. */
function chunkOf(frame: Frame): Frame {
  if (made.frame === frame) return made.chunk;
  const size = `${Buffer.byteLength(frame).toString(16)}\r\n`;
  const chunk =
    typeof frame === "string" ? `${size}${frame}\r\n` : Buffer.concat([Buffer.from(size), frame, Buffer.from("\r\n")]);
  made = { frame, chunk };
  return chunk;
}
