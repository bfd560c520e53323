import { spawn } from "node:child_process";
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

/** An MCP server for tests. Its first argument selects its behaviour. */
const [behaviour = "well"] = process.argv.slice(2);

/** A process in a separate process session, which a signal to the group does not reach. */
function leaveBehind(): void {
  spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" }).unref();
}

if (behaviour === "silent") {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1_000);
} else if (behaviour === "flood") {
  process.stdout.on("error", () => process.exit());
  const chunk = Buffer.alloc(1_048_576, "x");
  const more = () => {
    while (process.stdout.write(chunk));
  };
  process.stdout.on("drain", more);
  more();
} else if (behaviour === "chatter") {
  setInterval(() => process.stdout.write("still starting\n".repeat(1_000)), 10);
} else {
  const server = new McpServer({ name: "test", version: "1" });
  const input = z.object({ text: z.string() });
  const reading = { inputSchema: input, annotations: { readOnlyHint: true } };
  const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
  server.registerTool("echo", { ...reading, description: "Says it back." }, ({ text }) =>
    say(`${text} ${process.env["GIVEN"] ?? "-"} ${process.env["SECRET"] ?? "-"}`),
  );
  server.registerTool("write", { description: "Writes.", inputSchema: input }, ({ text }) => say(`wrote ${text}`));
  server.registerTool("fail", reading, () => ({ ...say("it went wrong"), isError: true }));
  server.registerTool("open", reading, ({ text }) => {
    const resource = { uri: "file:///a.txt", mimeType: "text/plain", text: `${text} from a file` };
    return {
      content: [
        { type: "resource", resource },
        { type: "resource", resource: { uri: "file:///b.bin", blob: "AAAA" } },
        { type: "resource_link", uri: "file:///c.txt", name: "c.txt" },
        { type: "image", data: "AAAA", mimeType: "image/png" },
      ],
    };
  });
  server.registerTool("die", reading, () => process.exit(3));
  server.registerTool("rant", reading, () => {
    const notification = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "more" } };
    setInterval(() => process.stdout.write(`${JSON.stringify(notification)}\n`.repeat(1_000)), 10);
    return new Promise<never>(() => {});
  });
  server.registerTool("hang", reading, () => {
    leaveBehind();
    return new Promise<never>(() => {});
  });
  // Output that is not part of the protocol.
  process.stdout.write("ready, I think\n");
  await server.connect(new StdioServerTransport());
}
