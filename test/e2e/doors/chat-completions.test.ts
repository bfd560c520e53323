/** OpenAI's own client with a real node. The client retries requests by itself. */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";
import OpenAI, { APIError, BadRequestError, NotFoundError, PermissionDeniedError } from "openai";
import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS, scripted } from "../../support/catalogs/e2e-catalog.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { hold } from "../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** It speaks as soon as it has its answer, a piece before each report of its worker. */
const teller = scripted(
  "teller",
  {},
  {
    replies: [{ ask: { question: "Which one?", options: ["a"] }, say: ["one ", "two ", "three "], delay: "200ms" }],
  },
);
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, teller] });
const impatient = await NodeUnderTest.start({ settings: { INTERLOCK_INTERACTION_TIMEOUT: "50ms" } });
afterAll(() => Promise.all([node.stop(), impatient.stop()]));
const clientOf = ({ url }: NodeUnderTest) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const openai = clientOf(node);

const say = (content: string) => [{ role: "user" as const, content }];

type Options = OpenAI.RequestOptions;
const create = (
  content: string,
  more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {},
  options?: Options,
) => openai.chat.completions.create({ model: "general", messages: say(content), ...more }, options);
const stream = (content: string, more: Partial<OpenAI.ChatCompletionCreateParamsStreaming> = {}, options?: Options) =>
  openai.chat.completions.create({ model: "general", messages: say(content), ...more, stream: true }, options);

async function read(chunked: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of chunked) chunks.push(chunk);
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  return { chunks, text, last: chunks.findLast(({ choices }) => choices.length > 0)?.choices[0] };
}

const textOf = ({ choices }: OpenAI.ChatCompletion) => choices[0]!.message.content;

/** The session of an answer. */
const sessionOf = (answer: object) => (answer as { metadata: { session: string } }).metadata.session;

const contentsOf = async (session: string) => (await node.messages(session)).map(({ content }) => content);

/** The call of the client's function with which an answer ends, and the messages that return its result. */
function callIn({ choices }: OpenAI.ChatCompletion, asked: string) {
  const { message, finish_reason } = choices[0]!;
  expect(finish_reason).toBe("tool_calls");
  const [call] = message.tool_calls!;
  if (call?.type !== "function") throw new Error("a question is a function");
  const { name, arguments: json } = call.function;
  const result = (content: string): OpenAI.ChatCompletionMessageParam[] => {
    return [...say(asked), message, { role: "tool", tool_call_id: call.id, content }];
  };
  return { name, input: JSON.parse(json), result };
}

async function findEnd(sessionId: string, at = node) {
  const log = await at.stream(`/session/${sessionId}/events`);
  return (await log.findState(sessionId, "archived")).data;
}

test("the models are the enabled agents", async () => {
  const models = await Array.fromAsync(openai.models.list());
  expect(models.map(({ id }) => id)).toContain("general");
  expect(models.map(({ id }) => id)).not.toContain("off");
  expect(await openai.models.retrieve("weather")).toMatchObject({ id: "weather", object: "model" });
  await expect(openai.models.retrieve("off")).rejects.toThrow(NotFoundError);
});

test("an answer arrives completely, with its usage, and its session ends with it", async () => {
  const answer = await create("hello");
  expect(answer).toMatchObject({
    object: "chat.completion",
    model: "general",
    choices: [{ index: 0, message: { role: "assistant", content: "Hello there." }, finish_reason: "stop" }],
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
  await findEnd(sessionOf(answer));
});

test("an answer arrives in chunks, each piece of text once, with the usage at the end on request", async () => {
  const { chunks, text, last } = await read(await stream("count", { stream_options: { include_usage: true } }));
  expect(text).toBe("tick ".repeat(40));
  expect(chunks[0]!.choices[0]!.delta.role).toBe("assistant");
  expect(last?.finish_reason).toBe("stop");
  expect(chunks.filter(({ choices }) => choices[0]?.delta.content).length).toBeGreaterThan(10);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 0 } });
});

