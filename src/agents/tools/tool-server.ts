import { hash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as WebStream } from "node:stream/web";
import { OpenCalls } from "../../shared/open-calls.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { ToolServer } from "../agent.ts";
import type { Tool, ToolOutcome } from "./tool.ts";
import { ToolConnections } from "./tool-connections.ts";

/** The largest request, in bytes: the arguments of a tool, and the protocol's envelope. */
const MAX_REQUEST_BYTES = 1_048_576;
/**
 * The maximum number of concurrent requests of all runs of this worker, and of one run, so that no program keeps the
 * others from their tools.
 */
const MAX_REQUESTS = 1_024;
const MAX_RUN_REQUESTS = 64;
const PATH = "/mcp";

/** The tools that the program of one run may call. */
export interface ServedTools {
  readonly tools: Iterable<Pick<Tool, "name" | "description" | "inputSchema">>;
  /**
   * Rejects when the run ends.
   * @param givenUp aborts when the program has given up the call
   */
  call(name: string, input: unknown, givenUp: AbortSignal): Promise<ToolOutcome>;
}

export interface Serving extends ToolServer {
  /** Invalidate the token, because the run has ended. */
  close(): void;
}

interface Served {
  readonly tools: ServedTools;
  readonly calls: OpenCalls;
  requests: number;
}

/**
 * Serves the tools of runs to their programs: one MCP server per worker, over streamable HTTP on the loopback address.
 * Each run has a token that only its program receives; it selects the run's tools, and expires with the run.
 */
export class ToolServers {
  /**
   * Keyed by the hash of the token, so that the time of a lookup does not reveal how much of a guessed token is right.
   */
  readonly #served = new Map<string, Served>();
  readonly #connections: ToolConnections;
  #server: Promise<Server> | undefined;
  #requests = 0;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#connections = new ToolConnections(clock);
  }

  /** Serve these tools until `close`. */
  async serve(tools: ServedTools): Promise<Serving> {
    this.#server ??= this.#listen();
    const { port } = (await this.#server).address() as AddressInfo;
    const token = randomBytes(32).toString("base64url");
    this.#served.set(hashOf(token), { tools, calls: new OpenCalls(), requests: 0 });
    return {
      name: "interlock",
      url: `http://127.0.0.1:${port}${PATH}`,
      headers: { Authorization: `Bearer ${token}` },
      close: () => void this.#served.delete(hashOf(token)),
    };
  }

  /** End all requests and connections. Nothing can be served afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#served.clear();
    const server = await this.#server?.catch(() => undefined);
    if (!server) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  async #listen(): Promise<Server> {
    if (this.#isClosed) throw new Error("the tool server is closed");
    // Our own timers replace Node's, which may fire half a minute late.
    const server = createServer({ headersTimeout: 0, requestTimeout: 0 }, (request, response) => {
      this.#requests += 1;
      response.once("close", () => {
        this.#requests -= 1;
      });
      this.#answer(request, response).catch(() => response.destroy());
    });
    server.on("connection", (socket) => this.#connections.add(socket));
    // Do not keep an idle worker's process alive.
    server.unref();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, "127.0.0.1", resolve);
    });
    return server;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, token = ""] = /^Bearer (\S{1,256})$/.exec(request.headers.authorization ?? "") ?? [];
    const served = this.#served.get(hashOf(token));
    if (!served) return refuse(response, 401);
    if (request.url !== PATH) return refuse(response, 404);
    if (request.method !== "POST") return refuse(response, 405);
    if (this.#requests > MAX_REQUESTS || served.requests >= MAX_RUN_REQUESTS) return refuse(response, 503);
    served.requests += 1;
    const { socket } = request;
    const left = new AbortController();
    let hasArrived = false;
    response.once("close", () => {
      served.requests -= 1;
      if (hasArrived) this.#connections.end(socket);
      left.abort();
    });
    const body = await readBody(request);
    if (body === undefined) return refuse(response, 413);
    hasArrived = true;
    this.#connections.begin(socket);
    const answer = await handle(served, request, body, left.signal);
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) await pipeline(Readable.fromWeb(answer.body as WebStream), response);
    else response.end();
  }
}

const hashOf = (token: string): string => hash("sha256", token, "base64url");

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, { connection: "close" }).end();
}

/** Read a request; undefined if it is too large. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.byteLength;
    if (bytes > MAX_REQUEST_BYTES) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}

/**
 * Requests are independent, so that a program may send them in any order. Comments keep the connection of a long call
 * open. A call that the program cancels ends without an answer.
 */
async function handle(
  { tools: { tools, call }, calls }: Served,
  { headers }: IncomingMessage,
  body: string,
  left: AbortSignal,
): Promise<Response> {
  const { Server: McpServer, WebStandardStreamableHTTPServerTransport } = await import("@modelcontextprotocol/server");
  // Cancelling a call closes its request's server, and would end the other messages of a batch.
  if (body.trimStart().startsWith("[")) return new Response(null, { status: 400 });
  const server = new McpServer({ name: "interlock", version: "1" }, { capabilities: { tools: {} } });
  // One run has one program; its MCP clients may name themselves.
  const scope = String(headers["mcp-session-id"] ?? "");
  server.setRequestHandler("tools/list", async () => ({
    tools: [...tools].map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema: { ...inputSchema, type: "object" as const },
    })),
  }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq: { id, signal } }) => {
    const end = calls.add(scope, id, () => void server.close());
    const givenUp = AbortSignal.any([left, signal]);
    const { content, isError } = await call(params.name, params.arguments, givenUp).catch(ended).finally(end);
    return { content: [{ type: "text" as const, text: content }], ...(isError && { isError }) };
  });
  server.setNotificationHandler("notifications/cancelled", ({ params: { requestId } }) => {
    if (requestId !== undefined) calls.cancel(scope, requestId);
  });
  const transport = new WebStandardStreamableHTTPServerTransport();
  await server.connect(transport);
  const named = ["accept", "content-type", "mcp-protocol-version"].flatMap((name) => {
    const value = headers[name];
    return typeof value === "string" ? [[name, value] as [string, string]] : [];
  });
  const sent = new Request(`http://127.0.0.1${PATH}`, { method: "POST", headers: named, body, signal: left });
  return await transport.handleRequest(sent);
}

const ended = (): ToolOutcome => ({ content: "The run has ended.", isError: true });
