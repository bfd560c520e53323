import type { JSONRPCMessage, MCPTransport } from "@ai-sdk/mcp";
import { createParser } from "eventsource-parser";
import { abortAfter } from "../../../shared/abort-after.ts";
import { parseJson } from "../../../shared/json.ts";
import type { Clock } from "../../../shared/ports/clock.ts";
import { raceAborted } from "../../../shared/waiting.ts";
import { boundedMcpFetch } from "../../bounded-fetch.ts";
import { isRecord, type RpcId, readMcpAnswer } from "./mcp-answer.ts";

/** The longest event of a stream, in UTF-16 units, also if it has several lines. */
const MAX_EVENT_UNITS = 4_194_304;
/** The timeout of a message whose answer is not used, in ms. */
const UNANSWERED_MS = 5_000;
const SESSION_HEADER = "mcp-session-id";

/** The id of a repeated `initialize`. The client counts its own. */
const RENEWAL_ID = "renewal";
const NOT_FOUND = 404;

type Deliver = (message: JSONRPCMessage) => void;
type SendOptions = Parameters<MCPTransport["send"]>[1];

export interface McpHttpOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** How long the server may take to begin another session in place of one that it lost, in ms. */
  readonly connectMs: number;
  /** @throws if it is not a message of the protocol */
  readonly parse: (message: unknown) => JSONRPCMessage;
}

/**
 * A server over streamable HTTP as an MCP transport. Only the response to a request can answer it, by its id; `send`
 * rejects if it does not. A request whose signal aborts is cancelled at the server. If the server has lost the session,
 * which it says with 404 and without acting, a new one is begun, and the message is sent again, once.
 */
