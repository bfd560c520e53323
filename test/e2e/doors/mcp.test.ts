import { createMCPClient } from "@ai-sdk/mcp";
import { afterAll, expect, test } from "vitest";
import { OWNER_STREAMS } from "../../../src/gateway/streams/open-streams.ts";
import { E2E_AGENTS, scripted } from "../../support/catalogs/e2e-catalog.ts";
import { startGuarded } from "../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** The AI SDK's MCP client with a real node. */
const replies = [{ ask: { question: "Which one?", options: ["a", "b"] }, say: ["♪ "], delay: "1h", repeat: 2 }];
const player = scripted("player", {}, { replies });
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, player] }, afterAll);
const { node: guarded, ann, bob } = await startGuarded();

/** The fields of all results. A field that a result lacks is undefined in spite of its type. */
interface Result {
  sessionId: string;
  agents: object[];
  asked: { requestId: string };
  seq: number;
  decisions: { outcome: string }[];
}

async function connect(where = node, headers: Record<string, string> = {}) {
  const client = await createMCPClient({
    transport: { type: "http", url: `${where.url}/mcp`, headers },
    initializationOptions: { timeout: 10_000 },
  });
  const tools = await client.tools();
  return {
    client,
    tools,
    async call(name: string, input: object) {
      const result = (await tools[name]!.execute(input as never, {
        toolCallId: "1",
        messages: [],
        context: undefined as never,
      })) as { structuredContent: Result; content: { text: string }[]; isError?: boolean };
      expect(JSON.parse(result.content[0]!.text)).toEqual(result.structuredContent);
      return { isError: result.isError === true, ...result.structuredContent };
    },
  };
}

/** The same, with a session of this agent on a floor of its own. */
async function connectTo(agentId: string) {
  const { call } = await connect();
  return { call, sessionId: (await call("ask_for_floor", { agentId })).sessionId };
}

const OPEN = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
/** A message of a client that is made of raw requests. */
const postRaw = (message: object, headers: Record<string, string>, signal?: AbortSignal) => {
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  return fetch(`${node.url}/mcp`, { method: "POST", headers, body, ...(signal && { signal }) });
};

test("the MCP server offers the commands as tools, and marks those that only read", async () => {
  const { client } = await connect();
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual([
    ...["list_agents", "ask_for_floor", "speak", "read_reply", "answer", "pause", "resume", "abort"],
    ...["give_up_floor", "read_floor", "what_if"],
  ]);
  const reading = tools.filter(({ annotations }) => annotations?.readOnlyHint).map(({ name }) => name);
  expect(reading).toEqual(["list_agents", "read_reply", "read_floor", "what_if"]);
  await client.close();
});

test("speak says what was heard of the reply before, and its result which position counts", async () => {
  const { call } = await connect();
  const { sessionId } = await call("ask_for_floor", { agentId: "general", userId: new E2eClient(node).userId });
  expect(await call("speak", { sessionId, content: "hello" })).not.toHaveProperty("played");
  const tooLarge = await call("speak", { sessionId, content: "hello", played: 99 });
  expect(tooLarge).toMatchObject({ isError: true, error: { code: "bad_request" } });
  expect(await call("speak", { sessionId, content: "hello", played: 5 })).toMatchObject({ played: 5 });
  const replies = await node.messages(sessionId, "assistant");
  expect(replies.map(({ playedUpTo }) => playedUpTo)).toEqual([5, undefined]);
});

test("the MCP server lets a model ask for the floor, speak, pause, resume, and read why", async () => {
  const { call } = await connect();
  const { userId } = new E2eClient(node);
  const { agents } = await call("list_agents", {});
  expect(agents).toContainEqual(expect.objectContaining({ id: "music", priority: 20 }));
  const music = await call("ask_for_floor", { agentId: "music", userId });
  expect(music).toMatchObject({ state: "active", decision: { outcome: "granted" } });
  const { sessionId } = music;
  const spoken = { text: "Hello there.", isRunning: false };
  expect(await call("speak", { sessionId, content: "hello" })).toMatchObject(spoken);
  expect(await call("pause", { sessionId })).toMatchObject({ state: "paused" });
  const phone = await call("ask_for_floor", { agentId: "phone", userId });
  expect(await call("what_if", { agentId: "music", userId })).toMatchObject({ decision: { outcome: "rejected" } });
  const error = { code: "rejected", decision: { say: expect.any(String) } };
  expect(await call("resume", { sessionId })).toMatchObject({ isError: true, error });
  const floor = await call("read_floor", { userId });
  expect(floor).toMatchObject({
    holder: { sessionId: phone.sessionId, agentId: "phone" },
    paused: [{ sessionId, agentId: "music" }],
  });
  expect(floor.decisions.map(({ outcome }) => outcome)).toContain("rejected");
  const stale = { sessionId: phone.sessionId, ifSeq: phone.seq };
  await call("pause", { sessionId: phone.sessionId });
  const gone = { isError: true, error: { code: "stale", session: { state: "paused" } } };
  expect(await call("give_up_floor", stale)).toMatchObject(gone);
  expect(await call("give_up_floor", { sessionId: phone.sessionId })).toMatchObject({ state: "archived" });
  expect(await call("resume", { sessionId })).toMatchObject({ state: "active" });
});

