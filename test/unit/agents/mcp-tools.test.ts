import { randomUUID } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Part } from "../../../src/agents/agent.ts";
import type { ChildProgram, ProgramStart } from "../../../src/agents/process/child-program.ts";
import { Supervisor } from "../../../src/agents/process/supervisor.ts";
import { Semaphore } from "../../../src/agents/semaphore.ts";
import { connectMcp } from "../../../src/agents/tools/mcp/mcp-server.ts";
import { modelNameOf } from "../../../src/agents/tools/model-name.ts";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { McpServer } from "../../../src/config/catalog/tool-entry.ts";
import type { AgentId } from "../../../src/protocol/ids.ts";
import { gone, running } from "../../support/agents/processes.ts";
import { createRunStage, play, textOf, turnOf } from "../../support/agents/run-stage.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { RealClock } from "../../support/catalogs/watched-file.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";

const PROGRAM = fileURLToPath(new URL("../../support/agents/mcp-program-server.ts", import.meta.url));

let server: ProviderServer;
let tag: string;
const closers: (() => Promise<void>)[] = [];
beforeEach(async () => {
  tag = `tag-${randomUUID()}`;
  server = await startProviderServer();
});
afterEach(async () => {
  await server.close();
  for (const close of closers.splice(0)) await close();
  await gone(tag);
});

function agentWith(mcpServer: object | object[], tools: unknown[] = ["mcp:files/*"], more: object = {}) {
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: server.baseUrl };
  const mcp_servers = [mcpServer].flat().map((each) => ({ name: "files", ...each }));
  const file = { mcp_servers, agents: [{ name: "master", adapter, tools }] };
  const reading = readCatalog(JSON.stringify(file));
  if (!reading.ok) throw new Error(reading.faults.map(({ message }) => message).join());
  const env = { ...process.env, GIVEN_THERE: "given", SECRET: "never", TOKEN: "token-value", ...more };
  const registry = testRegistry({ catalog: () => reading.catalog, env });
  closers.push(() => registry.close());
  return registry.find("master" as AgentId)!;
}

const program = (...args: string[]) => ({
  command: process.execPath,
  args: ["--no-warnings", PROGRAM, ...args],
  env: ["GIVEN=GIVEN_THERE"],
  set: { TAG: tag },
});
const call = (name: string, id = "c1") => ({ id, name, arguments: '{"text":"hi"}' });
const results = (parts: readonly Part[]) => parts.flatMap((part) => (part.type === "tool-result" ? [part] : []));

test("a server's tools are called, see only the variables that are listed for them, and end with the turn", async () => {
  const agent = agentWith(program());
  server.willReply(
    { kind: "stream", calls: [call("files_echo"), call("files_fail", "c2")] },
    { kind: "stream", text: ["ok"] },
  );
  const parts = await play(agent, turnOf("x"));
  expect(results(parts)).toMatchObject([
    { toolName: "files_echo", content: "hi given -", status: "success" },
    { toolName: "files_fail", content: "it went wrong", status: "error" },
  ]);
  expect(textOf(parts)).toBe("ok");
});

test("a result has the text of embedded resources and the address of others; other content is named", async () => {
  server.willReply({ kind: "stream", calls: [call("files_open")] }, { kind: "stream", text: ["ok"] });
  const parts = await play(agentWith(program()), turnOf("x"));
  expect(results(parts)).toMatchObject([
    {
      status: "success",
      content: "hi from a file\n[resource file:///b.bin]\n[resource_link file:///c.txt]\n[image]",
    },
  ]);
});

test("a tool that may write is confirmed, unless the operator configured otherwise", async () => {
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  server.willReply({ kind: "stream", calls: [call("files_write")] }, { kind: "stream", text: ["ok"] });
  const parts = await play(agentWith(program()), turnOf("x"), stage);
  expect(results(parts)).toMatchObject([{ status: "error", content: "The user rejected this call." }]);

  server.willReply({ kind: "stream", calls: [call("files_write")] }, { kind: "stream", text: ["ok"] });
  const trusted = agentWith(program(), [{ name: "mcp:files/write", confirm: false }]);
  expect(results(await play(trusted, turnOf("x")))).toMatchObject([{ content: "wrote hi" }]);
});

test("a server that dies during a call fails that call, and the turn continues", async () => {
  server.willReply({ kind: "stream", calls: [call("files_die")] }, { kind: "stream", text: ["Too bad."] });
  const parts = await play(agentWith(program()), turnOf("x"));
  expect(results(parts)).toMatchObject([{ status: "error" }]);
  expect(textOf(parts)).toBe("Too bad.");
});

