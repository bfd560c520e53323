import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
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
import { CACHED } from "../../support/agents/programs.ts";
import { createRunStage, ofType, play, textOf, turnOf } from "../../support/agents/run-stage.ts";
import { testRegistry } from "../../support/agents/test-registry.ts";
import { RealClock } from "../../support/catalogs/watched-file.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";
import { json, type ReceivedRequest, SmallServer } from "../../support/servers/small-server.ts";

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
  const env = { ...process.env, GIVEN_THERE: "given", SECRET: "never", ...more };
  const registry = testRegistry({ catalog: () => reading.catalog, env });
  closers.push(() => registry.close());
  return registry.find("master" as AgentId)!;
}

const program = (...args: string[]) => ({
  command: process.execPath,
  args: ["--no-warnings", PROGRAM, ...args],
  env: ["GIVEN=GIVEN_THERE"],
  set: { ...CACHED, TAG: tag },
});
const call = (name: string, id = "c1") => ({ id, name, arguments: '{"text":"hi"}' });
/** The model calls these tools, and then says "ok". */
const willCall = (...names: string[]) =>
  server.willReply(
    { kind: "stream", calls: names.map((name, at) => call(name, `c${at + 1}`)) },
    { kind: "stream", text: ["ok"] },
  );
const results = (parts: readonly Part[]) => ofType(parts, "tool-result");
const logOf = (parts: readonly Part[]) => ofType(parts, "log").map(({ text }) => text);

test("a server's tools see only the variables that are listed for them, tell each kind of content, and end with the turn", async () => {
  willCall("files_echo", "files_fail", "files_open");
  const parts = await play(agentWith(program()), turnOf("x"));
  const opened = "hi from a file\n[resource file:///b.bin]\n[resource_link file:///c.txt]\n[image]";
  expect(results(parts)).toMatchObject([
    { toolName: "files_echo", content: "hi given -", status: "success" },
    { toolName: "files_fail", content: "it went wrong", status: "error" },
    { toolName: "files_open", content: opened, status: "success" },
  ]);
  expect(textOf(parts)).toBe("ok");
  await gone(tag);
});

test("a tool that may write is confirmed, unless the operator configured otherwise", async () => {
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  const { url } = await startTools("files", { name: "write", inputSchema: { type: "object" } });
  willCall("files_write");
  const parts = await play(agentWith({ url }), turnOf("x"), stage);
  expect(results(parts)).toMatchObject([{ status: "error", content: "The user rejected this call." }]);

  willCall("files_write");
  const trusted = agentWith({ url }, [{ name: "mcp:files/write", confirm: false }]);
  expect(results(await play(trusted, turnOf("x")))).toMatchObject([{ content: "files: write" }]);
});

test.each([
  ["dies during a call", "files_die", expect.any(String)],
  ["sends notifications without end", "files_rant", "The tool's server failed: Connection closed"],
])("a program that %s fails that call and ends with the turn, which continues", async (_, name, content) => {
  willCall(name);
  const parts = await play(agentWith(program()), turnOf("x"), createRunStage({ time: "stands" }));
  expect(results(parts)).toMatchObject([{ status: "error", content }]);
  expect(textOf(parts)).toBe("ok");
  await gone(tag);
});

test("a call that hangs ends at its timeout, and the processes of the server end with the turn", async () => {
  const agent = agentWith(program(), [{ name: "mcp:files/*", timeout: "200ms" }]);
  willCall("files_hang");
  const stage = createRunStage({ time: "stands" });
  const run = play(agent, turnOf("x"), stage);
  await running(tag, 2);
  stage.advance(200);
  expect(results(await run)).toMatchObject([{ status: "error", content: "files_hang took longer than 200 ms." }]);
  await gone(tag);
});

test.each([
  ["does not answer", "silent", "1s"],
  ["writes without end", "flood", "1s"],
  ["prints without end, before its time is over", "chatter", "10m"],
])("a turn continues without the tools of a server that %s, and leaves no process", async (_, how, connect_timeout) => {
  server.willReply({ kind: "stream", text: ["Without tools."] });
  const parts = await play(agentWith({ ...program(how), connect_timeout }), turnOf("x"));
  expect(parts[0]).toMatchObject({ type: "log", stream: "stderr" });
  expect(logOf(parts)[0]).toContain("the MCP server files cannot be used");
  expect(textOf(parts)).toBe("Without tools.");
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
  const giveUp = new AbortController();
  const started: Promise<ChildProgram>[] = [];
  const start = (toStart: ProgramStart) => {
    giveUp.abort(new Error("it is over"));
    started.push(supervisor.start(toStart));
    return started[0]!;
  };
  const programs = {
    supervisor: { start } as unknown as Supervisor,
    clock,
    env: process.env,
    permits: new Semaphore(1),
  };
  // It does not end with its input.
  const args = ["-e", "setInterval(() => {}, 60_000)"];
  const entry = McpServer.parse({ name: "files", ...program(), args });
  const settings = { choose: () => undefined, signal: giveUp.signal };
  await expect(connectMcp(entry, settings, programs)).rejects.toThrow("it is over");
  await (await started[0]!).ended;
  await gone(tag);
});

