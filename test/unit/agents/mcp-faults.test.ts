import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Supervisor } from "../../../src/agents/process/supervisor.ts";
import { Semaphore } from "../../../src/agents/semaphore.ts";
import { connectMcp } from "../../../src/agents/tools/mcp/mcp-server.ts";
import { ToolBox } from "../../../src/agents/tools/tool-box.ts";
import { McpServer } from "../../../src/config/catalog/tool-entry.ts";
import { createRunStage, turnOf } from "../../support/agents/run-stage.ts";
import { RealClock } from "../../support/catalogs/watched-file.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { json, SmallServer } from "../../support/servers/small-server.ts";

/** MCP servers that break the protocol, and what a call of theirs ends with. */
const PROGRAM = fileURLToPath(new URL("../../support/agents/mcp-faulty-server.ts", import.meta.url));
const TIMEOUT_MS = 1_000;

interface Message {
  id?: number;
  method: string;
  params?: { name?: string; requestId?: number };
}

const INITIALIZED = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "x", version: "1" },
};

/** Call the tools of a server. Time stands, so that a call without an end times out only if the test lets it. */
async function openTools(entry: object, atEnd: (close: () => Promise<void>) => void = onTestFinished) {
  const clock = new RealClock();
  const supervisor = new Supervisor({ clock });
  const end = new AbortController();
  const connection = await connectMcp(
    McpServer.parse({ name: "s", ...entry }),
    { choose: () => ({ confirm: false, timeoutMs: TIMEOUT_MS }), signal: end.signal },
    { supervisor, clock, env: process.env, permits: new Semaphore(1) },
  );
  atEnd(async () => {
    await connection.close();
    await supervisor.close();
  });
  const stage = createRunStage({ time: "stands" });
  const box = new ToolBox({
    tools: connection.tools,
    turn: turnOf("x"),
    control: stage.control,
    approvals: { has: () => true, askUser: async () => ({ isApproved: true }) },
    emit: async () => {},
    onFault: (fault) => {
      throw fault;
    },
  });
  const call = (name: string) => box.call(name, `s_${name}`, {});
  return { call, stage, connection };
}

type Answer = (response: ServerResponse, id: number, say: (...messages: object[]) => void) => unknown;

