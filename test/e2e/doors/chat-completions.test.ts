import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";
import OpenAI, { APIError, BadRequestError, NotFoundError, PermissionDeniedError } from "openai";
import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { hold } from "../../support/clients/e2e-states.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** OpenAI's own client with a real node. The client retries requests by itself. */
const node = await NodeUnderTest.start();
const openai = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: "none" });
afterAll(() => node.stop());

const say = (content: string) => [{ role: "user" as const, content }];

async function read(stream: AsyncIterable<OpenAI.ChatCompletionChunk>) {
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  return { chunks, text, last: chunks.findLast(({ choices }) => choices.length > 0)?.choices[0] };
}

/** The session of an answer. */
const sessionOf = (answer: object) => (answer as { metadata: { session: string } }).metadata.session;

describe("models", () => {
  test("the models are the enabled agents", async () => {
    const models = await Array.fromAsync(openai.models.list());
    expect(models.map(({ id }) => id)).toContain("general");
    expect(models.map(({ id }) => id)).not.toContain("off");
    expect(await openai.models.retrieve("weather")).toMatchObject({ id: "weather", object: "model" });
    await expect(openai.models.retrieve("off")).rejects.toThrow(NotFoundError);
  });
});

describe("an answer", () => {
  test("an answer arrives completely, with its usage, and its session ends with it", async () => {
    const answer = await openai.chat.completions.create({ model: "general", messages: say("hello") });
    expect(answer).toMatchObject({
      object: "chat.completion",
      model: "general",
      choices: [{ index: 0, message: { role: "assistant", content: "Hello there." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
    const log = await node.stream(`/session/${sessionOf(answer)}/events`);
    await log.findState(sessionOf(answer), "archived");
  });

  test("an answer arrives in chunks, each piece of text once, with the usage at the end on request", async () => {
    const stream = await openai.chat.completions.create({
      model: "general",
      messages: say("count"),
      stream: true,
      stream_options: { include_usage: true },
    });
    const { chunks, text, last } = await read(stream);
    expect(text).toBe("tick ".repeat(40));
    expect(chunks[0]!.choices[0]!.delta.role).toBe("assistant");
    expect(last?.finish_reason).toBe("stop");
    expect(chunks.filter(({ choices }) => choices[0]?.delta.content).length).toBeGreaterThan(10);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 0 } });
  });

  test("an answer is read by the client's own accumulator", async () => {
    const run = openai.chat.completions.stream({ model: "general", messages: say("hello") });
    expect(await run.finalContent()).toBe("Hello there.");
  });

  test("an answer continues in the session that the client names", async () => {
    const id = node.newId("kitchen");
    const metadata = { session: id };
    const ask = (content: string) =>
      openai.chat.completions.create({ model: "general", messages: say(content), metadata });
    expect(sessionOf(await ask("hello"))).toBe(id);
    expect(sessionOf(await ask("nod"))).toBe(id);
    const { messages } = await accepted(node.get(`/session/${id}/messages`));
    expect(messages.map(({ content }) => content)).toEqual(["hello", "Hello there.", "nod", "Yes."]);
  });

  test("what was heard of the reply before is told in the metadata or a header, and a wrong position is refused", async () => {
    const session = node.newId("kitchen");
    const ask = (content: string, played?: string, headers?: Record<string, string>) =>
      openai.chat.completions.create(
        { model: "general", messages: say(content), metadata: { session, ...(played !== undefined && { played }) } },
        { headers: headers ?? {} },
      );
    // There is no reply before the first one.
    const answers = [await ask("hello", "7"), await ask("hello", "5")];
    answers.push(await ask("hello", undefined, { "Interlock-Played": "6" }));
    expect(answers.map((answer) => (answer as { metadata?: { played?: string } }).metadata?.played)).toEqual([
      undefined,
      "5",
      "6",
    ]);
    for (const wrong of ["13", "-1", "all"]) await expect(ask("hello", wrong)).rejects.toThrow(BadRequestError);
    const { messages } = await accepted(node.get(`/session/${session}/messages`));
    const replies = messages.filter(({ role }) => role === "assistant");
    expect(replies.map(({ playedUpTo }) => playedUpTo)).toEqual([5, 6, undefined]);
  });

  test("an answer in a new session considers the conversation that the client sends", async () => {
    const answer = await openai.chat.completions.create({
      model: "general",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "hello" },
        { role: "assistant", content: [{ type: "text", text: "Hello there." }] },
        { role: "user", content: [{ type: "text", text: "nod" }] },
      ],
    });
    const { messages } = await accepted(node.get(`/session/${sessionOf(answer)}/messages`));
    expect(messages[0]!.content).toBe(
      "The conversation so far:\n\nInstructions: Be brief.\n\nUser: hello\n\nAssistant: Hello there.\n\nThe user's message now:\n\nnod",
    );
    expect((await accepted(node.get(`/session/${sessionOf(answer)}`))).session.title).toBe("nod");
  });

  test("an answer is given by another agent if the client names one", async () => {
    const ask = (model: string) =>
      openai.chat.completions.create({ model, messages: say("hello"), metadata: { session: "switched" } });
    await ask("general");
    await ask("weather");
    expect((await accepted(node.get("/session/switched"))).session.agentId).toBe("weather");
  });

  test("a repeat with the same key gets the same answer", async () => {
    const headers = { "Idempotency-Key": "the-same" };
    const body = { model: "general", messages: say("hello"), metadata: { session: "keyed" } };
    const first = await openai.chat.completions.create(body, { headers });
    const second = await openai.chat.completions.create(body, { headers });
    expect(second.id).toBe(first.id);
    expect(second.choices).toEqual(first.choices);
    expect((await accepted(node.get("/session/keyed/messages"))).messages).toHaveLength(2);
  });
});