test("the MCP server waits for a reply as long as requested, and the run continues afterwards", async () => {
  const { call, sessionId } = await connectTo("general");
  const begun = await call("speak", { sessionId, content: "count", waitSeconds: 0 });
  expect(begun).toMatchObject({ isRunning: true });
  expect(await call("read_reply", { sessionId })).toMatchObject({ text: "tick ".repeat(40), isRunning: false });
  expect(await call("read_reply", { sessionId })).toEqual({ isError: false, sessionId, isRunning: false });
  await call("speak", { sessionId, content: "play", waitSeconds: 0 });
  expect(await call("abort", { sessionId })).toMatchObject({ aborted: true });
  expect(await call("abort", { sessionId })).toMatchObject({ aborted: false });
});

test("an MCP client's session that its user moves is spoken to, read and aborted by its former id, and a command names the new one", async () => {
  const { call } = await connect();
  const { userId } = new E2eClient(node);
  const { sessionId } = await call("ask_for_floor", { agentId: "general", userId });
  const { session: moved } = await accepted(node.post(`/session/${sessionId}/move`, { zone: "rear" }));
  expect(await call("speak", { sessionId, content: "play", waitSeconds: 0 })).toMatchObject({ sessionId: moved.id });
  expect(await call("read_reply", { sessionId, waitSeconds: 0 })).toMatchObject({ isRunning: true });
  expect(await call("abort", { sessionId })).toMatchObject({ aborted: true });
  const error = { code: "session_archived", replacedBy: moved.id };
  expect(await call("pause", { sessionId })).toMatchObject({ isError: true, error });
});

test("the MCP server ends a reply with a question or a confirmation, and continues with its answer", async () => {
  const { call, sessionId } = await connectTo("general");
  const asked = await call("speak", { sessionId, content: "ask" });
  expect(asked).toMatchObject({ asked: { kind: "question", question: "Which one?" }, isRunning: true });
  const { requestId } = asked.asked;
  expect(await call("answer", { sessionId, requestId, response: "b" })).toMatchObject({ text: "You chose b." });
  const confirmed = await call("speak", { sessionId, content: "delete" });
  const approve = () => call("answer", { sessionId, requestId: confirmed.asked.requestId, verdict: "approve" });
  expect(await approve()).toMatchObject({ text: "Deleted." });
  expect(await approve()).toMatchObject({ error: { code: "interaction_not_found" } });
});

test("a reply is read on although its question was answered before", async () => {
  const { call, sessionId } = await connectTo("player");
  const { requestId } = (await call("speak", { sessionId, content: "hello" })).asked;
  const going = { sessionId, isRunning: true };
  expect(await call("answer", { sessionId, requestId, response: "b", waitSeconds: 0 })).toMatchObject(going);
  const read = call("read_reply", { sessionId, waitSeconds: 600 });
  await expect.poll(openStreams).toBe(1);
  await call("abort", { sessionId });
  expect(await read).toMatchObject({ isRunning: false, isCancelled: true });
});

test("the MCP server returns failures as results that a model can read", async () => {
  const { call, sessionId } = await connectTo("general");
  const failing: [name: string, input: object, code: string][] = [
    ["speak", { sessionId, content: "refused" }, "provider_refused"],
    ["speak", { sessionId: "nobody", content: "hello" }, "session_not_found"],
    ["ask_for_floor", { agentId: "nobody" }, "agent_not_found"],
    ["read_floor", {}, "bad_request"],
  ];
  for (const [name, input, code] of failing) {
    expect(await call(name, input), code).toMatchObject({ isError: true, error: { code } });
  }
});

test("only callers with a token may call the MCP server, and each sees its own sessions", async () => {
  await expect(connect(guarded)).rejects.toThrow(/401|authent/i);
  const [hers, his] = [await connect(guarded, ann.headers), await connect(guarded, bob.headers)];
  await accepted(ann.post("/floor/u%3Aann/stop-all"));
  const music = { agentId: "music", userId: "ann" };
  const { sessionId } = await hers.call("ask_for_floor", music);
  const refusals: [name: string, input: object, code: string][] = [
    ["speak", { sessionId, content: "hello" }, "session_not_found"],
    ["pause", { sessionId }, "session_not_found"],
    ["read_floor", { userId: "ann" }, "not_found"],
    ["ask_for_floor", music, "forbidden"],
  ];
  for (const [name, input, code] of refusals) expect(await his.call(name, input)).toMatchObject({ error: { code } });
  expect(await hers.call("read_floor", {})).toMatchObject({ holder: { sessionId } });
});

