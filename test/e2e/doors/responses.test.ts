import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { afterAll, expect, test } from "vitest";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

/** OpenAI's own client with a real node. */
const provider = await startProviderServer();
const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
const clerk = { name: "clerk", adapter: { ...model, summary: { after: 1 } } };
const node = await NodeUnderTest.start({ agents: [...E2E_AGENTS, clerk] });
const openai = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: "none" });
afterAll(() => Promise.all([node.stop(), provider.close()]));

const says = (text: string) => ({ kind: "stream", text: [text] }) as const;

type Item = OpenAI.Responses.ResponseOutputItem;

const sessionOf = ({ metadata }: OpenAI.Responses.Response) => metadata!["session"]!;

async function read(stream: AsyncIterable<OpenAI.Responses.ResponseStreamEvent>) {
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

function find<T extends Item["type"]>(output: Item[], type: T) {
  return output.find((item) => item.type === type) as Extract<Item, { type: T }>;
}

test("a response arrives completely, with its usage", async () => {
  const response = await openai.responses.create({ model: "general", input: "hello" });
  expect(response).toMatchObject({
    object: "response",
    status: "completed",
    model: "general",
    output_text: "Hello there.",
    error: null,
    usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
  });
});

test("a response arrives as events from which the client's accumulator builds the same response", async () => {
  const run = openai.responses.stream({ model: "general", input: "count" });
  const events = await read(run);
  const final = await run.finalResponse();
  expect(final.output_text).toBe("tick ".repeat(40));
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
  const deltas = events.filter(({ type }) => type === "response.output_text.delta");
  expect(deltas.length).toBeGreaterThan(10);
  const types = events.map(({ type }) => type.replace("response.", "")).filter((type) => !/delta/.test(type));
  expect(types).toEqual([
    ...["created", "in_progress", "output_item.added", "content_part.added"],
    ...["output_text.done", "content_part.done", "output_item.done", "completed"],
  ]);
});

test("a response is continued by its id, and only the newest can be", async () => {
  const first = await openai.responses.create({ model: "general", input: "hello" });
  const second = await openai.responses.create({ model: "general", input: "nod", previous_response_id: first.id });
  expect(sessionOf(second)).toBe(sessionOf(first));
  expect(second.previous_response_id).toBe(first.id);
  const messages = await node.messages(sessionOf(first));
  expect(messages.map(({ content }) => content)).toEqual(["hello", "Hello there.", "nod", "Yes."]);
  const again = openai.responses.create({ model: "general", input: "nod", previous_response_id: first.id });
  await expect(again).rejects.toThrow(BadRequestError);
  const unknown = openai.responses.create({ model: "general", input: "nod", previous_response_id: "resp_no.run" });
  await expect(unknown).rejects.toThrow(NotFoundError);
  await expect(unknown).rejects.toMatchObject({ code: "previous_response_not_found" });
});

test("of several requests at once that continue the same response one begins a turn, also with another agent", async () => {
  for (const model of ["stacker", "general"]) {
    const { id } = await openai.responses.create({ model: "stacker", input: "hello" });
    const asked = ["one", "two", "three"].map((input) =>
      openai.responses.create({ model, input, previous_response_id: id }, { maxRetries: 0 }),
    );
    const outcomes = await Promise.allSettled(asked);
    const refusals = outcomes.flatMap((each) => (each.status === "rejected" ? [each.reason.message] : []));
    expect(refusals).toEqual(Array(2).fill(expect.stringContaining("continues an older response")));
  }
  // The switch of the agent changes the session between the check and the message: the message is sent again.
  const { id } = await openai.responses.create({ model: "stacker", input: "hello" });
  const ask = () =>
    openai.responses.create(
      { model: "general", input: "nod", previous_response_id: id },
      { headers: { "Idempotency-Key": id } },
    );
  const [first, again] = [await ask(), await ask()];
  expect([again.id, again.model]).toEqual([first.id, "general"]);
});

test("a request that continues a response is repeated with its key, or as OpenAI's client marks it, and has one effect", async () => {
  const { id: previous_response_id } = await openai.responses.create({ model: "general", input: "hello" });
  const ask = (headers: Record<string, string>) =>
    openai.responses.create({ model: "general", input: "nod", previous_response_id }, { headers });
  const keyed = { "Idempotency-Key": previous_response_id };
  const first = await ask(keyed);
  expect((await ask(keyed)).id).toBe(first.id);
  await expect(ask({})).rejects.toThrow(BadRequestError);
  const play = async (headers: Record<string, string>) => {
    const about = { model: "general", input: "play", previous_response_id: first.id, stream: true as const };
    const stream = await openai.responses.create(about, { headers });
    for await (const event of stream) if (event.type === "response.created") return { stream, id: event.response.id };
    throw new Error("the response did not begin");
  };
  const begun = await play({});
  expect((await play({ "x-stainless-retry-count": "1" })).id).toBe(begun.id);
  const [session] = begun.id.replace("resp_", "").split(".");
  const said = (await node.messages(session!, "user")).map(({ content }) => content);
  expect(said).toEqual(["hello", "nod", "play"]);
});

test("a response is continued although a summary of its session was written after it", async () => {
  provider.willReply(...["Here.", "A summary", "Still here.", "Another"].map((text) => says(text)));
  const first = await openai.responses.create({ model: "clerk", input: "hello" });
  const log = await node.stream(`/session/${sessionOf(first)}/events`);
  await log.until(({ type, data }) => type === "message" && data["summary"] !== undefined);
  const next = await openai.responses.create({ model: "clerk", input: "and now?", previous_response_id: first.id });
  expect(next.output_text).toBe("Still here.");
  await log.until(({ type, data }) => type === "message" && data["summary"] !== undefined);
});

test("a response belongs to the conversation that the client names", async () => {
  const ask = (input: string) => openai.responses.create({ model: "general", input, conversation: "lounge" });
  expect(sessionOf(await ask("hello"))).toBe("lounge");
  expect(sessionOf(await ask("nod"))).toBe("lounge");
});

test("a response considers the instructions of its first request", async () => {
  const instructions = "Be brief.";
  const first = await openai.responses.create({ model: "general", instructions, input: "nod" });
  await openai.responses.create({ model: "general", instructions, input: "nod", previous_response_id: first.id });
  const messages = await node.messages(sessionOf(first));
  const [begin, , next] = messages.map(({ content }) => content);
  expect(begin).toBe("The conversation so far:\n\nInstructions: Be brief.\n\nThe user's message now:\n\nnod");
  expect(next).toBe("nod");
});

test("a response that is not stored ends its session", async () => {
  const response = await openai.responses.create({ model: "general", input: "hello", store: false });
  const log = await node.stream(`/session/${sessionOf(response)}/events`);
  await log.findState(sessionOf(response), "archived");
});

test("a tool of the agent is shown as a call that was executed", async () => {
  const run = openai.responses.stream({ model: "general", input: "browse" });
  const events = await read(run);
  const { output, output_text } = await run.finalResponse();
  expect(output_text).toBe("It says: Hello there.");
  expect(find(output, "mcp_call")).toMatchObject({ name: "sub-agent", status: "completed", error: null });
  expect(JSON.parse(find(output, "mcp_call").output!)).toEqual({ ok: true, result: "Hello there." });
  expect(output.map(({ type }) => type)).toEqual(["mcp_call", "message"]);
  expect(events.map(({ type }) => type)).toContain("response.mcp_call.completed");
  const whole = await openai.responses.create({ model: "general", input: "browse" });
  expect(whole.output.map(({ type }) => type)).toEqual(["mcp_call", "message"]);
});

test.each([
  ["a text", "b"],
  ["a list of texts", [{ type: "input_text" as const, text: "b" }]],
])("a tool that asks the user is a function call, and its output continues the run: %s", async (_, output) => {
  const asked = await openai.responses.stream({ model: "general", input: "ask" }).finalResponse();
  const call = find(asked.output, "function_call");
  expect(call.name).toBe("user_question");
  expect(JSON.parse(call.arguments)).toMatchObject({ question: "Which one?", options: ["a", "b"] });
  const input = [{ type: "function_call_output" as const, call_id: call.call_id, output }];
  const answer = await openai.responses.create({ model: "general", input });
  expect([answer.output_text, sessionOf(answer)]).toEqual(["You chose b.", sessionOf(asked)]);
});

test("a tool of the agent that needs the user's consent is an approval request", async () => {
  for (const approve of [true, false]) {
    const asked = await openai.responses.create({ model: "general", input: "delete" });
    const request = find(asked.output, "mcp_approval_request");
    expect(request).toMatchObject({ name: "delete_file", arguments: '{"path":"a.txt"}' });
    const verdict = { type: "mcp_approval_response" as const, approve, reason: "better not" };
    const input = [{ ...verdict, approval_request_id: request.id }];
    const run = openai.responses.stream({ model: "general", input });
    expect((await run.finalResponse()).output_text).toBe(approve ? "Deleted." : "Kept it.");
  }
});

test("a failed run is a failed response, or the error of its request", async () => {
  const events = await read(await openai.responses.create({ model: "general", input: "refused", stream: true }));
  expect(events.at(-1)).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code: "provider_refused" } },
  });
  const whole = openai.responses.create({ model: "general", input: "refused" });
  await expect(whole).rejects.toMatchObject({ status: 400, code: "provider_refused" });
});

test("an invalid request is an error that names the wrong field", async () => {
  const ask = (body: object) => openai.responses.create({ model: "general", input: "hello", ...body } as never);
  await expect(ask({ model: "nobody" })).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  await expect(ask({ input: [] })).rejects.toMatchObject({ status: 400 });
  for (const [param, value] of [
    ["background", true],
    ["tools", [{ type: "web_search" }]],
    ["tool_choice", { type: "file_search" }],
    ["prompt", { id: "pmpt_1" }],
  ] as const) {
    await expect(ask({ [param]: value })).rejects.toMatchObject({ code: "unsupported_parameter", param });
  }
  await expect(ask({ conversation: "a b" })).rejects.toMatchObject({ status: 400 });
  const stray = { type: "function_call_output", call_id: "x", output: "y" };
  await expect(ask({ input: [stray] })).rejects.toMatchObject({ status: 400, param: "input[0].call_id" });
});
