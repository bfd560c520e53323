import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { ReadableStream as WebStream } from "node:stream/web";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import { refuseMisspelt } from "../../gateway/http/near-keys.ts";
import { toAppError } from "../../gateway/http/problem.ts";
import { endWithClient } from "../../gateway/http/sockets/hang-up.ts";
import type { Routes } from "../../gateway/route-context.ts";
import { AppError } from "../../protocol/errors.ts";
import { jsonInOneLine } from "../../shared/text.ts";
import { LiveRuns } from "../live-runs.ts";
import { McpCalls, type McpClient } from "./mcp-calls.ts";
import {
  type McpCall,
  type McpCommand,
  type McpCommandsOptions,
  type McpContext,
  mcpCommands,
} from "./mcp-commands.ts";

const INSTRUCTIONS =
  "Interlock decides which agent may speak to a user. Request the floor before you speak. A refusal contains the reason, and a sentence for the user.";

/** A batch would count as one request of its caller, and is no part of the protocol since 2025-06-18. */
const ONE_MESSAGE = "A request has one message: batches are not accepted.";

/** The name of a call's key in its `_meta`, for clients that cannot send headers with each call. */
const KEY_IN_META = "interlock/idempotency-key";

/** What a call says of itself beside its tool and its arguments. */
interface CalledBy {
  id: string | number;
  _meta?: Readonly<Record<string, unknown>> | undefined;
}
type ToolInput = Readonly<Record<string, unknown>>;
type Identify = (tool: string, input: ToolInput, by: CalledBy) => Promise<McpCall["identity"]>;

/** Names a client among those of its owner, whose requests may have the same ids. This node keeps no sessions. */
const SESSION_HEADER = "mcp-session-id";

/**
 * `POST /mcp`: Interlock's commands as tools, over MCP's streamable HTTP. Requests are independent of each other, but
 * one may cancel another of the same client.
 */
