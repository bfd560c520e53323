import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { HeldBody } from "./held-body.ts";

export interface WaitingRequest {
  request: IncomingMessage;
  response: ServerResponse;
  /** Its body, if that is chunked. */
  body: HeldBody | undefined;
}

export const isChunked = ({ headers }: IncomingMessage): boolean => headers["transfer-encoding"] !== undefined;

/**
 * The requests of a socket that wait behind the one in progress. While one with a chunked body waits, the socket is not
 * read, so such a body occupies no more than what came together with its head.
 */
export class WaitingRequests {
  readonly #socket: Socket;
  readonly #requests: WaitingRequest[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  get size(): number {
    return this.#requests.length;
  }

  get newest(): WaitingRequest | undefined {
    return this.#requests.at(-1);
  }

  add(request: IncomingMessage, response: ServerResponse): void {
    const body = isChunked(request) ? new HeldBody(request) : undefined;
    if (body && !this.#hasBody()) {
      this.#socket.pause();
      // Node.js reads on when the request in progress takes its body, and when an answer is sent.
      this.#socket.on("resume", pause);
    }
    this.#requests.push({ request, response, body });
  }

  /** The oldest one, which waits no more. Its body is read on after `release`. */
  next(): WaitingRequest | undefined {
    return this.#requests.shift();
  }

  release({ body }: WaitingRequest): void {
    if (!body) return;
    body.release();
    this.#readOn();
  }

  /** Drop the newest one, because its body cannot be read. */
  dropNewest(): void {
    if (this.#requests.pop()?.body) this.#readOn();
  }

  #readOn(): void {
    if (this.#hasBody()) return;
    this.#socket.off("resume", pause);
    this.#socket.resume();
  }

  #hasBody(): boolean {
    return this.#requests.some(({ body }) => body);
  }
}

function pause(this: Socket): void {
  this.pause();
}
