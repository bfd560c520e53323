/** Answers that do not reach their clients, and requests that are sent again without a key. */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";
import OpenAI from "openai";
import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS, makeClerk } from "../../support/catalogs/e2e-catalog.ts";
import { accepted } from "../../support/clients/e2e-client.ts";
import { hold } from "../../support/clients/e2e-states.ts";
import { LosingProxy } from "../../support/networks/losing-proxy.ts";
import { headOf, RawSocket } from "../../support/networks/raw-socket.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

/** A model that never answers. */
const provider = await startProviderServer();
provider.replyBy(() => ({ kind: "stream", text: ["One"], ending: "never" }));
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, makeClerk(provider.baseUrl)] });
afterAll(async () => {
  await node.stop();
  await provider.close();
});

type Json = Record<string, unknown>;

const say = (content: string) => [{ role: "user" as const, content }];
const completion = (content: string, session: string, more: Json = {}) => ({
  model: "general",
  messages: say(content),
  metadata: { session },
  ...more,
});

function send(socket: RawSocket, path: string, body: Json, headers: Json = {}): Promise<void> {
  const text = JSON.stringify(body);
  const about = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text), ...headers };
  return socket.send(headOf("POST", path, about) + text);
}

/** The status and the body of the newest answer. */
async function answerIn(socket: RawSocket) {
  const [, status, length] = /^HTTP\/1\.1 (\d+).*content-length: (\d+)/is.exec(await socket.until(/\r\n\r\n/)) ?? [];
  const [, body] = (await socket.until(new RegExp(`\r\n\r\n.{${length}}$`, "s"))).split("\r\n\r\n");
  socket.text = "";
  return { status: Number(status), body: JSON.parse(body!) };
}

const open = (options?: { reads?: boolean }) => RawSocket.open(node.url, options);

/** Send a request on a connection that keeps, and read its answer. */
async function ask(path: string, body: Json, headers?: Json) {
  const socket = await open();
  await send(socket, path, body, headers);
  return await answerIn(socket);
}

const BROWSER = { "User-Agent": "Mozilla/5.0" };

/** The same on a connection that has carried a request before. */
async function askAgain(socket: RawSocket, path: string, body: Json, headers?: Json) {
  await socket.send(headOf("GET", "/health"));
  await answerIn(socket);
  await send(socket, path, body, headers);
  return await answerIn(socket);
}

/** The request of `useChat` that answers the last message again. */
const regenerate = (id: string, content: string) => ({
  id,
  messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: content }] }],
  trigger: "regenerate-message",
});

const turnsOf = async (session: string) => (await node.messages(session, "user")).length;

const runOf = ({ body }: { body: { metadata: { run: string } } }) => body.metadata.run;

/** Each POST that acts, and what names its effect in the answer. */
const ACTS: [name: string, path: (session: string) => string, body: (session: string) => Json, effect: RegExp][] = [
  ["a message", () => "/message", (sessionId) => ({ type: "chat", sessionId, content: "nod" }), /"runId":"[^"]+"/],
  ["a message without a session", () => "/message", () => ({ type: "chat", content: "nod" }), /"sessionId":"[^"]+"/],
  ["a session", () => "/session/create", () => ({ agentId: "general" }), /"id":"[^"]+"/],
  ["a copy", (id) => `/session/${id}/fork`, () => ({}), /"id":"[^"]+"/],
  ["a command", (id) => `/session/${id}/archive`, () => ({}), /"position":"[^"]+"/],
  ["a completion", () => "/v1/chat/completions", (id) => completion("nod", id), /"run":"[^"]+"/],
  [
    "a completion without a session",
    () => "/v1/chat/completions",
    () => ({ model: "general", messages: say("nod") }),
    /"run":"[^"]+"/,
  ],
  ["a response", () => "/v1/responses", () => ({ model: "general", input: "nod" }), /"id":"[^"]+"/],
];

const newSession = async () => (await accepted(node.post("/session/create"))).session.id;

