import type { MCPClient, MCPTransport } from "@ai-sdk/mcp";
import type { McpServer } from "../../../config/catalog/tool-entry.ts";
import { abortAfter } from "../../../shared/abort-after.ts";
import { textWithin } from "../../../shared/text.ts";
import { raceAborted } from "../../../shared/waiting.ts";
import type { ChildProgram } from "../../process/child-program.ts";
import { createRedactor, locateProgram, type ProgramEntry } from "../../process/program.ts";
import { type ProgramTools, startProgram } from "../../process/program-run.ts";
import type { Redactor } from "../../process/redactor.ts";
import { fail, succeed, type Tool, type ToolOutcome } from "../tool.ts";
import { ToolList } from "../tool-list.ts";

/** The maximum number of pages of a server's list of tools. */
const MAX_PAGES = 16;
/** The longest reason of a failed call, in UTF-16 units. */
const MAX_REASON_UNITS = 1_024;

/** A connected server, for one turn of one agent. */
export interface McpConnection {
  readonly tools: readonly Tool[];
  /** What is unusual about the server's list, for the log of the turn. */
  readonly problems: readonly string[];
  /** End the connection and the program, with all its processes. */
  close(): Promise<void>;
}

export interface McpSettings {
  /** The limits of a tool, by the server's name of it; `undefined` excludes the tool. */
  readonly choose: (
    originalName: string,
  ) => { readonly confirm: boolean | undefined; readonly timeoutMs: number } | undefined;
  readonly signal: AbortSignal;
}

/**
 * Connect to a server and read its tools. All steps together are limited by its `connect_timeout`.
 *
 * @throws Error on failure, after cleaning up. Its message contains no secret
 */
export async function connectMcp(
  server: McpServer,
  settings: McpSettings,
  programs: ProgramTools,
): Promise<McpConnection> {
  const { createMCPClient, validateJSONRPCMessage } = await import("@ai-sdk/mcp");
  const redactor = redactorOf(server, programs.env);
  const late = () => new Error(`it did not answer within ${server.connect_timeout} ms`);
  using limit = abortAfter(programs.clock, server.connect_timeout, late, settings.signal);
  const { signal } = limit;
  let child: ChildProgram | undefined;
  let client: MCPClient | undefined;
  let connecting: ReturnType<typeof readTools> | undefined;
  const close = async () => {
    // Not awaited, because a hanging server does not answer the end of its session.
    client?.close().catch(() => {});
    await child?.end(0);
  };
  try {
    const connect = async (): ReturnType<typeof readTools> => {
      let transport: MCPTransport;
      if (server.command === undefined) {
        const headers = headersOf(server, programs.env);
        const { McpHttp } = await import("./mcp-http.ts");
        transport = new McpHttp({
          url: server.url!,
          headers,
          clock: programs.clock,
          connectMs: server.connect_timeout,
          parse: validateJSONRPCMessage,
        });
      } else {
        child = await startServer({ ...server, command: server.command }, programs);
        signal.throwIfAborted();
        const { McpProgram } = await import("./mcp-program.ts");
        transport = new McpProgram(child, validateJSONRPCMessage);
      }
      client = await createMCPClient({
        transport,
        clientName: "interlock",
        // Servers of the older protocol require `initialize` first, and all servers support it.
        protocolVersionDiscovery: false,
        initializationOptions: { timeout: server.connect_timeout, signal: settings.signal },
        onUncaughtError: () => {},
      });
      return await readTools(server.name, client, settings, redactor);
    };
    const list = await raceAborted(signal, () => {
      connecting = connect();
      return connecting;
    });
    return { ...list, close };
  } catch (error) {
    // Not awaited: a connection that failed to open need not close properly.
    const end = async () => {
      client?.close().catch(() => {});
      await child?.kill();
    };
    // The program may be starting still.
    connecting?.then(end, end).catch(() => {});
    await end();
    settings.signal.throwIfAborted();
    throw new Error(redactor.text(reasonOf(error)));
  }
}