export function mcpRoutes(app: Routes, context: McpContext): void {
  const runs = new LiveRuns(context);
  const calls = new McpCalls(context.bus, context.store.epoch);
  app.post(
    "/mcp",
    {
      schema: {
        tags: ["doors"],
        operationId: "callMcp",
        summary: "Call Interlock's commands as tools of an MCP server",
        description: "The Model Context Protocol over streamable HTTP, without sessions.",
        body: z.unknown(),
        response: { 200: z.unknown().meta({ description: "a JSON-RPC message" }) },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      if (Array.isArray(request.body)) throw new AppError("bad_request", ONE_MESSAGE);
      const left = new AbortController();
      reply.raw.once("close", () => left.abort());
      const { method, headers, body } = request;
      const client: McpClient = {
        scope: JSON.stringify([caller.id, headers[SESSION_HEADER]]),
        isNamed: headers[SESSION_HEADER] !== undefined,
      };
      const untilLeft = () => {
        endWithClient(reply.raw);
        return left.signal;
      };
      const keyed = headers["idempotency-key"];
      const session = headers[SESSION_HEADER];
      const identify: Identify = (tool: string, input: ToolInput, { id, _meta }: CalledBy) => {
        const { waitSeconds: _, ...sent } = input;
        // A client counts its ids from 0 again when it resumes a session. So an id is no key: it tells apart requests
        // whose answers are under way or lost (rule C32).
        const key = keyed ?? _meta?.[KEY_IN_META];
        const about = key === undefined && session !== undefined ? ` as ${JSON.stringify([session, id])}` : "";
        return context.commands.identifyBy(caller, request, key, `MCP ${tool} ${JSON.stringify(sent)}${about}`);
      };
      const sentArguments = argumentsIn(body);
      const handle = await openServer({ context, runs, caller }, client, { untilLeft, identify, sentArguments });
      // The transport needs an address, and looks at none of its parts.
      const sent = new Request("http://127.0.0.1/mcp", {
        method,
        headers: Object.entries(headers).flatMap(([name, value]) =>
          [value ?? []].flat().map((each) => [name, each] as [string, string]),
        ),
        signal: left.signal,
      });
      const answer = await handle(sent, body);
      void reply.code(answer.status as 200);
      for (const [name, value] of answer.headers) void reply.header(name, value);
      const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream");
      // As every event stream: see HEADERS in gateway/streams/sse-writer.ts.
      if (isStream) void reply.header("content-encoding", "identity");
      if (isInitialize(body)) void reply.header(SESSION_HEADER, randomUUID());
      if (!answer.body) return reply.send();
      return reply.send(Readable.from(headFirst(reply, answer.body as WebStream<Uint8Array>)));
    },
  );

  async function openServer(
    options: McpCommandsOptions,
    client: McpClient,
    {
      untilLeft,
      identify,
      sentArguments,
    }: { untilLeft: () => AbortSignal; identify: Identify; sentArguments: unknown },
  ) {
    const { McpServer, WebStandardStreamableHTTPServerTransport } = await import("@modelcontextprotocol/server");
    const about = { name: "interlock", version: context.version };
    const server = new McpServer(about, { instructions: INSTRUCTIONS });
    for (const command of mcpCommands(options)) {
      const { name, description, input, isReadOnly } = command;
      server.registerTool(
        name,
        { description, inputSchema: input, annotations: { readOnlyHint: isReadOnly } },
        async (parsed, { mcpReq: { id, _meta, signal: cancelled, notify } }) => {
          const end = calls.add(client, id, () => void server.close());
          const progressToken = _meta?.progressToken;
          const progress =
            progressToken === undefined
              ? undefined
              : (waited: number, total: number) => {
                  const params = { progressToken, progress: waited, total };
                  // The client may have left.
                  notify({ method: "notifications/progress", params }).catch(() => {});
                };
          const call = async () => {
            const identity = await identify(name, parsed, { id, _meta });
            return { identity, cancelled, endWithClient: untilLeft, progress };
          };
          return await carryOut(command, { parsed, sent: sentArguments }, call, context).finally(end);
        },
      );
    }
    server.server.setNotificationHandler("notifications/cancelled", ({ params: { requestId } }) => {
      if (requestId !== undefined) return calls.cancel(client, requestId);
    });
    const transport = new WebStandardStreamableHTTPServerTransport();
    await server.connect(transport);
    return (request: Request, parsedBody: unknown) => transport.handleRequest(request, { parsedBody });
  }
}

/** Send the head of an answer before its body, which a tool may take minutes to give. The body is JSON in lines. */
async function* headFirst(reply: FastifyReply, body: WebStream<Uint8Array>) {
  reply.raw.flushHeaders();
  const decoder = new TextDecoder();
  for await (const bytes of body) yield Buffer.from(jsonInOneLine(decoder.decode(bytes, { stream: true })));
}

const isInitialize = (body: unknown): boolean =>
  typeof body === "object" && body !== null && "method" in body && body.method === "initialize";

const ToolCall = z.object({ params: z.object({ arguments: z.unknown() }) });

/** The arguments of a call as they came: the schemas leave out keys that they do not know. */
const argumentsIn = (body: unknown): unknown => ToolCall.safeParse(body).data?.params.arguments;

/** A refusal is returned as a result for the model: the decision and its sentence. */
async function carryOut(
  command: McpCommand,
  { parsed, sent }: { parsed: unknown; sent: unknown },
  call: () => Promise<McpCall>,
  { log }: McpContext,
) {
  try {
    refuseMisspelt("arguments", sent, command.input);
    const result = await command.run(parsed as never, await call());
    return { content: [{ type: "text" as const, text: JSON.stringify(result) }], structuredContent: { ...result } };
  } catch (thrown) {
    const error = toAppError(thrown);
    if (error.code === "internal")
      log.error({ err: error.cause ?? error, tool: command.name }, "a tool of the MCP door failed");
    const { code, message, facts } = error;
    const failure = { error: { code, message, ...facts } };
    return {
      content: [{ type: "text" as const, text: JSON.stringify(failure) }],
      structuredContent: failure,
      isError: true,
    };
  }
}