test.each(ACTS)("%s whose answer is reset right after its end has one effect", async (_, path, body, effect) => {
  const session = await newSession();
  const socket = await open();
  await send(socket, path(session), body(session));
  const first = await answerIn(socket);
  await socket.reset();
  const again = await ask(path(session), body(session));
  const [one] = effect.exec(JSON.stringify(first.body)) ?? [];
  expect([first.status, again.status, one]).toEqual([200, 200, expect.any(String)]);
  expect(JSON.stringify(again.body)).toContain(one);
});

test.each(ACTS)(
  "%s that a browser sends again, because a connection broke, has one effect",
  async (_, path, body, effect) => {
    const session = await newSession();
    const socket = await open();
    const first = await askAgain(socket, path(session), body(session), BROWSER);
    socket.destroy();
    const again = await ask(path(session), body(session), BROWSER);
    const [one] = effect.exec(JSON.stringify(first.body)) ?? [];
    expect(one).toBeDefined();
    expect(JSON.stringify(again.body)).toContain(one);
  },
);

test("what is said again after its answer arrived is said twice, whatever becomes of the connection", async () => {
  const session = await newSession();
  const kept = await open();
  const [one, two] = [await askAgain(kept, "/v1/chat/completions", completion("nod", session)), await answered()];
  async function answered() {
    await send(kept, "/v1/chat/completions", completion("nod", session));
    return await answerIn(kept);
  }
  // A program that asks once and ends, twice; and one that looks before it asks.
  const short = async (hasLooked: boolean) => {
    const socket = await open();
    const [path, body] = ["/v1/chat/completions", completion("nod", session)];
    if (!hasLooked) await send(socket, path, body);
    const answer = hasLooked ? await askAgain(socket, path, body) : await answerIn(socket);
    socket.destroy();
    return answer;
  };
  const all = [one, two];
  for (const hasLooked of [false, false, true, true]) all.push(await short(hasLooked));
  // A browser that uses its connection for something else, before that breaks.
  const used = await open();
  all.push(await askAgain(used, "/v1/chat/completions", completion("nod", session), BROWSER));
  await used.send(headOf("GET", "/health"));
  await answerIn(used);
  used.destroy();
  all.push(await ask("/v1/chat/completions", completion("nod", session), BROWSER));
  expect(new Set(all.map(runOf)).size).toBe(8);
});

test("an answer that lies unread with a client that ends is lost", async () => {
  const session = await newSession();
  const log = await node.stream(`/session/${session}/events`);
  const socket = await open({ reads: false });
  await send(socket, "/v1/chat/completions", completion("nod", session));
  const { runId } = (await log.find("complete")).data as { runId: string };
  // Its bytes are here, and were never read.
  await new Promise((resolve) => socket.socket.once("readable", resolve));
  await socket.reset();
  expect(runOf(await ask("/v1/chat/completions", completion("nod", session)))).toBe(runId);
});

test("a client that closes its side before it has its answer, and asks again, has one turn", async () => {
  const session = await newSession();
  const body = { type: "chat", sessionId: session, content: "nod" };
  const socket = await open();
  await send(socket, "/message", body);
  await socket.halfClose();
  await ask("/message", body);
  expect(await turnsOf(session)).toBe(1);
});

/** A session whose turn begins, and whose client hangs up. */
async function hungUp(content: string, agentId = "general") {
  const { session } = await accepted(node.post("/session/create", { agentId }));
  const log = await node.stream(`/session/${session.id}/events`);
  const socket = await open();
  await send(socket, "/v1/chat/completions", { ...completion(content, session.id), model: agentId });
  await log.findState(session.id, "active.running");
  socket.destroy();
  return { session: session.id, log };
}

test("a client that hung up before it has its answer, and asks again, joins the run", async () => {
  const { session } = await hungUp("count");
  const again = await ask("/v1/chat/completions", completion("count", session));
  expect(again.body.choices[0].message.content).toBe("tick ".repeat(40));
  expect(await turnsOf(session)).toBe(1);
});