test("an answer continues in the session that the client names, by another agent if it names one", async () => {
  const session = node.newId("kitchen");
  expect(sessionOf(await create("hello", { metadata: { session } }))).toBe(session);
  expect(sessionOf(await create("nod", { metadata: { session }, model: "weather" }))).toBe(session);
  expect(await contentsOf(session)).toEqual(["hello", "Hello there.", "nod", "Yes."]);
  expect((await accepted(node.get(`/session/${session}`))).session.agentId).toBe("weather");
});

test("a named session goes on where its user moved it, or in the copy that replaced it", async () => {
  const session = node.newId("kitchen");
  const { userId: user } = new E2eClient(node);
  const turn = async (content: string) => sessionOf(await create(content, { metadata: { session, user } }));
  await turn("hello");
  const { session: moved } = await accepted(node.post(`/session/${session}/move`, { zone: "rear" }));
  expect(await turn("nod")).toBe(moved.id);
  const { session: copy } = await accepted(node.post(`/session/${moved.id}/rollback`, { turns: 1 }));
  expect(await turn("hello")).toBe(copy.id);
  expect(await contentsOf(copy.id)).toEqual(["hello", "Hello there.", "hello", "Hello there."]);
});

test("what was heard of the reply before is told in the metadata or a header, and a wrong position is refused", async () => {
  const session = node.newId("kitchen");
  const ask = (played?: string, headers = {}) =>
    create("hello", { metadata: { session, ...(played !== undefined && { played }) } }, { headers });
  // There is no reply before the first one.
  const answers = [await ask("7"), await ask("5"), await ask(undefined, { "Interlock-Played": "6" })];
  const played = answers.map((answer) => (answer as { metadata?: { played?: string } }).metadata?.played);
  expect(played).toEqual([undefined, "5", "6"]);
  for (const wrong of ["13", "-1", "all"]) await expect(ask(wrong)).rejects.toThrow(BadRequestError);
  const replies = await node.messages(session, "assistant");
  expect(replies.map(({ playedUpTo }) => playedUpTo)).toEqual([5, 6, undefined]);
});

test("an answer in a new session considers the conversation that the client sends", async () => {
  const answer = await create("", {
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "hello" },
      { role: "assistant", content: [{ type: "text", text: "Hello there." }] },
      { role: "user", content: [{ type: "text", text: "nod" }] },
    ],
  });
  expect((await contentsOf(sessionOf(answer)))[0]).toBe(
    "The conversation so far:\n\nInstructions: Be brief.\n\nUser: hello\n\nAssistant: Hello there.\n\nThe user's message now:\n\nnod",
  );
  expect((await accepted(node.get(`/session/${sessionOf(answer)}`))).session.title).toBe("nod");
});

test("a conversation of a thousand messages is accepted", async () => {
  const messages = Array.from({ length: 1_000 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: [{ type: "text", text: `message ${index}` }],
  })) as OpenAI.ChatCompletionMessageParam[];
  expect(textOf(await create("", { messages: [...messages, ...say("hello")] }))).toMatch(/^(You said|Hello)/);
});

test("a repeat with the same key gets the same answer", async () => {
  const session = node.newId("keyed");
  const ask = () => create("hello", { metadata: { session } }, { headers: { "Idempotency-Key": `key-${session}` } });
  const [first, second] = [await ask(), await ask()];
  expect([second.id, second.choices]).toEqual([first.id, first.choices]);
  expect(await contentsOf(session)).toHaveLength(2);
});

test("a question is a function call, and its result continues the run: once, and repeatedly with the same key", async () => {
  const asked = await create("ask");
  const { name, input, result } = callIn(asked, "ask");
  expect([name, input]).toMatchObject(["user_question", { question: "Which one?", options: ["a", "b"] }]);
  const messages = result("b");
  const answer = (key: string) => create("", { messages }, { headers: { "Idempotency-Key": key } });
  const first = await answer(`key-${sessionOf(asked)}`);
  expect([textOf(first), sessionOf(first)]).toEqual(["You chose b.", sessionOf(asked)]);
  const { id, choices } = await answer(`key-${sessionOf(asked)}`);
  expect([id, choices]).toEqual([first.id, first.choices]);
  await expect(answer("another")).rejects.toMatchObject({ status: 404, code: "interaction_not_found" });
});