describe("a question of the agent", () => {
  test("a question is a function call, and its result continues the run", async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = say("ask");
    const asked = await openai.chat.completions.create({ model: "general", messages });
    expect(asked.choices[0]!.finish_reason).toBe("tool_calls");
    const [call] = asked.choices[0]!.message.tool_calls!;
    if (call?.type !== "function") throw new Error("a question is a function");
    expect(call.function.name).toBe("user_question");
    expect(JSON.parse(call.function.arguments)).toMatchObject({ question: "Which one?", options: ["a", "b"] });
    messages.push(asked.choices[0]!.message, { role: "tool", tool_call_id: call.id, content: "b" });
    const answer = await openai.chat.completions.create({ model: "general", messages });
    expect(answer.choices[0]!.message.content).toBe("You chose b.");
    expect(sessionOf(answer)).toBe(sessionOf(asked));
  });

  test("a repeated answer with the same key continues the same run, also after its end", async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = say("ask");
    const asked = await openai.chat.completions.create({ model: "general", messages });
    const { message } = asked.choices[0]!;
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls![0]!.id, content: "b" });
    const answer = (key: string) =>
      openai.chat.completions.create({ model: "general", messages }, { headers: { "Idempotency-Key": key } });
    const first = await answer("answered-once");
    expect(first.choices[0]!.message.content).toBe("You chose b.");
    const { id, choices } = await answer("answered-once");
    expect([id, choices]).toEqual([first.id, first.choices]);
    await expect(answer("another")).rejects.toMatchObject({ status: 404, code: "interaction_not_found" });
  });

  test("a question works in a stream too; a confirmation accepts only a clear yes", async () => {
    for (const [content, expected] of [
      ["approve", "Deleted."],
      ["no, thanks", "Kept it."],
    ] as const) {
      const messages: OpenAI.ChatCompletionMessageParam[] = say("delete");
      const asking = openai.chat.completions.stream({ model: "general", messages });
      const { choices } = await asking.finalChatCompletion();
      const [call] = choices[0]!.message.tool_calls!;
      if (call?.type !== "function") throw new Error("a confirmation is a function");
      expect(JSON.parse(call.function.arguments)).toMatchObject({ tool: "delete_file", arguments: '{"path":"a.txt"}' });
      messages.push(choices[0]!.message, { role: "tool", tool_call_id: call.id, content });
      const { text } = await read(await openai.chat.completions.create({ model: "general", messages, stream: true }));
      expect(text).toBe(expected);
    }
  });
});