test("a call that hangs ends at its timeout, and the processes of the server end with the turn", async () => {
  const agent = agentWith(program(), [{ name: "mcp:files/*", timeout: "200ms" }]);
  server.willReply({ kind: "stream", calls: [call("files_hang")] }, { kind: "stream", text: ["ok"] });
  const stage = createRunStage({ time: "stands" });
  const run = play(agent, turnOf("x"), stage);
  await running(tag, 2);
  stage.advance(200);
  expect(results(await run)).toMatchObject([{ status: "error", content: "files_hang took longer than 200 ms." }]);
  await gone(tag);
});

test.each([
  ["does not answer", "silent"],
  ["writes without end", "flood"],
])("a turn continues without the tools of a server that %s, and leaves no process", async (_, how) => {
  const agent = agentWith({ ...program(how), connect_timeout: "2s" });
  server.willReply({ kind: "stream", text: ["Without tools."] });
  const parts = await play(agent, turnOf("x"));
  expect(parts[0]).toMatchObject({ type: "log", stream: "stderr" });
  expect((parts[0] as { text: string }).text).toContain("the MCP server files cannot be used");
  expect(textOf(parts)).toBe("Without tools.");
  await gone(tag);
});

test("a program that prints without end while it starts is ended before its time is over", async () => {
  const agent = agentWith({ ...program("chatter"), connect_timeout: "10m" });
  server.willReply({ kind: "stream", text: ["Without tools."] });
  const parts = await play(agent, turnOf("x"));
  expect(logOf(parts)[0]).toContain("the MCP server files cannot be used");
  expect(textOf(parts)).toBe("Without tools.");
  await gone(tag);
});

test("a program that sends notifications without end fails its call, and is ended with the turn", async () => {
  server.willReply({ kind: "stream", calls: [call("files_rant")] }, { kind: "stream", text: ["Too bad."] });
  const parts = await play(agentWith(program()), turnOf("x"), createRunStage({ time: "stands" }));
  expect(results(parts)).toMatchObject([{ status: "error", content: "The tool's server failed: Connection closed" }]);
  expect(textOf(parts)).toBe("Too bad.");
  await gone(tag);
});

test("an abort while a server starts leaves no process", async () => {
  const agent = agentWith(program("silent"));
  const stage = createRunStage();
  const run = play(agent, turnOf("x"), stage).catch(() => "ended");
  await running(tag, 1);
  stage.abort();
  await run;
  await gone(tag);
  expect(server.requests).toEqual([]);
});

test("a server that is given up while its program starts leaves no process", async () => {
  const clock = new RealClock();
  const supervisor = new Supervisor({ clock });
  closers.push(() => supervisor.close());
  const started: Promise<ChildProgram>[] = [];
  const start = (toStart: ProgramStart) => {
    started.push(supervisor.start(toStart));
    return started[0]!;
  };
  const programs = { supervisor: { start } as unknown as Supervisor, clock, env: process.env, slots: new Semaphore(1) };
  // It does not end with its input.
  const args = ["-e", "setInterval(() => {}, 60_000)"];
  const entry = McpServer.parse({ name: "files", ...program(), args });
  const settings = { choose: () => undefined, signal: AbortSignal.abort(new Error("it is over")) };
  await expect(connectMcp(entry, settings, programs)).rejects.toThrow("it is over");
  await (await started[0]!).ended;
  await gone(tag);
});

test("a server over HTTP gets the header from the environment, and its tools are called", async () => {
  const tokens: unknown[] = [];
  const http = await startHttp((message) => {
    if (message.method === "initialize") {
      return { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } };
    }
    if (message.method === "tools/list") {
      return { tools: [{ name: "look", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] };
    }
    return { content: [{ type: "text", text: "seen" }] };
  }, tokens);
  const agent = agentWith({ url: http, headers_env: { Authorization: "TOKEN" } });
  server.willReply({ kind: "stream", calls: [call("files_look")] }, { kind: "stream", text: ["ok"] });
  expect(results(await play(agent, turnOf("x")))).toMatchObject([{ content: "seen", status: "success" }]);
  expect(new Set(tokens)).toEqual(new Set(["token-value"]));
});