export class McpHttp implements MCPTransport {
  readonly #options: McpHttpOptions;
  readonly #end = new AbortController();
  #sessionId: string | undefined;
  /** The client's `initialize`, and its repeat that is under way. */
  #initialize: JSONRPCMessage | undefined;
  #renewal: Promise<void> | undefined;
  /** Set by the client, as it has negotiated it. */
  protocolVersion?: string;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(options: McpHttpOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {}

  /** @throws Error if a request is not answered. Its message may have text of the server */
  async send(message: JSONRPCMessage, { signal }: SendOptions = {}): Promise<void> {
    const request = "method" in message && "id" in message ? message : undefined;
    const signals = [this.#end.signal, ...(signal ? [signal] : [])];
    try {
      if (request?.method === "initialize") this.#initialize = request;
      const response = await this.#post(message, AbortSignal.any(signals));
      if (!response.ok) await this.#fail(response, request?.id);
      else if (request) await this.#readAnswer(response, request.id);
      else await response.body?.cancel();
    } catch (error) {
      // The protocol excludes `initialize`.
      if (request && request.method !== "initialize" && signal?.aborted) this.#cancel(request.id);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#end.signal.aborted) return;
    this.#end.abort(new Error("the connection is closed"));
    this.onclose?.();
    if (this.#sessionId !== undefined) await this.#sendUnanswered("DELETE");
  }

  async #post(message: JSONRPCMessage, signal: AbortSignal): Promise<Response> {
    await this.#renewed(signal);
    const session = this.#sessionId;
    let response = await this.#fetch("POST", signal, message);
    if (response.status === NOT_FOUND && session !== undefined) {
      await response.body?.cancel();
      if (this.#sessionId === session) this.#beginRenewal();
      await this.#renewed(signal);
      response = await this.#fetch("POST", signal, message);
    }
    this.#sessionId = response.headers.get(SESSION_HEADER) ?? this.#sessionId;
    return response;
  }

  #beginRenewal(): void {
    this.#sessionId = undefined;
    this.#renewal = this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    this.#renewal.catch(() => {});
  }

  /** Wait for another session, if one is being begun. */
  async #renewed(signal: AbortSignal): Promise<void> {
    const renewal = this.#renewal;
    if (renewal) await raceAborted(signal, () => renewal);
  }

  async #renew(): Promise<void> {
    const { clock, connectMs } = this.#options;
    const late = () => new Error(`it did not answer within ${connectMs} ms`);
    using limit = abortAfter(clock, connectMs, late, this.#end.signal);
    const { signal } = limit;
    const response = await this.#fetch("POST", signal, { ...this.#initialize!, id: RENEWAL_ID } as JSONRPCMessage);
    this.#sessionId = response.headers.get(SESSION_HEADER) ?? undefined;
    if (!response.ok) await this.#fail(response, undefined);
    const answers: JSONRPCMessage[] = [];
    await this.#readAnswer(response, RENEWAL_ID, (answer) => answers.push(answer));
    const [answer] = answers;
    if (!answer || !("result" in answer)) throw new Error("it began no other session");
    const said = await this.#fetch("POST", signal, { jsonrpc: "2.0", method: "notifications/initialized" });
    await said.body?.cancel();
  }

  #cancel(requestId: RpcId): void {
    void this.#sendUnanswered("POST", { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } });
  }

  /** Send a message whose answer is not used, also while the connection is closing. Never rejects. */
  async #sendUnanswered(method: "POST" | "DELETE", message?: JSONRPCMessage): Promise<void> {
    using limit = abortAfter(this.#options.clock, UNANSWERED_MS, () => new Error("it did not answer"));
    try {
      const response = await this.#fetch(method, limit.signal, message);
      await response.body?.cancel();
    } catch {
      // The server is gone or does not answer: the message is not repeated.
    }
  }

  async #fetch(method: "POST" | "DELETE", signal: AbortSignal, message?: JSONRPCMessage): Promise<Response> {
    const { url, headers } = this.#options;
    return await boundedMcpFetch(url, {
      method,
      headers: {
        ...headers,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(this.protocolVersion !== undefined && { "mcp-protocol-version": this.protocolVersion }),
        ...(this.#sessionId !== undefined && { [SESSION_HEADER]: this.#sessionId }),
      },
      ...(message && { body: JSON.stringify(message) }),
      signal,
      redirect: "error",
    });
  }

  async #fail(response: Response, id: RpcId | undefined): Promise<void> {
    const text = await response.text();
    if (id !== undefined && this.#receiveJson(text, id)) return;
    throw new Error(`it answered with the status ${response.status}: ${text}`);
  }

  /** @throws Error if the response has no answer to the request */
  async #readAnswer(response: Response, id: RpcId, deliver?: Deliver): Promise<void> {
    const type = response.headers.get("content-type") ?? "";
    if (/^text\/event-stream\b/i.test(type)) return await this.#readStream(response, id, deliver);
    const text = await response.text();
    if (!this.#receiveJson(text, id, deliver)) throw new Error("its response has no answer to the request");
  }

  async #readStream({ body }: Response, id: RpcId, deliver?: Deliver): Promise<void> {
    let isAnswered = false;
    const parser = createParser({
      maxBufferSize: MAX_EVENT_UNITS,
      onEvent: ({ event = "message", data }) => {
        if (!isAnswered && event === "message") isAnswered = this.#receiveJson(data, id, deliver);
      },
      onError: ({ type }) => {
        if (type !== "max-buffer-size-exceeded") return;
        throw new Error(`its stream has an event of more than ${MAX_EVENT_UNITS} characters`);
      },
    });
    const decoder = new TextDecoder();
    try {
      // Leaving the loop closes the stream: what follows the answer is not read.
      for await (const chunk of body ?? []) {
        parser.feed(decoder.decode(chunk, { stream: true }));
        if (isAnswered) return;
      }
    } catch (error) {
      if (error instanceof TypeError) throw new Error("its stream broke off before the answer", { cause: error });
      throw error;
    }
    throw new Error("its stream ended without an answer");
  }

  /** Pass on the messages in a text. @returns whether the answer to this request was among them */
  #receiveJson(text: string, id: RpcId, deliver: Deliver = (message) => this.onmessage?.(message)): boolean {
    const json = parseJson(text);
    let isAnswered = false;
    for (const message of Array.isArray(json) ? (json as unknown[]) : [json]) {
      if (isAnswered || !isRecord(message)) continue;
      if ("method" in message) this.#receiveRequest(message);
      // The id is null if the server could not read the request.
      else if (message["id"] === id || (message["id"] == null && isRecord(message["error"]))) {
        isAnswered = true;
        deliver(readMcpAnswer(id, message));
      }
    }
    return isAnswered;
  }

  #receiveRequest(message: object): void {
    let parsed: JSONRPCMessage;
    try {
      parsed = this.#options.parse(message);
    } catch {
      return;
    }
    this.onmessage?.(parsed);
  }
}