describe("the floor", () => {
  test("a refused floor is a 403 with a sentence to speak and the decision, and the client does not retry", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const refusal = openai.chat.completions.create({
      model: "weather",
      messages: say("hello"),
      metadata: { user: ann.userId },
    });
    const error = await refusal.catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PermissionDeniedError);
    expect(error).toMatchObject({ status: 403, code: "rejected", type: "conflict_error" });
    expect(error.headers.get("x-should-retry")).toBe("false");
    const { decisions } = await ann.floor();
    expect(decisions).toHaveLength(2);
    expect(error.error.decision).toMatchObject({ outcome: "rejected", say: expect.any(String) });
  });

  test("a turn that waits for the floor streams the decision, and the reply when it comes", async () => {
    const { ann, id } = await hold(node, "phone");
    const stream = await openai.chat.completions.create({
      model: "patient",
      messages: say("hello"),
      metadata: { user: ann.userId, session: node.newId("queuing") },
      stream: true,
    });
    const seen: object[] = [];
    let text = "";
    for await (const chunk of stream) {
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
    const stream = await openai.chat.completions.create({
      model: "music",
      messages: say("count"),
      metadata: { user: ann.userId, session: node.newId("preempted") },
      stream: true,
    });
    const states: string[] = [];
    let text = "";
    let phone: string | undefined;
    for await (const chunk of stream) {
      const { interlock } = chunk as { interlock?: { type: string; data: { to?: string } } };
      if (interlock?.type === "session_transition") states.push(interlock.data.to!.split(".")[0]!);
      text += chunk.choices[0]?.delta.content ?? "";
      if (text !== "" && phone === undefined) phone = (await ann.hold("phone")).id;
      if (interlock?.type === "session_transition" && states.at(-1) === "paused")
        await accepted(ann.on(phone!, "archive"));
    }
    expect(states).toEqual(["paused", "active"]);
    expect(text).toBe("tick ".repeat(40));
  });
});

describe("disconnecting", () => {
  test("disconnecting a stream aborts its run, and not the session's next one", async () => {
    const abort = new AbortController();
    const metadata = { session: node.newId("left") };
    const stream = await openai.chat.completions.create(
      { model: "general", messages: say("play"), metadata, stream: true },
      { signal: abort.signal },
    );
    const log = await node.stream(`/session/${metadata.session}/events`);
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) abort.abort();
    expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
    const next = await openai.chat.completions.create({
      model: "general",
      messages: say("nod"),
      metadata,
    });
    expect(next.choices[0]!.message.content).toBe("Yes.");
  });

  test("disconnecting while waiting for a whole answer aborts the run", async () => {
    const abort = new AbortController();
    await accepted(node.post("/session/create", { id: "whole" }));
    const log = await node.stream("/session/whole/events");
    const waiting = openai.chat.completions.create(
      { model: "general", messages: say("play"), metadata: { session: "whole" } },
      { signal: abort.signal },
    );
    await log.findState("whole", "active.running");
    abort.abort();
    await expect(waiting).rejects.toThrow();
    expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
  });

  test("disconnecting ends the session of an answer that named none, and frees its floor", async () => {
    const ann = new E2eClient(node);
    const abort = new AbortController();
    const stream = await openai.chat.completions.create(
      { model: "weather", messages: say("play"), metadata: { user: ann.userId }, stream: true },
      { signal: abort.signal },
    );
    const { id } = (await ann.floor()).holder!;
    const log = await ann.follow(id);
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) abort.abort();
    await log.findState(id, "archived");
    // The last report may follow the end of the run.
    await expect.poll(async () => (await ann.messages(id)).map(({ content }) => content)).toEqual(["play", "♪ "]);
    const metadata = { user: ann.userId };
    const next = await openai.chat.completions.create({ model: "music", messages: say("nod"), metadata });
    expect(next.choices[0]!.message.content).toBe("Yes.");
  });

  test("disconnecting withdraws a turn that has not begun", async () => {
    const { ann, id } = await hold(node, "stacker");
    const log = await ann.follow(id);
    await accepted(ann.say(id, "play"));
    const abort = new AbortController();
    const stream = await openai.chat.completions.create(
      { model: "stacker", messages: say("hello"), metadata: { session: id }, stream: true },
      { signal: abort.signal },
    );
    abort.abort();
    await expect(read(stream)).resolves.toMatchObject({ text: "" });
    expect((await log.find("complete")).data).toMatchObject({ cancelled: true });
    const { session } = await accepted(node.get(`/session/${id}`));
    expect(session.activity).toBe("running");
    await accepted(ann.send({ type: "abort", sessionId: id }));
  });
});

