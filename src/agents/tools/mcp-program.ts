import type { JSONRPCMessage, MCPTransport } from "@ai-sdk/mcp";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import type { ChildProgram } from "../process/child-program.ts";
import { readLines } from "../process/line-reader.ts";

/** The longest message of a server, in UTF-16 units. A longer one ends the connection. */
const MAX_MESSAGE_UNITS = 4_194_304;
/**
 * What a server may print between a request and its answer: lines, and UTF-16 units. One that prints without end would keep
 * this process busy for its whole turn.
 */
const MAX_LINES = 16_384;
const MAX_UNITS = 16_777_216;
/** Bytes that may wait until the server reads them. Beyond it, the connection ends. */
const MAX_UNSENT_BYTES = 4_194_304;

/**
 * The standard input and output of a supervised program as an MCP transport: one message per line. Skips lines that are
 * not messages, because programs print other output too. The caller ends the program.
 */
export class McpProgram implements MCPTransport {
  readonly #child: ChildProgram;
  readonly #parse: (message: unknown) => JSONRPCMessage;
  readonly #asked = new Set<unknown>();
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

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#isClosed) throw new Error("the server has ended");
    if ("method" in message && "id" in message) {
      this.#asked.add(message.id);
      this.#begin();
    }
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
        if (this.#lines > MAX_LINES || this.#units > MAX_UNITS) throw new Error("the server prints without an answer");
        text += line.text;
        if (text.length > MAX_MESSAGE_UNITS) throw new Error("a message of the server is too long");
        if (!line.isEnd) continue;
        this.#take(text);
        text = "";
      }
    } catch (error) {
      if (!this.#isClosed) this.onerror?.(error as Error);
    }
    this.#end();
  }

  #take(line: string): void {
    let message: JSONRPCMessage;
    try {
      const json: unknown = JSON.parse(line);
      if (isTooDeep(json)) return;
      message = this.#parse(json);
    } catch {
      return;
    }
    if (!("method" in message) && this.#asked.delete(message.id)) this.#begin();
    this.onmessage?.(message);
  }

  #begin(): void {
    this.#lines = 0;
    this.#units = 0;
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#child.stdin.end();
    this.onclose?.();
  }
}