test("an explicit abort ends a run whose client hung up, and the same words are a new turn then", async () => {
  const { session, log } = await hungUp("play");
  await accepted(node.post("/message", { type: "abort", sessionId: session }));
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
  const other = await open();
  await send(other, "/v1/chat/completions", completion("play", session));
  await log.findState(session, "active.running");
  expect(await turnsOf(session)).toBe(2);
  await accepted(node.post("/message", { type: "abort", sessionId: session }));
});

test("another request of the session ends a run whose client hung up at once, and is not refused", async () => {
  const { session, log } = await hungUp("play");
  const next = await ask("/v1/chat/completions", completion("nod", session));
  expect(next.body).toMatchObject({ choices: [{ message: { content: "Yes." } }] });
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
});

test("a change of the mode ends a run whose client hung up, and a refused one and a new title do not", async () => {
  const { session, log } = await hungUp("hello", "clerk");
  const runs = async () => (await node.get(`/runs`)).body.runs.filter((run: Json) => run["sessionId"] === session);
  expect((await node.post(`/session/${session}/mode`, { mode: "nothing" })).status).toBe(400);
  await accepted(node.patch(`/session/${session}`, { title: "another" }));
  expect(await runs()).toHaveLength(1);
  await accepted(node.post(`/session/${session}/mode`, { mode: "work" }));
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
});

test("a stream that breaks before its first word is sent again as the same run", async () => {
  const { ann, id } = await hold(node, "phone");
  const metadata = { session: node.newId("waiting"), user: ann.userId };
  const body = { model: "patient", messages: say("nod"), metadata, stream: true };
  const run = /interlock-run: \S+/i;
  const socket = await open();
  await send(socket, "/v1/chat/completions", body);
  const [first] = run.exec(await socket.until(run))!;
  socket.destroy();
  const again = await open();
  await send(again, "/v1/chat/completions", body);
  expect(await again.until(run)).toContain(first);
  await accepted(ann.send({ type: "archive", sessionId: id }));
  expect(await again.until(/\[DONE\]/)).toContain("Yes.");
});

test("a regenerated message whose stream broke before its first word is answered again once", async () => {
  const { ann, id: call } = await hold(node, "phone");
  const chat = node.newId("chat");
  const body = { ...regenerate(chat, "nod"), agentId: "patient", userId: ann.userId };
  const run = /interlock-run: \S+/i;
  const socket = await open();
  await send(socket, "/api/chat", { ...body, trigger: "submit-message" });
  await socket.until(run);
  socket.destroy();
  const first = await open();
  await send(first, "/api/chat", body);
  const [one] = run.exec(await first.until(run))!;
  first.destroy();
  const again = await open();
  await send(again, "/api/chat", body);
  expect(await again.until(run)).toContain(one);
  await accepted(ann.send({ type: "archive", sessionId: call }));
  expect(await again.until(/\[DONE\]/)).toContain("Yes.");
});

test("an answer to a question that was lost is given once", async () => {
  const session = await newSession();
  const asked = await ask("/v1/chat/completions", completion("ask", session));
  const [{ message }] = asked.body.choices;
  const tool = { role: "tool", tool_call_id: message.tool_calls[0].id, content: "b" };
  const body = { model: "general", messages: [...say("ask"), message, tool], metadata: { session } };
  const socket = await open();
  await send(socket, "/v1/chat/completions", body);
  await answerIn(socket);
  await socket.reset();
  const again = await ask("/v1/chat/completions", body);
  expect(again.body.choices[0].message.content).toBe("You chose b.");
});