describe("a failure", () => {
  test("a failure of the provider has its own error, and is not retried", async () => {
    const ask = (content: string) => openai.chat.completions.create({ model: "general", messages: say(content) });
    for (const [content, code, type] of [
      ["flaky", "provider_rate_limited", "rate_limit_error"],
      ["offline", "provider_unreachable", "server_error"],
      ["refused", "provider_refused", "server_error"],
    ] as const) {
      const error: APIError = await ask(content).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(BadRequestError);
      expect(error).toMatchObject({ status: 400, code, type });
    }
  });

  test("a failure within a stream is the client's error", async () => {
    const stream = await openai.chat.completions.create({ model: "general", messages: say("flaky"), stream: true });
    const error = await read(stream).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ code: "provider_rate_limited" });
  });

  test("a failure of a run that another client aborts ends with that abort", async () => {
    const stream = await openai.chat.completions.create({
      model: "general",
      messages: say("play"),
      metadata: { session: "aborted" },
      stream: true,
    });
    const abort = async () => {
      for await (const chunk of stream) {
        if (chunk.choices[0]?.delta.content)
          await accepted(node.post("/message", { type: "abort", sessionId: "aborted" }));
      }
    };
    await expect(abort()).rejects.toMatchObject({ code: "aborted" });
  });

  test("an invalid request is an error that names the wrong field", async () => {
    const ask = (body: object) =>
      openai.chat.completions.create({ model: "general", messages: say("hello"), ...body } as never);
    await expect(ask({ model: "nobody" })).rejects.toMatchObject({
      status: 404,
      code: "model_not_found",
      param: "model",
    });
    await expect(ask({ model: "off" })).rejects.toThrow(NotFoundError);
    await expect(ask({ messages: [] })).rejects.toThrow(BadRequestError);
    await expect(ask({ n: 2 })).rejects.toMatchObject({ status: 400, param: "n" });
    for (const [param, value] of [
      ["tools", [{ type: "function" }]],
      ["functions", [{ name: "f" }]],
      ["tool_choice", "required"],
      ["modalities", ["text", "audio"]],
      ["response_format", { type: "json_object" }],
    ] as const) {
      await expect(ask({ [param]: value })).rejects.toMatchObject({ code: "unsupported_parameter", param });
    }
    await expect(ask({ metadata: { zone: "front" } })).rejects.toMatchObject({ status: 400, param: "metadata.zone" });
    await expect(ask({ metadata: { session: "a b" } })).rejects.toMatchObject({
      status: 400,
      param: "metadata.session",
    });
    await expect(ask({ messages: [{ role: "assistant", content: "x" }] })).rejects.toMatchObject({ status: 400 });
    await expect(ask({ messages: [{ role: "user", content: " " }] })).rejects.toMatchObject({ status: 400 });
    await expect(
      ask({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "http://a/b.png" } }] }] }),
    ).rejects.toMatchObject({ code: "unsupported_parameter", param: "messages[0].content[0].image_url.url" });
    await expect(ask({ messages: [{ role: "tool", tool_call_id: "call_1", content: "x" }] })).rejects.toMatchObject({
      status: 400,
      param: "messages[0].tool_call_id",
    });
    const { session } = await accepted(node.post("/session/create"));
    await expect(
      ask({ messages: [{ role: "tool", tool_call_id: `question.${session.id}.nobody`, content: "x" }] }),
    ).rejects.toMatchObject({ status: 404, code: "interaction_not_found" });
    await expect(ask({ messages: say("x".repeat(262_145)) })).rejects.toMatchObject({ status: 413, code: "too_large" });
  });

  test("an invalid part of a message is named by its place", async () => {
    const text = { type: "text", text: "hello" };
    const wrong: [object[], string][] = [
      [[{ content: "hello" }], "messages[0].role"],
      [[{ role: "user", content: 5 }], "messages[0].content"],
      [[{ role: "user", content: [text, "hello"] }], "messages[0].content[1]"],
      [[{ role: "user", content: [text, { text: "hello" }] }], "messages[0].content[1].type"],
      [[...say("a"), { role: "user", content: [text, { type: "input_audio" }] }], "messages[1].content[1].type"],
      [[{ role: "user", content: [{ type: "text" }] }], "messages[0].content[0].text"],
      [[{ role: "user", content: [{ type: "image_url" }] }], "messages[0].content[0].image_url"],
      [
        [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:text/plain,x" } }] }],
        "messages[0].content[0].image_url.url",
      ],
      [[...say("a"), { role: "assistant", content: [{ type: 7 }] }, ...say("b")], "messages[1].content[0].type"],
      [[{ role: "tool", tool_call_id: 5, content: "x" }], "messages[0].tool_call_id"],
    ];
    for (const [messages, param] of wrong) {
      const answering = openai.chat.completions.create({ model: "general", messages: messages as never });
      await expect(answering, param).rejects.toMatchObject({ status: 400, type: "invalid_request_error", param });
    }
    for (const role of ["system", "assistant"]) {
      const last = { role, content: "hello" } as { role: "system"; content: string };
      const said = expect.stringContaining(`The last message is of "${role}": it must be a user message`);
      const chat = openai.chat.completions.create({ model: "general", messages: [last] });
      await expect(chat).rejects.toMatchObject({ status: 400, param: "messages[0].role", message: said });
      const response = openai.responses.create({ model: "general", input: [last] });
      await expect(response).rejects.toMatchObject({ status: 400, param: "input[0]", message: said });
    }
    const input = [{ role: "user", content: [{ type: "input_file" }] }];
    const answering = openai.responses.create({ model: "general", input: input as never });
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

  test("a conversation of a thousand messages is accepted", async () => {
    const messages = Array.from({ length: 1_000 }, (_, index) => ({
      role: index % 2 === 0 ? ("user" as const) : ("assistant" as const),
      content: [{ type: "text" as const, text: `message ${index}` }],
    }));
    const answer = await openai.chat.completions.create({
      model: "general",
      messages: [...messages, ...say("hello")] as OpenAI.ChatCompletionMessageParam[],
    });
    expect(answer.choices[0]!.message.content).toMatch(/^(You said|Hello)/);
  });
});

describe("a request that a client repeats by itself", () => {
  const send = async (body: object, headers: Record<string, string> = {}) => {
    const response = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
    return { status: response.status, run: response.headers.get("interlock-run"), body: await response.json() };
  };
  const post = (session: string | undefined, content: string, headers?: Record<string, string>) =>
    send({ model: "general", messages: say(content), metadata: session ? { session } : {} }, headers);
  const turnsOf = async (session: string) =>
    (await accepted(node.get(`/session/${session}/messages`))).messages.filter(({ role }) => role === "user").length;

  test("no failure and no refusal of the floor has a status that common clients repeat", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const metadata = { user: ann.userId };
    const refused = await send({ model: "weather", messages: say("hello"), metadata });
    const failed = await Promise.all(["flaky", "offline", "refused"].map((content) => post(undefined, content)));
    for (const { status } of [refused, ...failed]) expect([400, 403]).toContain(status);
  });

  test("the AI SDK's client begins one turn with a call whose turn fails, or that the floor refuses", async () => {
    const ann = new E2eClient(node);
    await ann.hold("phone");
    const headers = { "interlock-session": "by-the-sdk", "interlock-user": ann.userId };
    const provider = createOpenAICompatible({ name: "node", baseURL: `${node.url}/v1`, headers });
    const refused = generateText({ model: provider("weather"), prompt: "hello" });
    await expect(refused).rejects.toMatchObject({ statusCode: 403 });
    expect((await ann.floor()).decisions).toHaveLength(2);
    const failing = createOpenAICompatible({
      name: "node",
      baseURL: `${node.url}/v1`,
      headers: { "interlock-session": "failing-by-the-sdk" },
    });
    const failed = generateText({ model: failing("general"), prompt: "offline" });
    await expect(failed).rejects.toMatchObject({ statusCode: 400 });
    expect(await turnsOf("failing-by-the-sdk")).toBe(1);
  });

  test("a repeat of a failed turn of a named session gets the failure, and begins no turn", async () => {
    const first = await post("failing", "refused");
    const again = await post("failing", "refused");
    expect([first.status, again.status, again.run]).toEqual([400, 400, first.run]);
    expect(await turnsOf("failing")).toBe(1);
  });

  test("a repeat joins the turn that is under way, and a further request after a whole answer begins another", async () => {
    const both = await Promise.all([post("joined", "hello"), post("joined", "hello")]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect(await turnsOf("joined")).toBe(1);
    await post("joined", "hello");
    expect(await turnsOf("joined")).toBe(2);
  });

  test("a repeat that OpenAI's client marks as one joins the turn of a session that has no name", async () => {
    const [first, again] = await Promise.all([
      post(undefined, "slow"),
      post(undefined, "slow", { "x-stainless-retry-count": "1" }),
    ]);
    expect([first.status, again.run]).toEqual([200, first.run]);
  });
});