test("a server over HTTP that floods the client with requests, or redirects it, occupies no other run", async () => {
  let asked = 0;
  let isRedirected = false;
  const http = createServer(async (request, response) => {
    asked += 1;
    if (request.url === "/inside") isRedirected = true;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString() || "{}") as { id?: number; method?: string };
    if (message.method === "initialize") {
      const result = {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "x", version: "1" },
      };
      response.writeHead(200, { "content-type": "application/json" });
      return void response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }));
    }
    if (message.method === "tools/list") {
      const schema = { type: "object" };
      const tools = [
        { name: "ask", inputSchema: schema, annotations: { readOnlyHint: true } },
        { name: "away", inputSchema: schema, annotations: { readOnlyHint: true } },
        {
          name: "deep",
          inputSchema: { ...schema, properties: JSON.parse(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`) },
        },
        { name: "long", inputSchema: schema, description: `${"x".repeat(2_047)}\u{1F697}` },
      ];
      response.writeHead(200, { "content-type": "application/json" });
      return void response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: { tools } }));
    }
    const { method } = message;
    if (request.method === "POST" && method !== "tools/call") return void response.writeHead(202).end();
    const { params } = message as { params?: { name: string } };
    if (params?.name === "away") return void response.writeHead(307, { location: "/inside" }).end();
    response.writeHead(200, { "content-type": "text/event-stream" });
    let id = 0;
    const more = () => {
      while (!response.destroyed) {
        id += 1;
        const flood = JSON.stringify({ jsonrpc: "2.0", id: `s${id}`, method: "sampling/createMessage", params: {} });
        if (!response.write(`event: message\ndata: ${flood}\n\n`)) return void response.once("drain", more);
      }
    };
    more();
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  closers.push(async () => {
    http.closeAllConnections();
    http.close();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  const agent = agentWith({ url }, ["mcp:files/ask", "mcp:files/away", "mcp:files/deep", "mcp:files/long"]);
  server.willReply(
    { kind: "stream", calls: [call("files_ask"), call("files_away", "c2")] },
    { kind: "stream", text: ["ok"] },
  );
  const stage = createRunStage({ time: "stands" });
  const [away, ask] = results(await play(agent, turnOf("x"), stage));
  expect(asked).toBeGreaterThan(1_000);
  expect(away).toMatchObject({ toolName: "files_away", status: "error" });
  expect(ask).toMatchObject({
    status: "error",
    content: "The tool's server failed: the answer has more than 16384 lines",
  });
  expect(isRedirected).toBe(false);
  expect(asked).toBeLessThan(6_000);
  const { tools } = JSON.parse(server.requests[0]!.body) as {
    tools: { function: { name: string; description?: string } }[];
  };
  expect(tools.map((tool) => tool.function.name)).toEqual(["files_ask", "files_away", "files_long"]);
  expect(tools[2]!.function.description).toBe("x".repeat(2_047));
});

const INITIALIZED = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "x", version: "1" },
};
const toolOf = (name: string, isReading = true) => ({
  name,
  inputSchema: { type: "object" },
  annotations: { readOnlyHint: isReading },
});
const logOf = (parts: readonly Part[]) => parts.flatMap((part) => (part.type === "log" ? [part.text] : []));
const offered = () =>
  (JSON.parse(server.requests[0]!.body) as { tools: { function: { name: string } }[] }).tools.map(
    ({ function: { name } }) => name,
  );

/** A server over HTTP with these tools; a call is answered with the name of the server and of the tool. */
async function startTools(name: string, ...tools: object[]): Promise<string> {
  return await startHttp((message) => {
    if (message.method === "initialize") return INITIALIZED;
    if (message.method === "tools/list") return { tools };
    const { params } = message as unknown as { params: { name: string } };
    return { content: [{ type: "text", text: `${name}: ${params.name}` }] };
  });
}

test("no tool takes the name of another server's tool, nor its confirmation", async () => {
  const servers = [
    { name: "a", url: await startTools("a", toolOf("b_c", false)) },
    { name: "a_b", url: await startTools("a_b", toolOf("c")) },
  ];
  const agent = agentWith(servers, ["mcp:a_b/*", "mcp:a/*"]);
  const marked = modelNameOf("a_b", "c");
  server.willReply({ kind: "stream", calls: [call("a_b_c"), call(marked, "c2")] }, { kind: "stream", text: ["ok"] });
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  const parts = await play(agent, turnOf("x"), stage);
  expect(offered().toSorted()).toEqual(["a_b_c", marked].toSorted());
  expect(stage.asked).toMatchObject([{ toolCall: { function: { name: "a_b_c" } } }]);
  expect(results(parts).map(({ toolName, content }) => [toolName, content])).toEqual(
    expect.arrayContaining([
      ["a_b_c", "The user rejected this call."],
      [marked, "a_b: c"],
    ]),
  );
});

test("a tool that its server lists twice is offered once, is confirmed if one of both needs it, and is logged", async () => {
  const url = await startTools("files", toolOf("wipe", false), toolOf("wipe"), toolOf("look"), toolOf("look"));
  server.willReply({ kind: "stream", calls: [call("files_wipe")] }, { kind: "stream", text: ["ok"] });
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  const parts = await play(agentWith({ url }), turnOf("x"), stage);
  expect(offered()).toEqual(["files_wipe", "files_look"]);
  expect(results(parts)).toMatchObject([{ content: "The user rejected this call." }]);
  expect(logOf(parts)).toEqual([
    "the MCP server files: it lists the tool wipe more than once",
    "the MCP server files: it lists the tool look more than once",
  ]);
});

test("tools that are too many or too large are left out, and the log says how many", async () => {
  const properties = Object.fromEntries(
    Array.from({ length: 600 }, (_, at) => [`p${at}`, { type: "string", title: "x".repeat(50) }]),
  );
  const large = { type: "object", properties };
  const units = JSON.stringify(large).length;
  const url = await startTools(
    "files",
    ...Array.from({ length: 40 }, (_, at) => ({ ...toolOf(`t${at}`), inputSchema: large })),
    toolOf("n".repeat(300)),
  );
  server.willReply({ kind: "stream", text: ["ok"] });
  const parts = await play(agentWith({ url }), turnOf("x"));
  const kept = Math.floor(1_048_576 / units);
  expect(offered()).toHaveLength(kept);
  expect(logOf(parts)).toEqual([
    `the MCP server files: ${41 - kept} of its tools are left out, because they are too many or too large`,
  ]);
});

test("a list of more than 4 MiB is not read, and an endless list is read until it is full", async () => {
  const many = Array.from({ length: 80_000 }, (_, at) => toolOf(`t${at}`));
  server.willReply({ kind: "stream", text: ["ok"] }, { kind: "stream", text: ["ok"] });
  const large = await play(agentWith({ url: await startTools("files", ...many) }), turnOf("x"));
  expect(logOf(large)[0]).toContain("the answer is larger than 4194304 bytes");
  let pages = 0;
  const url = await startHttp((message) => {
    if (message.method === "initialize") return INITIALIZED;
    pages += 1;
    return { tools: many.slice(pages * 1_000, pages * 1_000 + 300), nextCursor: `page ${pages}` };
  });
  const long = await play(agentWith({ url }), turnOf("x"));
  expect(pages).toBe(1);
  expect(logOf(long)).toEqual([
    "the MCP server files: 44 of its tools are left out, because they are too many or too large",
    "the MCP server files: its list has further pages, which are left out",
  ]);
});

test("the values that a server gets from the environment are in no error, result, description or log line", async () => {
  const env = { BEARER: "Bearer sk-abcdef-123", GIVEN_THERE: "the-given-value" };
  const spoken = "sk-abcdef-123 or Bearer sk-abcdef-123";
  let isBroken = false;
  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (isBroken) return void response.writeHead(500).end(`no access with ${request.headers["authorization"]}`);
    const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString()) as {
      id?: number;
      method: string;
      params?: { name?: string };
    };
    if (id === undefined) return void response.writeHead(202).end();
    const answers: Record<string, object> = {
      initialize: { result: INITIALIZED },
      "tools/list": { result: { tools: [{ ...toolOf("tell"), description: spoken }, toolOf("fail"), toolOf("fall")] } },
    };
    const called = {
      tell: { result: { content: [{ type: "text", text: spoken }] } },
      fail: { error: { code: -32_000, message: `${"x".repeat(1_000)} ${spoken}` } },
      fall: { result: { structuredContent: { token: spoken }, isError: true } },
    }[params?.name ?? ""];
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, ...(answers[method] ?? called) }));
  });
  const url = await listening(http);
  const agent = agentWith({ url, headers_env: { Authorization: "BEARER" } }, ["mcp:files/*"], env);
  const calls = [call("files_tell"), call("files_fail", "c2"), call("files_fall", "c3")];
  server.willReply({ kind: "stream", calls }, { kind: "stream", text: ["ok"] });
  const parts = await play(agent, turnOf("x"));
  expect(results(parts)).toHaveLength(3);
  isBroken = true;
  server.willReply({ kind: "stream", text: ["ok"] });
  const later = await play(agent, turnOf("x"));
  expect(logOf(later)[0]).toContain("no access with [BEARER]");
  const all = JSON.stringify([parts, later, server.requests.map(({ body }) => body)]);
  expect(all).not.toContain("abcdef");
  expect(all).toContain("[BEARER] or [BEARER]");
});

async function startHttp(answer: (message: { method: string }) => object, tokens: unknown[] = []): Promise<string> {
  const http: Server = createServer(async (request, response) => {
    tokens.push(request.headers.authorization);
    if (request.method !== "POST") return void response.writeHead(405).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString()) as { id?: number; method: string };
    if (message.id === undefined) return void response.writeHead(202).end();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: answer(message) }));
  });
  return await listening(http);
}

async function listening(http: Server): Promise<string> {
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  closers.push(async () => {
    http.closeAllConnections();
    http.close();
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}
