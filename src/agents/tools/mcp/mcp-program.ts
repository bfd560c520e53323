import type { JSONRPCMessage, MCPTransport } from "@ai-sdk/mcp";
import { isTooDeep } from "../../../protocol/internal/json-depth.ts";
import { parseJson } from "../../../shared/json.ts";
import type { ChildProgram } from "../../process/child-program.ts";
import { readLines } from "../../process/line-reader.ts";
import { failedAnswer, isRecord, type RpcId, readMcpAnswer } from "./mcp-answer.ts";

/** The longest message of a server, in UTF-16 units. A longer one ends the connection. */
const MAX_MESSAGE_UNITS = 4_194_304;
/**
 * What a server may print between a request and its answer: lines, and UTF-16 units. A server that prints without end
 * would keep this process busy for its whole turn.
 */
const MAX_PRINTED_LINES = 16_384;
const MAX_PRINTED_UNITS = 16_777_216;
/** Bytes that may wait until the server reads them. Beyond it, the connection ends. */
const MAX_UNSENT_BYTES = 4_194_304;

/**
 * The standard input and output of a supervised program as an MCP transport: one message per line. Skips lines that are
 * not messages, because programs print other output too. The caller ends the program.
 */
export class McpProgram implements MCPTransport {
  readonly #child: ChildProgram;
  readonly #parse: (message: unknown) => JSONRPCMessage;
  /** The unanswered requests, each with a function that releases its signal. */
  readonly #pending = new Map<unknown, () => void>();
  #lines = 0;
  #units = 0;
  #isClosed = false;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  constructor(child: ChildProgram, parse: (message: unknown) => JSONRPCMessage) {
    this.#child = child;
    this.#parse = parse;
  }

  async start(): Promise<void> {
    void this.#read();
    this.#child.stderr.resume();
  }

  async send(message: JSONRPCMessage, { signal }: Parameters<MCPTransport["send"]>[1] = {}): Promise<void> {
    if (this.#isClosed) throw new Error("the server has ended");
    if ("method" in message && "id" in message) this.#expectAnswer(message.id, message.method, signal);
    this.#write(message);
  }

  #expectAnswer(id: RpcId, method: string, signal: AbortSignal | undefined): void {
    const onAbort = () => {
      // A late answer is ignored. The protocol excludes `initialize` from being cancelled.
      this.#pending.delete(id);
      if (this.#isClosed || method === "initialize") return;
      try {
        this.#write({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
      } catch {
        // The connection has ended.
      }
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#pending.set(id, () => signal?.removeEventListener("abort", onAbort));
    this.#begin();
  }

  #write(message: JSONRPCMessage): void {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`);
    if (this.#child.stdin.writableLength <= MAX_UNSENT_BYTES) return;
    this.#end();
    throw new Error("the server does not read");
  }

  async close(): Promise<void> {
    this.#end();
  }

  async #read(): Promise<void> {
    let text = "";
    try {
      for await (const line of readLines(this.#child.stdout, MAX_MESSAGE_UNITS)) {
        if (this.#isClosed) return;
        this.#lines += 1;
        this.#units += line.text.length;
        if (this.#lines > MAX_PRINTED_LINES || this.#units > MAX_PRINTED_UNITS)
          throw new Error("the server prints without an answer");
        text += line.text;
        if (text.length > MAX_MESSAGE_UNITS) throw new Error("a message of the server is too long");
        if (!line.isEnd) continue;
        this.#receive(text);
        text = "";
      }
    } catch (error) {
      if (!this.#isClosed) this.onerror?.(error as Error);
    }
    this.#end();
  }

  #receive(line: string): void {
    const json = parseJson(line);
    if (!isRecord(json)) return;
    if ("method" in json) this.#receiveRequest(json);
    else this.#receiveAnswer(json);
  }

  #receiveRequest(json: object): void {
    let message: JSONRPCMessage;
    try {
      if (isTooDeep(json)) return;
      message = this.#parse(json);
    } catch {
      return;
    }
    this.onmessage?.(message);
  }

  /**
   * Passes on only the first answer to a request, because the client does not compare the types of ids, and throws for
   * unknown ones.
   */
  #receiveAnswer(json: Readonly<Record<string, unknown>>): void {
    const forget = this.#pending.get(json["id"]);
    if (!forget) return;
    forget();
    const id = json["id"] as RpcId;
    this.#pending.delete(id);
    this.#begin();
    this.onmessage?.(isTooDeep(json) ? failedAnswer(id, "its answer is nested too deeply") : readMcpAnswer(id, json));
  }

  #begin(): void {
    this.#lines = 0;
    this.#units = 0;
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const forget of this.#pending.values()) forget();
    this.#pending.clear();
    this.#child.stdin.end();
    this.onclose?.();
  }
}