test("the MCP server takes one message in a request, so that no batch passes the limits of requests", async () => {
  const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_agents", arguments: {} } };
  const answer = await node.send("POST", "/mcp", OPEN, JSON.stringify([message, { ...message, id: 2 }]));
  expect(answer).toMatchObject({ status: 400, body: { errorCode: "bad_request" } });
});

test("the MCP server answers an address in absolute form, and keeps no session that a caller names", async () => {
  const { host } = new URL(node.url);
  const headers = { Host: host, ...OPEN, "Mcp-Session-Id": "another-caller's" };
  const message = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const answer = await node.send("POST", `${node.url}/mcp`, headers, message);
  expect([answer.status, answer.headers["mcp-session-id"]]).toEqual([200, undefined]);
});

test("the MCP server refuses pages of foreign origins and other methods", async () => {
  const message = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  for (const headers of [{ Origin: "https://evil.example" }, { Host: "evil.example" }]) {
    expect((await node.post("/mcp", message, { headers })).status).toBe(403);
  }
  expect((await node.send("GET", "/mcp", { Accept: "text/event-stream" })).status).toBe(405);
});

const openStreams = async () => Number(/^interlock_connections\S* (\d+)/m.exec((await node.get("/metrics")).text)![1]);

/** A client of its own, with raw requests. */
async function connectRaw() {
  const headers: Record<string, string> = { ...OPEN };
  const post = (message: object, signal?: AbortSignal) => postRaw(message, headers, signal);
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const begun = await post({ id: 0, method: "initialize", params });
  headers["Mcp-Session-Id"] = begun.headers.get("mcp-session-id")!;
  await begun.text();
  const call = async (id: number | string, name: string, input: object, signal?: AbortSignal) =>
    (await post({ id, method: "tools/call", params: { name, arguments: input } }, signal)).text();
  const cancel = async (requestId: unknown) =>
    (await post({ method: "notifications/cancelled", params: { requestId } })).status;
  return { headers, call, cancel };
}

/** A session that is speaking without end, and the answer of the call that makes it speak. */
async function speaking(client: Awaited<ReturnType<typeof connectRaw>>, id: number, signal?: AbortSignal) {
  const { sessionId } = await connectTo("general");
  const said = client.call(id, "speak", { sessionId, content: "play" }, signal);
  const isRunning = async () => {
    const { session } = (await node.get(`/session/${sessionId}`)).body;
    return session.activity === "running" || session.activity === "waiting";
  };
  await expect.poll(isRunning).toBe(true);
  return { said, sessionId, isRunning };
}

test("a client that cancels its call gets no answer, and the run of that call alone is aborted", async () => {
  const [one, other] = [await connectRaw(), await connectRaw()];
  expect(one.headers["Mcp-Session-Id"]).not.toBe(other.headers["Mcp-Session-Id"]);
  const first = await speaking(one, 1);
  const second = await speaking(other, 1);
  for (const id of ["1", 2, undefined]) expect(await one.cancel(id)).toBe(202);
  expect(await first.isRunning()).toBe(true);
  expect(await one.cancel(1)).toBe(202);
  expect(await one.cancel(1)).toBe(202);
  expect(await first.said).not.toContain("data:");
  await expect.poll(first.isRunning).toBe(false);
  expect(await second.isRunning()).toBe(true);
  expect(await other.cancel(1)).toBe(202);
  await second.said;
  await expect.poll(second.isRunning).toBe(false);
});

test("a waiting call has its head at once, and tells a client that asks for it how long it has waited", async () => {
  const { call, sessionId } = await connectTo("general");
  const { headers } = await connectRaw();
  const ask = async (id: number, _meta: object) => {
    const params = { name: "speak", arguments: { sessionId, content: "play", waitSeconds: 600 }, _meta };
    const response = await postRaw({ id, method: "tools/call", params }, headers);
    return { response, body: response.body!.pipeThrough(new TextDecoderStream()).getReader() };
  };
  const silent = await ask(8, {});
  expect(silent.response.status).toBe(200);
  await silent.body.cancel();
  // The head may come before the turn begins.
  await expect.poll(() => call("abort", { sessionId })).toMatchObject({ aborted: true });
  const { body } = await ask(9, { progressToken: "p" });
  let text = "";
  while (!text.includes('"progress":1')) {
    const { done, value } = await body.read();
    expect(done, text).toBe(false);
    text += value;
  }
  const told = text.split("\n").filter((line) => line.startsWith("data: {"));
  expect(told.map((line) => JSON.parse(line.slice(6)).params)).toEqual([
    { progressToken: "p", progress: 0, total: 600 },
    { progressToken: "p", progress: 1, total: 600 },
  ]);
  await call("abort", { sessionId });
  expect((await body.read()).value).toContain('"isCancelled":true');
});

