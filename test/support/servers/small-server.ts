import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface ReceivedRequest {
  method: string;
  /** Path and query. */
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
}

export type Answer = (response: ServerResponse, request: ReceivedRequest) => unknown;

/** A real HTTP server with given answers: each request takes the next one, and the last one is repeated. */
export class SmallServer {
  readonly heard: ReceivedRequest[] = [];
  readonly #server: Server;
  readonly #answers: Answer[];
  readonly #waiting: { count: number; resolve: () => void }[] = [];

  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...answers: Answer[]): Promise<SmallServer> {
    const small = new SmallServer(answers);
    small.#server.listen(0, "127.0.0.1");
    await once(small.#server, "listening");
    return small;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves when `count` requests have arrived. */
  whenReceived(count: number): Promise<void> {
    if (this.heard.length >= count) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ count, resolve }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "", headers } = request;
    const answer = this.#answers[Math.min(this.heard.length, this.#answers.length - 1)]!;
    const received: ReceivedRequest = { method, url, headers, body: "" };
    this.heard.push(received);
    received.body = await text(request).catch(() => "");
    for (const { count, resolve } of this.#waiting) if (this.heard.length >= count) resolve();
    await answer(response, received);
  }
}

export function json(body: object, status = 200, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(body));
  };
}

export function problem(errorCode: string, status: number, facts: object = {}, headers = {}): Answer {
  const retryable = status === 503 || status === 429 || status === 409;
  return json(
    { success: false, errorCode, error: `no: ${errorCode}`, retryable, traceId: "t", ...facts },
    status,
    headers,
  );
}

/** The connection breaks without an answer. */
export const cut: Answer = (response) => void response.destroy();

/** An event stream that sends these pieces and then ends, breaks (`cut`) or stays open. */
export function stream(pieces: readonly string[], then: "end" | "cut" | "open" = "end"): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    response.flushHeaders();
    if (then === "end") return void response.end(pieces.join(""));
    // The connection breaks only after the written data has left the process.
    response.write(pieces.join("") || ":\n\n", () => then === "cut" && response.destroy());
  };
}

/** A frame of a logged event of a session, as the server writes it. */
export function frame(seq: number, { session = "s", id = `e.${seq}`, ...data }: Record<string, unknown> = {}): string {
  const event = {
    type: "session_updated",
    data: { title: `title ${seq}`, ...data },
    timestamp: "2026-01-01T00:00:00.000Z",
    sessionId: session,
    seq,
  };
  return `id: ${id}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** A frame of an event that is not logged. */
export function liveFrame(type: string, data: object, id?: string): string {
  const event = { type, data, timestamp: "2026-01-01T00:00:00.000Z" };
  return `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(event)}\n\n`;
}