test("another file that is imported after one whose answer was lost is another session", async () => {
  const importOf = async (socket: RawSocket, title: string) => {
    const lines = [
      { type: "session", version: 1, title },
      { type: "end", messages: 0 },
    ];
    const text = lines.map((line) => JSON.stringify(line)).join("\n");
    const about = { "Content-Type": "application/x-ndjson", "Content-Length": Buffer.byteLength(text) };
    await socket.send(headOf("POST", "/session/import", about) + text);
    return (await answerIn(socket)).body;
  };
  const socket = await open();
  const first = await importOf(socket, "one");
  await socket.reset();
  const other = await importOf(await open(), "other");
  expect([first.session.title, other.session?.title]).toEqual(["one", "other"]);
});

/** A proxy that loses the first answer, or gives up on it, and the client behind it. */
async function behindProxy() {
  const proxy = await LosingProxy.start(node.url);
  return {
    proxy,
    openai: new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: "none" }),
    provider: createOpenAICompatible({ name: "node", baseURL: `${proxy.url}/v1` }),
  };
}

test("OpenAI's client that repeats after a proxy lost the answer has one turn", async () => {
  const { proxy, openai } = await behindProxy();
  const session = await newSession();
  proxy.loseNextAnswer();
  const answer = await openai.chat.completions.create(completion("nod", session));
  expect([answer.choices[0]!.message.content, proxy.lost, await turnsOf(session)]).toEqual(["Yes.", 1, 1]);
  proxy.loseNextAnswer();
  const response = await openai.responses.create({ model: "general", input: "nod", metadata: { session } });
  expect([response.output_text, proxy.lost, await turnsOf(session)]).toEqual(["Yes.", 2, 2]);
});

test("the AI SDK that repeats after a proxy lost the answer of a turn that acted has one turn", async () => {
  const { proxy, provider } = await behindProxy();
  const session = await newSession();
  proxy.loseNextAnswer();
  const headers = { "interlock-session": session };
  const { text } = await generateText({ model: provider("general"), prompt: "browse", headers });
  expect([text, proxy.lost, await turnsOf(session)]).toEqual([expect.stringMatching(/^It says/), 1, 1]);
});

test("the AI SDK that repeats after a proxy gave up has one turn, and its answer", async () => {
  const { proxy, provider } = await behindProxy();
  const session = await newSession();
  const log = await node.stream(`/session/${session}/events`);
  const headers = { "interlock-session": session };
  const generated = generateText({ model: provider("general"), prompt: "count", headers });
  await log.findState(session, "active.running");
  proxy.giveUp();
  expect([(await generated).text, proxy.lost, await turnsOf(session)]).toEqual(["tick ".repeat(40), 1, 1]);
});

test("a request that its client marks as a repeat is one, by OpenAI's header or a Request-Id", async () => {
  const session = await newSession();
  const body = completion("nod", session);
  const first = await ask("/v1/chat/completions", body);
  const marked = await ask("/v1/chat/completions", body, { "x-stainless-retry-count": 1 });
  expect(runOf(marked)).toBe(runOf(first));
  const named = { "Request-Id": "r1" };
  const [one, two] = [await ask("/v1/chat/completions", body, named), await ask("/v1/chat/completions", body, named)];
  const other = await ask("/v1/chat/completions", body, { "Request-Id": "r2" });
  expect([runOf(two), new Set([first, one, other].map(runOf)).size]).toEqual([runOf(one), 3]);
});

test("a call of an MCP client without a session whose answer was reset has one effect", async () => {
  const sessionId = await newSession();
  const call = { name: "speak", arguments: { sessionId, content: "nod" } };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: call };
  const accept = { Accept: "application/json, text/event-stream" };
  const speak = async () => {
    const socket = await open();
    await send(socket, "/mcp", body, accept);
    const text = await socket.until(/runId.*\r\n0\r\n\r\n$/s);
    await socket.reset();
    return /runId\\?":\\?"([\w-]+)/.exec(text)?.[1];
  };
  const first = await speak();
  expect([first, await turnsOf(sessionId)]).toEqual([expect.any(String), 1]);
  expect([await speak(), await turnsOf(sessionId)]).toEqual([first, 1]);
});
