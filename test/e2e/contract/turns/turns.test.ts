import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, typesOf } from "../../../support/clients/e2e-client.ts";
import type { StreamEvent } from "../../../support/clients/frame-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

const logged = (events: readonly StreamEvent[]) => events.filter(({ seq }) => seq !== undefined);

/** One turn of a new session, up to the transition that ends it. */
async function turn(content: string, agentId = "general", ann = new E2eClient(node)) {
  const { id } = await ann.hold(agentId, { title: "Given" });
  const stream = await ann.follow(id);
  await stream.findState(id, "active.idle");
  const answer = await accepted(ann.say(id, content));
  const events = await stream.until(
    ({ type, data }) => type === "session_transition" && ["done", "fail", "abort"].includes(String(data["event"])),
  );
  return { ann, id, stream, answer, events };
}

test("a whole turn is logged from the user's message to complete, in this order, its text is streamed in pieces before, and its messages are kept as logged", async () => {
  const { ann, id, answer, events } = await turn("hello");
  const { messageId, runId } = answer;
  const types = "message session_transition usage message session_updated complete session_transition";
  expect(typesOf(logged(events)).join(" ")).toBe(types);
  const [asked, begun, usage, said, updated, complete, done] = logged(events).map(({ data }) => data);
  expect(asked).toEqual({
    ...{ id: messageId, sessionId: id, role: "user", content: "hello", status: "success", streaming: false, runId },
    createdAt: expect.any(Number),
  });
  expect(begun).toEqual({ from: "active.idle", to: "active.running", event: "turn", runId });
  expect(usage).toEqual({ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 });
  expect(said).toEqual({
    id: expect.any(String),
    sessionId: id,
    role: "assistant",
    content: "Hello there.",
    status: "success",
    streaming: false,
    agent: { kind: "master", name: "general", depth: 0, path: ["general"] },
    runId,
    usage,
    createdAt: expect.any(Number),
    startedAt: expect.any(Number),
    finishedAt: expect.any(Number),
  });
  const tokenUsage = { used: 5, breakdown: { input: 3, output: 2, cacheRead: 0, cacheCreation: 0 } };
  expect(updated).toEqual({ summary: "Hello there.", tokenUsage });
  expect(complete).toEqual({ sessionId: id, runId, usage, tokenCount: 5 });
  expect(done).toEqual({ from: "active.running", to: "active.idle", event: "done", runId });
  expect(await ann.messages(id)).toEqual([asked!, said!].map(({ streaming: _, ...message }) => message));
  const deltas = events.filter(({ type }) => type === "delta").map(({ data }) => data);
  const piece = { messageId: said!.id, runId, kind: "text" };
  expect(deltas).toMatchObject([
    { ...piece, offset: 0, text: "Hello " },
    { ...piece, offset: 6, text: "there." },
  ]);
  expect(typesOf(events).lastIndexOf("delta")).toBeLessThan(typesOf(events).lastIndexOf("message"));
});

test("a whole turn leaves the session idle, and its summary, tokens, messages and last activity are updated", async () => {
  const { ann, id } = await turn("hello");
  const { lastActivityAt } = await ann.see(id);
  await ann.talk(id, "hello again");
  const session = await ann.see(id);
  expect(session.lastActivityAt).toBeGreaterThanOrEqual(lastActivityAt);
  expect(session).toMatchObject({
    state: "active",
    activity: "idle",
    summary: "Hello there.",
    messageCount: 4,
    tokenUsage: { used: 10, breakdown: { input: 6, output: 4, cacheRead: 0, cacheCreation: 0 } },
  });
  const completes = (await ann.log(id)).filter(({ type }) => type === "complete");
  expect(completes.map(({ data }) => data["tokenCount"])).toEqual([5, 5]);
});

test("a turn of an agent without text and token counts is complete", async () => {
  const { id, answer, events } = await turn("silence");
  const types = "message session_transition session_updated complete session_transition";
  expect(typesOf(logged(events)).join(" ")).toBe(types);
  const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  expect(events.at(-2)!.data).toEqual({ sessionId: id, runId: answer.runId, usage, tokenCount: 0 });
});

test.each([
  ["flaky", "provider_rate_limited"],
  ["offline", "provider_unreachable"],
  ["refused", "provider_refused"],
])("a turn that fails with %j reports it, completes, and keeps the user's message", async (content, errorCode) => {
  const { ann, id, answer, events } = await turn(content);
  const { runId } = answer;
  const [error, complete, failed] = logged(events).slice(-3);
  expect(error).toMatchObject({ type: "error", data: { errorCode, message: expect.any(String), runId } });
  expect(complete).toMatchObject({ type: "complete", data: { runId } });
  expect(complete!.data).not.toHaveProperty("cancelled");
  const change = { from: "active.running", to: "active.failed", event: "fail", reason: errorCode };
  expect(failed).toMatchObject({ type: "session_transition", data: change });
  const failure = { errorCode, message: error!.data["message"], runId };
  expect(await ann.see(id)).toMatchObject({ state: "active", activity: "failed", failure });
  expect(await ann.messages(id)).toMatchObject([
    { role: "user", content, status: "success" },
    { role: "assistant", content: "", status: "error", runId, errorCode, errorMessage: failure.message },
  ]);
});

test("a turn with a sub-agent sends and keeps the text of both, each with its author", async () => {
  const { ann, id, events } = await turn("browse");
  expect(typesOf(logged(events)).slice(2, -4)).toEqual(["tool_call", "usage", "message", "tool_result"]);
  const call = events.find(({ type }) => type === "tool_call")!.data;
  const result = events.find(({ type }) => type === "tool_result")!.data;
  expect(call).toMatchObject({ function: { name: "sub-agent" }, agent: { kind: "master", name: "general" } });
  expect(result).toMatchObject({ toolCallId: call["toolCallId"], toolName: "sub-agent", status: "success" });
  const [, sub, master] = await ann.messages(id);
  expect(sub).toMatchObject({
    content: "Hello there.",
    agent: { kind: "sub", name: "weather", depth: 1, path: ["general", "weather"] },
  });
  expect(master).toMatchObject({ content: "It says: Hello there.", agent: { kind: "master", name: "general" } });
});
