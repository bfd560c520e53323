import { appendFileSync, existsSync, readFileSync, unlinkSync } from "node:fs";
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

/**
 * An MCP server whose tool acts: each call adds a line to a file. In the instant of its next act it kills the process
 * that a second file names, if there is one.
 */
const [acts = "", armed = ""] = process.argv.slice(2);

const server = new McpServer({ name: "desk", version: "1" });
server.registerTool("send", { description: "Sends a letter.", inputSchema: z.object({ to: z.string() }) }, ({ to }) => {
  appendFileSync(acts, `${to}\n`);
  if (existsSync(armed)) {
    const pid = Number(readFileSync(armed, "utf8"));
    unlinkSync(armed);
    process.kill(pid, "SIGKILL");
  }
  return { content: [{ type: "text", text: `sent to ${to}` }] };
});
await server.connect(new StdioServerTransport());
