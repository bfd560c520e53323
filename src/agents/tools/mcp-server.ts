import { createHash } from "node:crypto";
import type { MCPClient, MCPTransport } from "@ai-sdk/mcp";
import type { McpServer } from "../../config/catalog/tool-entry.ts";
import { isTooDeep } from "../../protocol/internal/json-depth.ts";
import { textWithin } from "../../protocol/text.ts";
import { boundedMcpFetch } from "../bounded-fetch.ts";
import type { ChildProgram } from "../process/child-program.ts";
import { environmentOf, findProgram, findProgramProblem, type ProgramEntry } from "../process/program.ts";
import type { ProgramTools } from "../process/program-run.ts";
import { fail, succeed, type Tool, type ToolOutcome } from "./tool.ts";

/** The maximum number of tools per server: more than a model can choose from. */
const MAX_TOOLS = 256;
/** The maximum number of pages of its list. */
const MAX_PAGES = 16;
const MAX_DESCRIPTION_UNITS = 2_048;
/** The largest schema of a tool, in UTF-16 units. Tools with a larger one, or one nested too deeply, are left out. */
const MAX_SCHEMA_UNITS = 65_536;
const MAX_NAME_UNITS = 64;

export interface McpTool extends Tool {
  /** The server's own name of the tool. */
  readonly originalName: string;
}

/** A connected server, for one turn of one agent. */
export interface McpConnection {
  readonly tools: readonly McpTool[];
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
  const late = Promise.withResolvers<never>();
  late.promise.catch(() => {});
  const timer = programs.clock.after(server.connect_timeout, () =>
    late.reject(new Error(`it did not answer within ${server.connect_timeout} ms`)),
  );
  const onAbort = () => late.reject(settings.signal.reason);
  settings.signal.addEventListener("abort", onAbort, { once: true });
  if (settings.signal.aborted) onAbort();
  let child: ChildProgram | undefined;
  let client: MCPClient | undefined;
  let connecting: Promise<McpTool[]> | undefined;
  let isGivenUp = false;
  const close = async () => {
    // Not awaited, because a hanging server does not answer the end of its session.
    client?.close().catch(() => {});
    await child?.end(0);
  };
  try {
    const connect = async (): Promise<McpTool[]> => {
      let transport: MCPTransport | { type: "http"; url: string; headers: Record<string, string>; fetch: typeof fetch };
      if (server.command === undefined) {
        transport = {
          type: "http",
          url: server.url!,
          headers: headersOf(server, programs.env),
          fetch: boundedMcpFetch,
        };
      } else {
        child = await startProgram({ ...server, command: server.command }, programs);
        if (isGivenUp) throw new Error("the connection was given up");
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
      return await readTools(server.name, client, settings);
    };
    connecting = connect();
    connecting.catch(() => {});
    const tools = await Promise.race([connecting, late.promise]);
    return { tools, close };
  } catch (error) {
    // Not awaited: a connection that failed to open need not close properly.
    const end = async () => {
      client?.close().catch(() => {});
      await child?.kill();
    };
    // The program may be starting still.
    isGivenUp = true;
    connecting?.then(end, end).catch(() => {});
    await end();
    throw error;
  } finally {
    timer.cancel();
    settings.signal.removeEventListener("abort", onAbort);
  }
}

async function startProgram(entry: ProgramEntry, { supervisor, env }: ProgramTools): Promise<ChildProgram> {
  const problem = findProgramProblem(entry, env);
  const file = findProgram(entry.command, env);
  if (problem !== undefined || file === undefined) throw new Error(problem);
  return await supervisor.start({
    file,
    args: entry.args,
    cwd: entry.cwd ?? process.cwd(),
    env: environmentOf(entry, env),
  });
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

async function readTools(server: string, client: MCPClient, { choose }: McpSettings): Promise<McpTool[]> {
  const tools: McpTool[] = [];
  const names = new Set<string>();
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const listed = await client.listTools(cursor === undefined ? {} : { params: { cursor } });
    for (const { name, description = "", inputSchema, annotations } of listed.tools) {
      const chosen = choose(name);
      if (!chosen || tools.length >= MAX_TOOLS || isTooDeep(inputSchema)) continue;
      if (JSON.stringify(inputSchema).length > MAX_SCHEMA_UNITS) continue;
      const uniqueName = modelName(`${server}_${name}`, names);
      names.add(uniqueName);
      tools.push({
        name: uniqueName,
        originalName: name,
        description: textWithin(description, MAX_DESCRIPTION_UNITS),
        inputSchema: { ...inputSchema },
        // The server's description of a tool applies unless the operator overrides it.
        isConfirmed: chosen.confirm ?? annotations?.readOnlyHint !== true,
        timeoutMs: chosen.timeoutMs,
        run: async (input, { control }) => await callTool(client, name, input, control.signal),
      });
    }
    cursor = listed.nextCursor;
    if (cursor === undefined) break;
  }
  return tools;
}

async function callTool(client: MCPClient, name: string, input: unknown, signal: AbortSignal): Promise<ToolOutcome> {
  const args = { name, arguments: input as Record<string, unknown>, options: { signal } };
  let result: Awaited<ReturnType<MCPClient["callTool"]>>;
  try {
    result = await client.callTool(args);
  } catch (error) {
    signal.throwIfAborted();
    // The text is from the server, or from the client library: "Connection closed".
    return fail(
      `The tool's server failed: ${error instanceof Error ? error.message.slice(0, 1_024) : "no reason given"}`,
    );
  }
  const content = textOf(result);
  return "isError" in result && result.isError ? fail(content) : succeed(content);
}

function textOf(result: Readonly<Record<string, unknown>>): string {
  const content = Array.isArray(result["content"]) ? (result["content"] as { type: string; text?: string }[]) : [];
  const texts = content.map(({ type, text }) => (type === "text" ? (text ?? "") : `[${type}]`));
  if (texts.length > 0) return texts.join("\n");
  return JSON.stringify(result["structuredContent"] ?? result["toolResult"] ?? null);
}

/** A name that every provider accepts and that is unique among the server's tools. */
function modelName(name: string, taken: ReadonlySet<string>): string {
  const plain = name.replace(/[^A-Za-z0-9_-]/g, "_");
  if (plain.length <= MAX_NAME_UNITS && !taken.has(plain)) return plain;
  const mark = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${plain.slice(0, MAX_NAME_UNITS - 9)}_${mark}`;
}