test("a repeat with the same key does not end with a question that was answered elsewhere", async () => {
  const ask = () => create("ask", {}, { headers: { "Idempotency-Key": "answered-elsewhere" } });
  const asked = await ask();
  const sessionId = sessionOf(asked);
  const log = await node.stream(`/session/${sessionId}/events`);
  const { requestId } = await log.find("user_question_request");
  await accepted(node.post("/message", { type: "user_question_response", sessionId, requestId, response: "a" }));
  const again = await ask();
  expect([again.id, textOf(again)]).toEqual([asked.id, "You chose a."]);
});

test.each([
  ["approve", "Deleted."],
  ["no, thanks", "Kept it."],
])("a confirmation in a stream accepts only a clear yes: %s", async (content, expected) => {
  const asking = openai.chat.completions.stream({ model: "general", messages: say("delete") });
  const { input, result } = callIn(await asking.finalChatCompletion(), "delete");
  expect(input).toMatchObject({ tool: "delete_file", arguments: '{"path":"a.txt"}' });
  expect((await read(await stream("", { messages: result(content) }))).text).toBe(expected);
});

test("the first text after an answer comes at once, and not with the worker's next report", async () => {
  const about = { model: "teller", metadata: { session: node.newId("asking") } };
  const { result } = callIn(await create("ask", about), "ask");
  const { chunks } = await read(await stream("", { ...about, messages: result("a") }));
  // Text that came late would come together with what was said meanwhile.
  const pieces = chunks.map(({ choices }) => choices[0]?.delta.content).filter(Boolean);
  expect(pieces).toEqual(["one ", "two ", "three "]);
});

test("a refused floor is a 403 with a sentence to speak and the decision, and the client does not retry", async () => {
  const { ann } = await hold(node, "phone");
  const refusal = create("hello", { model: "weather", metadata: { user: ann.userId } });
  const error = await refusal.catch((thrown) => thrown);
  expect(error).toBeInstanceOf(PermissionDeniedError);
  expect(error).toMatchObject({ status: 403, code: "rejected", type: "conflict_error" });
  expect(error.headers.get("x-should-retry")).toBe("false");
  expect((await ann.floor()).decisions).toHaveLength(2);
  expect(error.error.decision).toMatchObject({ outcome: "rejected", say: expect.any(String) });
});

test("a turn that waits for the floor streams the decision, and the reply when it comes", async () => {
  const { ann, id } = await hold(node, "phone");
  const metadata = { user: ann.userId, session: node.newId("queuing") };
  const seen: object[] = [];
  let text = "";
  for await (const chunk of await stream("hello", { model: "patient", metadata })) {
    const { interlock } = chunk as { interlock?: { type: string; data: { outcome?: string; to?: string } } };
    if (interlock) seen.push({ type: interlock.type, ...interlock.data });
    if (seen.length === 1) await accepted(ann.on(id, "archive"));
    text += chunk.choices[0]?.delta.content ?? "";
  }
  expect(text).toBe("Hello there.");
  expect(seen[0]).toMatchObject({ type: "arbitration", outcome: "queued" });
  expect(seen).toContainEqual(expect.objectContaining({ type: "session_transition", from: "created" }));
});

test("a stream reports that the floor was lost and regained, and loses no text", async () => {
  const ann = new E2eClient(node);
  const metadata = { user: ann.userId, session: node.newId("preempted") };
  const states: string[] = [];
  let text = "";
  let phone: string | undefined;
  for await (const chunk of await stream("count", { model: "music", metadata })) {
    const { interlock } = chunk as { interlock?: { type: string; data: { to?: string } } };
    const isMove = interlock?.type === "session_transition";
    if (isMove) states.push(interlock.data.to!.split(".")[0]!);
    text += chunk.choices[0]?.delta.content ?? "";
    if (text !== "" && phone === undefined) phone = (await ann.hold("phone")).id;
    if (isMove && states.at(-1) === "paused") await accepted(ann.on(phone!, "archive"));
  }
  expect(states).toEqual(["paused", "active"]);
  expect(text).toBe("tick ".repeat(40));
});