/** A server over HTTP whose tools answer as given. */
async function startServer(tools: Record<string, Answer>) {
  const received: Message[] = [];
  const left: string[] = [];
  const heads: string[] = [];
  let sessions = 0;
  let isLost = false;
  let keepsSessions = true;
  const http = await SmallServer.start((response, request) => {
    const message = JSON.parse(request.body || '{"method":"none"}') as Message;
    received.push(message);
    const { "mcp-session-id": session, "mcp-protocol-version": version } = request.headers;
    heads.push([request.method, message.method, session, version].join(" "));
    const { id, method, params } = message;
    if (session !== undefined && (isLost || session !== `session-${sessions}`)) {
      return json({ error: { code: -32_001 } }, 404)(response, request);
    }
    if (method === "initialize") {
      sessions += 1;
      isLost = !keepsSessions;
    }
    if (id === undefined) return void response.writeHead(202).end();
    const name = params?.name ?? "";
    if (method === "tools/call") {
      response.once("close", () => left.push(name));
      const say = (...messages: object[]) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.flushHeaders();
        for (const each of messages) response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...each })}\n\n`);
      };
      return tools[name]!(response, id, say);
    }
    const listed = Object.keys(tools).map((each) => ({ name: each, inputSchema: { type: "object" } }));
    const result = method === "initialize" ? INITIALIZED : { tools: listed };
    json({ jsonrpc: "2.0", id, result }, 200, { "mcp-session-id": `session-${sessions}` })(response, request);
  });
  onTestFinished(() => http[Symbol.asyncDispose]());
  const cancelled = () => received.filter(({ method }) => method === "notifications/cancelled");
  /** Lose the session. @param keeps whether the server keeps the next one */
  const lose = (keeps = true) => {
    isLost = true;
    keepsSessions = keeps;
  };
  return { entry: { url: `${http.url}/mcp` }, received, left, heads, cancelled, lose };
}

const said = (text: string) => ({ result: { content: [{ type: "text", text }] } });
/** Sends these messages, and ends the stream. */
const sending =
  (messagesOf: (id: number) => object[]): Answer =>
  (response, id, say) => {
    say(...messagesOf(id));
    response.end();
  };
const good = sending((id) => [{ id, ...said("good") }]);
const GOOD = { content: "good", isError: false };
const failed = (reason: string) => ({ content: `The tool's server failed: ${reason}`, isError: true });

describe("a server over HTTP", () => {
  test("a call whose stream stays open and silent ends at its timeout, and is cancelled at the server", async () => {
    const { entry, received, left, cancelled } = await startServer({ silent: (_, __, say) => say(), good });
    const { call, stage } = await openTools(entry);
    const calling = call("silent");
    await expect.poll(() => received.at(-1)!.method).toBe("tools/call");
    const { id } = received.at(-1)!;
    stage.advance(TIMEOUT_MS);
    expect(await calling).toEqual({ content: `s_silent took longer than ${TIMEOUT_MS} ms.`, isError: true });
    await expect.poll(cancelled).toMatchObject([{ params: { requestId: id } }]);
    await expect.poll(() => left).toEqual(["silent"]);
    expect(await call("good")).toEqual(GOOD);
    expect(cancelled()).toHaveLength(1);
  });

  test("a server is told that a call is cancelled also if the turn ends at once, and waits for no such notice", async () => {
    const { entry, received, cancelled } = await startServer({ silent: (_, __, say) => say() });
    const { call, stage, connection } = await openTools(entry);
    const calling = call("silent").catch(() => {});
    await expect.poll(() => received.at(-1)!.method).toBe("tools/call");
    stage.abort();
    await connection.close();
    await calling;
    await expect.poll(cancelled).toHaveLength(1);
  });

  test("a server that keeps sessions gets the session and the version in each request, and the session's end", async () => {
    const { entry, heads } = await startServer({ good });
    const { call, connection } = await openTools(entry);
    expect(await call("good")).toEqual(GOOD);
    await connection.close();
    const asked = ["POST notifications/initialized", "POST tools/list", "POST tools/call", "DELETE none"];
    await expect.poll(() => heads.slice(1)).toEqual(asked.map((each) => `${each} session-1 2025-06-18`));
    expect(heads[0]).toMatch(/^POST initialize {2}\d/);
  });

  test("calls to a server that lost its session are made in a new one, which they begin once", async () => {
    const { entry, heads, lose } = await startServer({ good });
    const { call, connection } = await openTools(entry);
    expect(await call("good")).toEqual(GOOD);
    lose();
    const before = heads.length;
    expect(await Promise.all([call("good"), call("good")])).toEqual([GOOD, GOOD]);
    const begun = ["POST initialize  2025-06-18", "POST notifications/initialized session-2 2025-06-18"];
    const calls = Array(2).fill("POST tools/call session-2 2025-06-18");
    expect(heads.slice(before).filter((head) => !head.includes("session-1"))).toEqual([...begun, ...calls]);
    await connection.close();
    await expect.poll(() => heads.at(-1)).toBe("DELETE none session-2 2025-06-18");
  });

  test("a call to a server that loses each session fails", async () => {
    const { entry, heads, lose } = await startServer({ good });
    const { call } = await openTools(entry);
    lose(false);
    expect((await call("good")).isError).toBe(true);
    expect(heads.filter((head) => head.startsWith("POST tools/call"))).toHaveLength(2);
  });

  const noAnswer = failed("its response has no answer to the request");
  const noEnd = failed("its stream ended without an answer");
  const JSON_TYPE = { "content-type": "application/json" };
  test.each<[string, Answer, object]>([
    ["ends its stream without an answer", sending(() => [{ method: "notifications/progress", params: {} }]), noEnd],
    [
      "breaks its stream off",
      (response, _, say) => {
        say();
        setImmediate(() => response.destroy());
      },
      failed("its stream broke off before the answer"),
    ],
    ["accepts the request without an answer", (response) => response.writeHead(202).end(), noAnswer],
    [
      "answers another request only",
      sending((id) => [id + 1_000, `${id}`, `0x${id}`].map((each) => ({ id: each, ...said("bad") }))),
      noEnd,
    ],
    [
      "answers with JSON under an id of another type",
      (response, id) =>
        response.writeHead(200, JSON_TYPE).end(JSON.stringify({ jsonrpc: "2.0", id: `${id}`, ...said("bad") })),
      noAnswer,
    ],
    [
      "answers unknown requests first, and twice",
      sending((id) => [
        { id: 1_000, ...said("bad") },
        { id, ...said("good") },
        { id, ...said("bad") },
      ]),
      GOOD,
    ],
    [
      "answers with neither a result nor an error",
      (_, id, say) => say({ id }),
      failed("its answer has neither a result nor an error"),
    ],
    ["answers with what is no JSON", (response) => response.writeHead(200, JSON_TYPE).end("{"), noAnswer],
    [
      "sends its answer in lines of an event without end",
      (response, _, say) => {
        say();
        for (let line = 0; line < 9; line += 1) response.write(`data: ${"x".repeat(500_000)}\n`);
      },
      failed("its stream has an event of more than 4194304 characters"),
    ],
  ])("a call of a server that %s fails or succeeds at once, and so does the next", async (_, answer, outcome) => {
    const { entry } = await startServer({ bad: answer, good });
    const { call } = await openTools(entry);
    expect(await call("bad")).toEqual(outcome);
    expect(await call("good")).toEqual(GOOD);
  });

  test("the answer to one call never answers another that is under way", async () => {
    const waiting = Promise.withResolvers<void>();
    let other = 0;
    const { entry } = await startServer({
      slow: async (response, id, say) => {
        other = id;
        await waiting.promise;
        say({ id, ...said("slow") });
        response.end();
      },
      thief: sending(() => [{ id: other, ...said("stolen") }]),
    });
    const { call } = await openTools(entry);
    const slow = call("slow");
    await expect.poll(() => other).toBeGreaterThan(0);
    expect(await call("thief")).toEqual(noEnd);
    waiting.resolve();
    expect(await slow).toEqual({ content: "slow", isError: false });
  });
});

describe("a server that is a program", () => {
  const atEnd = atEndOfSuite();
  let tools: Awaited<ReturnType<typeof openTools>>;
  beforeAll(async () => {
    tools = await openTools({ command: process.execPath, args: ["--no-warnings", PROGRAM] }, atEnd);
  });

  test("a call that times out is cancelled at the program, and its late answer harms no other call", async () => {
    const { call, stage } = tools;
    const calling = call("late");
    await expect.poll(async () => (await call("seen")).content).toContain("late");
    stage.advance(TIMEOUT_MS);
    expect(await calling).toEqual({ content: `s_late took longer than ${TIMEOUT_MS} ms.`, isError: true });
    expect((await call("cancelled")).content).toBe("late");
    expect(await call("good")).toEqual(GOOD);
  });

  test.each([
    ["answers unknown ids, and an id of another type, first", "strange", GOOD],
    ["answers twice", "twice", GOOD],
    ["answers with neither a result nor an error", "empty", failed("its answer has neither a result nor an error")],
    ["answers with JSON that is too deep", "deep", failed("its answer is nested too deeply")],
  ])("a call of a program that %s ends at once, and so does the next", async (_, name, outcome) => {
    expect(await tools.call(name)).toEqual(outcome);
    expect(await tools.call("good")).toEqual(GOOD);
  });
});