async function startServer(entry: ProgramEntry, tools: ProgramTools): Promise<ChildProgram> {
  const { file, problem } = locateProgram(entry, tools.env);
  if (file === undefined) throw new Error(problem);
  const release = tools.permits.tryAcquire();
  if (!release) throw new Error("this node runs as many programs as it may");
  return await startProgram(file, entry, tools, release);
}

function headersOf({ headers_env }: McpServer, env: ProgramTools["env"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers_env).map(([header, variable]) => {
      const value = env[variable]?.trim();
      if (!value) throw new Error(`the environment variable ${variable} is not set`);
      return [header, value];
    }),
  );
}

/**
 * Removes what the server gets from the environment: it may say its own key in an error, and errors and results are
 * visible. Of a header such as `Bearer …`, also the part after the scheme.
 */
function redactorOf({ env, headers_env }: McpServer, from: ProgramTools["env"]): Redactor {
  const headers = Object.values(headers_env).flatMap((variable): [string, string][] => {
    const value = from[variable]?.trim() ?? "";
    return [value, value.slice(value.lastIndexOf(" ") + 1)].map((secret) => [variable, secret]);
  });
  return createRedactor({ env }, from, headers);
}

async function readTools(
  server: string,
  client: MCPClient,
  { choose }: McpSettings,
  redactor: Redactor,
): Promise<Pick<McpConnection, "tools" | "problems">> {
  const list = new ToolList(server, redactor);
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const listed = await client.listTools(cursor === undefined ? {} : { params: { cursor } });
    for (const tool of listed.tools) {
      const { name } = tool;
      const chosen = choose(name);
      if (!chosen) continue;
      list.add(tool, {
        // The server's description of a tool applies unless the operator overrides it.
        isConfirmed: chosen.confirm ?? tool.annotations?.readOnlyHint !== true,
        timeoutMs: chosen.timeoutMs,
        run: async (input, { control: { signal } }) => await callTool(client, redactor, { name, input, signal }),
      });
    }
    cursor = listed.nextCursor;
    if (cursor === undefined || list.isFull) break;
  }
  const problems = list.problems();
  if (cursor !== undefined) problems.push("its list has further pages, which are left out");
  return { tools: list.tools(), problems };
}

async function callTool(
  client: MCPClient,
  redactor: Redactor,
  { name, input, signal }: { name: string; input: unknown; signal: AbortSignal },
): Promise<ToolOutcome> {
  const args = { name, arguments: input as Record<string, unknown>, options: { signal } };
  let result: Awaited<ReturnType<MCPClient["callTool"]>>;
  try {
    result = await client.callTool(args);
  } catch (error) {
    signal.throwIfAborted();
    // The text is from the server, or from the client library: "Connection closed".
    return fail(`The tool's server failed: ${textWithin(redactor.text(reasonOf(error)), MAX_REASON_UNITS)}`);
  }
  const content = redactor.text(textOf(result));
  return "isError" in result && result.isError ? fail(content) : succeed(content);
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : "no reason given");

/** A piece of a result. A server may send other fields, and other types of them. */
interface Content {
  readonly type: string;
  readonly text?: unknown;
  readonly uri?: unknown;
  readonly resource?: { readonly uri?: unknown; readonly text?: unknown } | null;
}

/** The text of a piece, or the name of its kind: a model gets text only. */
function textOfContent({ type, text, uri, resource }: Content): string {
  if (type === "text") return typeof text === "string" ? text : "";
  if (type === "resource" && typeof resource?.text === "string") return resource.text;
  const address = uri ?? resource?.uri;
  return typeof address === "string" ? `[${type} ${address}]` : `[${type}]`;
}

function textOf(result: Readonly<Record<string, unknown>>): string {
  const content = Array.isArray(result["content"]) ? (result["content"] as Content[]) : [];
  const texts = content.map(textOfContent);
  if (texts.length > 0) return texts.join("\n");
  return JSON.stringify(result["structuredContent"] ?? result["toolResult"] ?? null);
}