test("disconnecting a stream aborts its run, and not the session's next one", async () => {
  const abort = new AbortController();
  const metadata = { session: node.newId("left") };
  const left = await stream("play", { metadata }, { signal: abort.signal });
  const log = await node.stream(`/session/${metadata.session}/events`);
  for await (const chunk of left) if (chunk.choices[0]?.delta.content) abort.abort();
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
  expect(textOf(await create("nod", { metadata }))).toBe("Yes.");
});

test("disconnecting ends the session of an answer that named none, and frees its floor", async () => {
  const ann = new E2eClient(node);
  const abort = new AbortController();
  const metadata = { user: ann.userId };
  const left = await stream("play", { model: "weather", metadata }, { signal: abort.signal });
  const { id } = (await ann.floor()).holder!;
  const log = await ann.follow(id);
  for await (const chunk of left) if (chunk.choices[0]?.delta.content) abort.abort();
  await log.findState(id, "archived");
  // The last report may follow the end of the run.
  await expect.poll(() => contentsOf(id)).toEqual(["play", "♪ "]);
  expect(textOf(await create("nod", { model: "music", metadata }))).toBe("Yes.");
});

test("disconnecting withdraws a turn that has not begun", async () => {
  const { ann, id } = await hold(node, "stacker");
  const log = await ann.follow(id);
  await accepted(ann.say(id, "play"));
  const abort = new AbortController();
  const left = await stream("hello", { model: "stacker", metadata: { session: id } }, { signal: abort.signal });
  abort.abort();
  await expect(read(left)).resolves.toMatchObject({ text: "" });
  expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
  expect((await ann.see(id)).activity).toBe("running");
  await accepted(ann.send({ type: "abort", sessionId: id }));
});

test.each([
  ["flaky", "provider_rate_limited", "rate_limit_error"],
  ["offline", "provider_unreachable", "server_error"],
  ["refused", "provider_refused", "server_error"],
])("a failure of the provider has its own error, and is not retried: %s", async (content, code, type) => {
  const error: APIError = await create(content).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(BadRequestError);
  expect(error).toMatchObject({ status: 400, code, type });
});

test("a failure within a stream is the client's error", async () => {
  const error = await read(await stream("flaky")).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(APIError);
  expect(error).toMatchObject({ code: "provider_rate_limited" });
});

test("a failure of a run that another client aborts ends with that abort", async () => {
  const metadata = { session: node.newId("aborted") };
  const aborted = await stream("play", { metadata });
  const abort = async () => {
    for await (const chunk of aborted) {
      const message = { type: "abort", sessionId: metadata.session };
      if (chunk.choices[0]?.delta.content) await accepted(node.post("/message", message));
    }
  };
  await expect(abort()).rejects.toMatchObject({ code: "aborted" });
});

const unsupported = (param: string) => ({ code: "unsupported_parameter", param });
const image = { type: "image_url", image_url: { url: "http://a/b.png" } };
const wrong = (param: string) => ({ status: 400, param });
test.each<[what: string, body: object, error: object]>([
  ["an unknown model", { model: "nobody" }, { status: 404, code: "model_not_found", param: "model" }],
  [
    "a misspelt model",
    { model: "genral" },
    { message: expect.stringMatching(/does not exist; did you mean general\?$/) },
  ],
  ["a disabled model", { model: "off" }, { status: 404 }],
  ["no messages", { messages: [] }, { status: 400 }],
  ["two choices", { n: 2 }, wrong("n")],
  ["tools", { tools: [{ type: "function" }] }, unsupported("tools")],
  ["functions", { functions: [{ name: "f" }] }, unsupported("functions")],
  ["a required tool", { tool_choice: "required" }, unsupported("tool_choice")],
  ["audio", { modalities: ["text", "audio"] }, unsupported("modalities")],
  ["a format", { response_format: { type: "json_object" } }, unsupported("response_format")],
  ["a zone without a user", { metadata: { zone: "front" } }, wrong("metadata.zone")],
  ["a malformed session", { metadata: { session: "a b" } }, wrong("metadata.session")],
  ["a blank message", { messages: say(" ") }, { status: 400 }],
  ["a message that is too long", { messages: say("x".repeat(262_145)) }, { status: 413, code: "too_large" }],
  [
    "an image of another server",
    { messages: [{ role: "user", content: [image] }] },
    unsupported("messages[0].content[0].image_url.url"),
  ],
  [
    "the result of a malformed call",
    { messages: [{ role: "tool", tool_call_id: "call_1", content: "x" }] },
    wrong("messages[0].tool_call_id"),
  ],
])("an invalid request is an error that names the wrong field: %s", async (_, body, error) => {
  await expect(create("hello", body)).rejects.toMatchObject(error);
});