test("a server over HTTP that floods the client with requests, or redirects it, occupies no other run", async () => {
  const properties = JSON.parse(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`);
  const tools = [
    toolOf("ask"),
    toolOf("away"),
    { ...toolOf("deep"), inputSchema: { type: "object", properties } },
    { ...toolOf("long"), description: `${"x".repeat(2_047)}\u{1F697}` },
  ];
  const { url, heard } = await startHttp(({ method, params }, response, request) => {
    if (method === "tools/list") return { result: { tools } };
    if (request.method === "POST" && method !== "tools/call") return;
    if (params?.name === "away") return void response.writeHead(307, { location: "/inside" }).end();
    response.writeHead(200, { "content-type": "text/event-stream" });
    let id = 0;
    const more = () => {
      while (!response.destroyed) {
        id += 1;
        const flood = JSON.stringify({ jsonrpc: "2.0", id: `s${id}`, method: "sampling/createMessage", params: {} });
        // Comments are lines too, and cost the client less than a request.
        if (!response.write(`event: message\ndata: ${flood}\n\n${":\n".repeat(9)}`))
          return void response.once("drain", more);
      }
    };
    more();
  });
  const agent = agentWith({ url }, ["mcp:files/ask", "mcp:files/away", "mcp:files/deep", "mcp:files/long"]);
  willCall("files_ask", "files_away");
  const [away, ask] = results(await play(agent, turnOf("x"), createRunStage({ time: "stands" })));
  expect(heard.length).toBeGreaterThan(100);
  expect(away).toMatchObject({ toolName: "files_away", status: "error" });
  const content = "The tool's server failed: the answer has more than 16384 lines";
  expect(ask).toMatchObject({ status: "error", content });
  expect(heard.filter((request) => request.url === "/inside")).toEqual([]);
  expect(heard.length).toBeLessThan(1_500);
  expect(namesOffered()).toEqual(["files_ask", "files_away", "files_long"]);
  expect(offered()[2]!.description).toBe("x".repeat(2_047));
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
/** The tools that the model was offered. */
function offered(): { name: string; description?: string }[] {
  const { tools } = JSON.parse(server.requests[0]!.body) as { tools: { function: { name: string } }[] };
  return tools.map(({ function: described }) => described);
}
const namesOffered = () => offered().map(({ name }) => name);

type Answer = (message: Message, response: ServerResponse, request: ReceivedRequest) => object | undefined;
interface Message {
  id?: number;
  method?: string;
  params?: { name: string };
}

/** A server over HTTP. `answer` returns the result or the error of a message, or answers by itself. */
async function startHttp(answer: Answer): Promise<{ url: string; heard: readonly ReceivedRequest[] }> {
  const http = await SmallServer.start((response, request) => {
    const message = JSON.parse(request.body || "{}") as Message;
    const outcome = answer(message, response, request);
    if (response.headersSent) return;
    const said = outcome ?? (message.method === "initialize" && { result: INITIALIZED });
    if (said) json({ jsonrpc: "2.0", id: message.id, ...said })(response, request);
    else response.writeHead(request.method === "POST" ? 202 : 405).end();
  });
  closers.push(() => http[Symbol.asyncDispose]());
  return { url: `${http.url}/mcp`, heard: http.heard };
}

/** A server over HTTP with these tools; a call is answered with the name of the server and of the tool. */
const startTools = (server: string, ...tools: object[]) =>
  startHttp(({ method, params }) => {
    if (method === "tools/list") return { result: { tools } };
    return params?.name ? { result: { content: [{ type: "text", text: `${server}: ${params.name}` }] } } : undefined;
  });

test("no tool takes the name of another server's tool, nor its confirmation", async () => {
  const servers = [
    { name: "a", url: (await startTools("a", toolOf("b_c", false))).url },
    { name: "a_b", url: (await startTools("a_b", toolOf("c"))).url },
  ];
  const agent = agentWith(servers, ["mcp:a_b/*", "mcp:a/*"]);
  const marked = modelNameOf("a_b", "c");
  willCall("a_b_c", marked);
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  const parts = await play(agent, turnOf("x"), stage);
  expect(namesOffered().toSorted()).toEqual(["a_b_c", marked].toSorted());
  expect(stage.asked).toMatchObject([{ toolCall: { function: { name: "a_b_c" } } }]);
  const outcomes = Object.fromEntries(results(parts).map(({ toolName, content }) => [toolName, content]));
  expect(outcomes).toEqual({ a_b_c: "The user rejected this call.", [marked]: "a_b: c" });
});

test("a tool that its server lists twice is offered once, is confirmed if one of both needs it, and is logged", async () => {
  const { url } = await startTools("files", toolOf("wipe", false), toolOf("wipe"), toolOf("look"), toolOf("look"));
  willCall("files_wipe");
  const stage = createRunStage();
  stage.willAnswer({ kind: "confirmation", verdict: "reject" });
  const parts = await play(agentWith({ url }), turnOf("x"), stage);
  expect(namesOffered()).toEqual(["files_wipe", "files_look"]);
  expect(results(parts)).toMatchObject([{ content: "The user rejected this call." }]);
  expect(logOf(parts)).toEqual([
    "the MCP server files: it lists the tool wipe more than once",
    "the MCP server files: it lists the tool look more than once",
  ]);
});

const leftOut = (count: number) =>
  `the MCP server files: ${count} of its tools are left out, because they are too many or too large`;

test("tools that are too many or too large are left out, and the log says how many", async () => {
  const properties = Object.fromEntries(
    Array.from({ length: 600 }, (_, at) => [`p${at}`, { type: "string", title: "x".repeat(50) }]),
  );
  const large = { type: "object", properties };
  const many = Array.from({ length: 40 }, (_, at) => ({ ...toolOf(`t${at}`), inputSchema: large }));
  const { url } = await startTools("files", ...many, toolOf("n".repeat(300)));
  server.willReply({ kind: "stream", text: ["ok"] });
  const parts = await play(agentWith({ url }), turnOf("x"));
  const kept = Math.floor(1_048_576 / JSON.stringify(large).length);
  expect(offered()).toHaveLength(kept);
  expect(logOf(parts)).toEqual([leftOut(41 - kept)]);
});

test("a list of more than 4 MiB is not read, and an endless list is read until it is full", async () => {
  const many = Array.from({ length: 80_000 }, (_, at) => toolOf(`t${at}`));
  server.willReply({ kind: "stream", text: ["ok"] }, { kind: "stream", text: ["ok"] });
  const large = await play(agentWith({ url: (await startTools("files", ...many)).url }), turnOf("x"));
  expect(logOf(large)[0]).toContain("the answer is larger than 4194304 bytes");
  let pages = 0;
  const { url } = await startHttp(({ method }) => {
    if (method !== "tools/list") return;
    pages += 1;
    return { result: { tools: many.slice(pages * 1_000, pages * 1_000 + 300), nextCursor: `page ${pages}` } };
  });
  const long = await play(agentWith({ url }), turnOf("x"));
  expect(pages).toBe(1);
  const further = "the MCP server files: its list has further pages, which are left out";
  expect(logOf(long)).toEqual([leftOut(44), further]);
});

test("a server over HTTP gets its header from the environment, whose values are in no error, result, description or log line", async () => {
  const env = { BEARER: "Bearer sk-abcdef-123", GIVEN_THERE: "the-given-value" };
  const spoken = "sk-abcdef-123 or Bearer sk-abcdef-123";
  let isBroken = false;
  const tools = [{ ...toolOf("tell"), description: spoken }, toolOf("fail"), toolOf("fall")];
  const outcomes: Record<string, object> = {
    tell: { result: { content: [{ type: "text", text: spoken }] } },
    fail: { error: { code: -32_000, message: `${"x".repeat(1_000)} ${spoken}` } },
    fall: { result: { structuredContent: { token: spoken }, isError: true } },
  };
  const { url, heard } = await startHttp(({ method, params }, response, { headers }) => {
    if (isBroken) return void response.writeHead(500).end(`no access with ${headers.authorization}`);
    return method === "tools/list" ? { result: { tools } } : outcomes[params?.name ?? ""];
  });
  const agent = agentWith({ url, headers_env: { Authorization: "BEARER" } }, ["mcp:files/*"], env);
  willCall("files_tell", "files_fail", "files_fall");
  const parts = await play(agent, turnOf("x"));
  expect(
    results(parts)
      .map(({ status }) => status)
      .toSorted(),
  ).toEqual(["error", "error", "success"]);
  expect(new Set(heard.map(({ headers }) => headers.authorization))).toEqual(new Set([env.BEARER]));
  isBroken = true;
  server.willReply({ kind: "stream", text: ["ok"] });
  const later = await play(agent, turnOf("x"));
  expect(logOf(later)[0]).toContain("no access with [BEARER]");
  const all = JSON.stringify([parts, later, server.requests.map(({ body }) => body)]);
  expect(all).not.toContain("abcdef");
  expect(all).toContain("[BEARER] or [BEARER]");
});
