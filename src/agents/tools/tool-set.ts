import { type AgentEntry, acceptsTurns, type Catalog, findAgent, isOpenTo } from "../../config/catalog/catalog.ts";
import type { ToolEntry } from "../../config/catalog/tool-entry.ts";
import type { Part } from "../agent.ts";
import type { ProgramTools } from "../process/program-run.ts";
import type { Delegate } from "../sub-agent.ts";
import { ASK_USER } from "./ask-user.ts";
import { createClockTool } from "./clock-tool.ts";
import { createDelegationTool } from "./delegation-tool.ts";
import { connectMcp, type McpConnection } from "./mcp/mcp-server.ts";
import type { Tool } from "./tool.ts";
import { createWebFetchTool } from "./web-fetch.ts";

const MCP_TIMEOUT_MS = 60_000;
const MCP_KEY = /^mcp:([^/]+)\/(.+)$/;

/** The registry of tools: the implementation of each key of the catalogue. */
export interface ToolSource {
  readonly catalog: () => Catalog;
  readonly programs: () => ProgramTools;
  readonly delegate: Delegate;
}

/** The tools of an agent for one turn. */
export interface ToolSet {
  readonly tools: readonly Tool[];
  /** Messages about unavailable tools, for the log of the turn. */
  readonly problems: readonly Part[];
  /** End everything that the tools started. */
  close(): Promise<void>;
}

/** Whether the entry has tools that need to be opened. */
export function hasTools({ tools }: AgentEntry): boolean {
  return tools.length > 0;
}

/**
 * Open the tools of an entry. If a server cannot be reached, the turn continues without its tools. Rejects only when
 * the run ends.
 */
export async function openTools(entry: AgentEntry, source: ToolSource, signal: AbortSignal): Promise<ToolSet> {
  const own = entry.tools.filter(({ name }) => !MCP_KEY.test(name)).map((each) => makeTool(each, entry, source));
  const servers = Map.groupBy(
    entry.tools.filter(({ name }) => MCP_KEY.test(name)),
    ({ name }) => MCP_KEY.exec(name)![1]!,
  );
  const connections: McpConnection[] = [];
  const problems: Part[] = [];
  const note = (text: string) => problems.push({ type: "log", stream: "stderr", text });
  await Promise.all(
    [...servers].map(async ([name, entries]) => {
      try {
        const connection = await connect(name, entries, source, signal);
        connections.push(connection);
        for (const problem of connection.problems) note(`the MCP server ${name}: ${problem}`);
      } catch (error) {
        const reason = error instanceof Error ? error.message.slice(0, 512) : "no reason given";
        note(`the MCP server ${name} cannot be used: ${reason}`);
      }
    }),
  );
  const close = async () => {
    await Promise.all(connections.map((connection) => connection.close()));
  };
  if (signal.aborted) {
    await close();
    signal.throwIfAborted();
  }
  return { tools: [...own, ...connections.flatMap(({ tools }) => tools)], problems, close };
}

function makeTool(tool: ToolEntry, entry: AgentEntry, source: ToolSource): Tool {
  const made = makeBuiltIn(tool, entry, source);
  return {
    ...made,
    isConfirmed: tool.confirm ?? made.isConfirmed,
    timeoutMs: tool.timeout ?? made.timeoutMs,
  };
}

function makeBuiltIn(tool: ToolEntry, entry: AgentEntry, { catalog, delegate }: ToolSource): Tool {
  switch (tool.name) {
    case "clock":
      return createClockTool(Date.now);
    case "ask-user":
      return ASK_USER;
    case "sub-agent": {
      const { subAgents, workspaceId } = entry;
      const isNamed = ({ id }: AgentEntry) =>
        subAgents.some((name) => findAgent(catalog(), name, workspaceId)?.id === id);
      const may = (agent: AgentEntry) =>
        agent.enabled &&
        acceptsTurns(agent) &&
        isOpenTo(agent, workspaceId) &&
        agent.id !== entry.id &&
        (subAgents.length === 0 || isNamed(agent));
      return createDelegationTool(delegate, [...catalog().agents.values()].filter(may));
    }
    case "web-fetch":
      return createWebFetchTool({
        hosts: tool.hosts ?? [],
        networks: tool.networks,
        maxBytes: tool.max_bytes,
      });
    default:
      // The catalogue's schema lists the same keys; each needs an implementation here.
      throw new Error(`the tool ${tool.name} has no implementation`);
  }
}

async function connect(
  name: string,
  entries: readonly ToolEntry[],
  { catalog, programs }: ToolSource,
  signal: AbortSignal,
): Promise<McpConnection> {
  const server = catalog().mcpServers.get(name);
  if (!server) throw new Error("the catalogue has no such server");
  const byTool = new Map(entries.map((each) => [MCP_KEY.exec(each.name)![2]!, each]));
  return await connectMcp(
    server,
    {
      signal,
      choose(originalName) {
        // A setting of one tool overrides the setting of all tools.
        const chosen = byTool.get(originalName) ?? byTool.get("*");
        return chosen && { confirm: chosen.confirm, timeoutMs: chosen.timeout ?? MCP_TIMEOUT_MS };
      },
    },
    programs(),
  );
}