test("the result of a call that was never made is not found", async () => {
  const { session } = await accepted(node.post("/session/create"));
  const result = { role: "tool" as const, tool_call_id: `question.${session.id}.nobody`, content: "x" };
  await expect(create("", { messages: [result] })).rejects.toMatchObject({
    status: 404,
    code: "interaction_not_found",
  });
});

test("an invalid part of a message is named by its place", async () => {
  const text = { type: "text", text: "hello" };
  const user = (...content: unknown[]) => ({ role: "user", content });
  const page = { type: "image_url", image_url: { url: "data:text/plain,x" } };
  const faults: [object[], string][] = [
    [[{ content: "hello" }], "messages[0].role"],
    [[{ role: "user", content: 5 }], "messages[0].content"],
    [[user(text, "hello")], "messages[0].content[1]"],
    [[user(text, { text: "hello" })], "messages[0].content[1].type"],
    [[...say("a"), user(text, { type: "input_audio" })], "messages[1].content[1].type"],
    [[user({ type: "text" })], "messages[0].content[0].text"],
    [[user({ type: "image_url" })], "messages[0].content[0].image_url"],
    [[user(page)], "messages[0].content[0].image_url.url"],
    [[...say("a"), { role: "assistant", content: [{ type: 7 }] }, ...say("b")], "messages[1].content[0].type"],
    [[{ role: "tool", tool_call_id: 5, content: "x" }], "messages[0].tool_call_id"],
  ];
  for (const [messages, param] of faults) {
    const answering = create("", { messages: messages as never });
    await expect(answering, param).rejects.toMatchObject({ status: 400, type: "invalid_request_error", param });
  }
  for (const role of ["system", "assistant"]) {
    const last = { role, content: "hello" } as { role: "system"; content: string };
    const message = expect.stringContaining(`The last message is of "${role}": it must be a user message`);
    const said = create("", { messages: [last] });
    await expect(said).rejects.toMatchObject({ status: 400, param: "messages[0].role", message });
    const response = openai.responses.create({ model: "general", input: [last] });
    await expect(response).rejects.toMatchObject({ status: 400, param: "input[0]", message });
  }
  const answering = openai.responses.create({ model: "general", input: [user({ type: "input_file" })] as never });
  await expect(answering).rejects.toMatchObject({ status: 400, param: "input[0].content[0].type" });
});

test("a path of the API that Interlock does not have, and a wrong method, are OpenAI's errors", async () => {
  const missing = openai.embeddings.create({ model: "general", input: "hello" });
  await expect(missing).rejects.toMatchObject({ status: 404, code: "not_found", type: "not_found_error" });
  for (const [method, path, status] of [
    ["GET", "/v1/chat/completions", 405],
    ["DELETE", "/v1/models/general", 405],
    ["GET", "/v1/models/%zz", 400],
    ["GET", "/v1/", 404],
  ] as const) {
    const answer = await node.send(method, path);
    expect([path, answer.status]).toEqual([path, status]);
    expect(JSON.parse(answer.text), path).toEqual({
      error: expect.objectContaining({ message: expect.any(String), type: expect.any(String), param: null }),
    });
  }
  expect((await node.get("/v2/models")).body).toMatchObject({ success: false, errorCode: "not_found" });
});