test("a client that cancels the reading of a reply, or disconnects, ends the wait alone", async () => {
  const client = await connectRaw();
  const leaving = new AbortController();
  const { said, sessionId, isRunning } = await speaking(client, 1, leaving.signal);
  const reading = client.call(2, "read_reply", { sessionId });
  await expect.poll(openStreams).toBe(2);
  expect(await client.cancel(2)).toBe(202);
  expect(await reading).not.toContain("data:");
  await expect.poll(openStreams).toBe(1);
  leaving.abort();
  await said.catch(() => {});
  await expect.poll(openStreams).toBe(0);
  expect(await isRunning()).toBe(true);
  await client.call(3, "abort", { sessionId });
});

test("a caller with as many streams as it may have sends a message, and its oldest stream gives way to the reply", async () => {
  const { client, call } = await connect(guarded, ann.headers);
  const { sessionId } = await call("ask_for_floor", { agentId: "general" });
  const path = `/session/${sessionId}/events`;
  const streams = await Promise.all(Array.from({ length: OWNER_STREAMS }, () => ann.stream(path)));
  expect(await call("speak", { sessionId, content: "hello" })).not.toHaveProperty("error");
  expect((await streams[0]!.end()).at(-1)).toMatchObject({ type: "bye", data: { reason: "overloaded" } });
  await Promise.all(streams.map((stream) => stream.close()));
  await client.close();
});

const ask = async (id: number, name: string, input: object, { headers = {}, meta = {} } = {}) => {
  const params = { name, arguments: input, _meta: meta };
  const text = await (await postRaw({ id, method: "tools/call", params }, { ...OPEN, ...headers })).text();
  const [, data = text] = /^data: (.*)$/m.exec(text) ?? [];
  return JSON.parse(data).result.structuredContent as Result;
};

test.each<[by: string, about: (n: number) => [id: number, more: { headers?: object; meta?: object }]]>([
  ["the header", (n) => [n, { headers: { "idempotency-key": "mcp-by-header" } }]],
  ["its _meta", (n) => [n, { meta: { "interlock/idempotency-key": "mcp-by-meta" } }]],
])("a call that is repeated with the same key, by %s, has one effect", async (_, about) => {
  const userId = `mcp-${crypto.randomUUID()}`;
  const twice = async (name: string, input: object) => {
    const results: Result[] = [];
    for (const n of [1, 2]) {
      const [id, more] = about(n);
      const own = JSON.parse(JSON.stringify(more).replace(/mcp-by-(\w+)/, `mcp-by-$1-${name}-${userId}`));
      results.push(await ask(id, name, input, own));
    }
    return results;
  };
  const [first, again] = await twice("ask_for_floor", { agentId: "general", userId });
  expect(again!.sessionId).toBe(first!.sessionId);
  const { sessionId } = first!;
  const spoken = await twice("speak", { sessionId, content: "hello" });
  expect(spoken[1]).toEqual(spoken[0]);
  expect(await node.messages(sessionId, "user")).toHaveLength(1);
});

test("an id that a resumed session counts again begins another turn; the same call is one while its answer was lost", async () => {
  const { call } = await connect();
  const { sessionId } = await call("ask_for_floor", { agentId: "general", userId: `mcp-${crypto.randomUUID()}` });
  const client = await connectRaw();
  const speak = (id: number, content: string, more: object = {}, signal?: AbortSignal) =>
    client.call(id, "speak", { sessionId, content, ...more }, signal);
  const said = async () => (await node.messages(sessionId, "user")).map(({ content }) => content);
  // The client resumes its session, and its new connection counts from 1 again.
  for (const _ of [1, 2]) expect(await speak(1, "hello")).toContain("isRunning");
  expect(await said()).toEqual(["hello", "hello"]);

  const lost = new AbortController();
  const first = speak(2, "play", {}, lost.signal).catch(() => "lost");
  await expect.poll(said).toHaveLength(3);
  lost.abort();
  expect(await first).toBe("lost");
  // The same words under another id are another call.
  expect(await speak(3, "play", { waitSeconds: 0 })).toContain("agent_busy");
  expect(await speak(2, "play", { waitSeconds: 0 })).toContain('isRunning\\":true');
  expect(await said()).toEqual(["hello", "hello", "play"]);
});