const post = async (session: string | undefined, content: string, headers: Record<string, string> = {}) => {
  const response = await fetch(`${node.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "general", messages: say(content), metadata: session ? { session } : {} }),
  });
  await response.text();
  return { status: response.status, run: response.headers.get("interlock-run") };
};
const turnsOf = async (session: string) => (await node.messages(session, "user")).length;

test("the AI SDK's client begins one turn with a call whose turn fails, or that the floor refuses", async () => {
  const { ann } = await hold(node, "phone");
  const generate = (model: string, prompt: string, headers: Record<string, string>) => {
    const provider = createOpenAICompatible({ name: "node", baseURL: `${node.url}/v1`, headers });
    return generateText({ model: provider(model), prompt });
  };
  const [refused, failing] = [node.newId("refused"), node.newId("failing")];
  const refusal = generate("weather", "hello", { "interlock-session": refused, "interlock-user": ann.userId });
  await expect(refusal).rejects.toMatchObject({ statusCode: 403 });
  expect((await ann.floor()).decisions).toHaveLength(2);
  const failure = generate("general", "offline", { "interlock-session": failing });
  await expect(failure).rejects.toMatchObject({ statusCode: 400 });
  expect(await turnsOf(failing)).toBe(1);
});

test("a further request after an answer begins a turn, also after a failure, and while the first one is under way", async () => {
  const session = node.newId("again");
  const [first, again] = [await post(session, "flaky"), await post(session, "flaky")];
  expect([first.status, again.status, await turnsOf(session)]).toEqual([400, 200, 2]);
  const louder = node.newId("louder");
  const ask = () =>
    openai.chat.completions.create({ model: "stacker", messages: say("count"), metadata: { session: louder } });
  const both = await Promise.all([ask(), ask()]);
  expect([both.map(textOf), await turnsOf(louder)]).toEqual([["tick ".repeat(40), "tick ".repeat(40)], 2]);
});

test("a repeat that OpenAI's client marks as one joins the turn of a session that has no name", async () => {
  const marked = { "x-stainless-retry-count": "1" };
  const [first, again] = await Promise.all([post(undefined, "slow"), post(undefined, "slow", marked)]);
  expect([first.status, again.run]).toEqual([200, first.run]);
});

test("it ends when its question expires without an answer", async () => {
  const asking = clientOf(impatient).chat.completions.create({ model: "general", messages: say("ask") });
  const asked = await asking;
  callIn(asked, "ask");
  expect(await findEnd(sessionOf(asked), impatient)).toMatchObject({ event: "archive", reason: "after_turn" });
});

test("it ends when its question expires, also if it is of a response that is not to be stored", async () => {
  const { responses } = clientOf(impatient);
  const asked = await responses.create({ model: "general", input: "ask", store: false });
  expect(asked.output[0]).toMatchObject({ type: "function_call" });
  expect(await findEnd(sessionOf(asked), impatient)).toMatchObject({ event: "archive" });
  const kept = await responses.create({ model: "general", input: "ask" });
  const log = await impatient.stream(`/session/${sessionOf(kept)}/events`);
  await log.findState(sessionOf(kept), "active.failed");
});

test("it ends when another client aborts it while it asks", async () => {
  const sessionId = sessionOf(await create("ask"));
  expect((await accepted(node.get(`/session/${sessionId}`))).session.activity).toBe("waiting");
  await accepted(node.post("/message", { type: "abort", sessionId }));
  await findEnd(sessionId);
});

test("it ends with the reply to its answer, and one that the client named stays", async () => {
  const metadata = { session: node.newId("kept") };
  const [unnamed, named] = [await create("ask"), await create("ask", { metadata })];
  for (const asked of [unnamed, named]) await create("", { messages: callIn(asked, "ask").result("b") });
  await findEnd(sessionOf(unnamed));
  expect(textOf(await create("nod", { metadata }))).toBe("Yes.");
});

test("it ends with a failed reply", async () => {
  const user = node.newUser();
  const failing = create("refused", {}, { headers: { "Interlock-User": user } });
  await expect(failing).rejects.toMatchObject({ code: "provider_refused" });
  const { sessions } = await accepted(node.get(`/session/list?userId=${user}&includeArchived=true`));
  await findEnd(sessions[0]!.id);
});
