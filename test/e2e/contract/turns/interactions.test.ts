import { afterAll, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import type { SseReader } from "../../../support/clients/sse-reader.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
const impatient = await NodeUnderTest.start({ settings: { INTERLOCK_INTERACTION_TIMEOUT: "50ms" } });
afterAll(() => Promise.all([node.stop(), impatient.stop()]));

/** A session whose agent waits for an answer. */
async function ask(content: string, ann = new E2eClient(node), agentId = "general") {
  const { id: sessionId } = await ann.hold(agentId);
  const stream = await ann.follow(sessionId);
  await accepted(ann.say(sessionId, content));
  const request = await nextRequest(stream);
  return { ann, sessionId, stream, request, requestId: request.requestId! };
}

const nextRequest = (stream: SseReader) => stream.find(({ type }) => /_request$/.test(type));

async function answer(asked: Awaited<ReturnType<typeof ask>>, response: unknown) {
  const { ann, sessionId, stream, request, requestId } = asked;
  const type = request.type === "user_question_request" ? "user_question_response" : "tool_confirmation_response";
  await accepted(ann.send({ type, sessionId, requestId, response }));
  return stream.until("complete");
}

/** The agent's last message. */
const lastMessage = (events: Awaited<ReturnType<typeof answer>>) =>
  events.findLast(({ type }) => type === "message")!.data["content"];

test("a confirmation is requested with the call and the possible answers, and the session waits; approved, the tool runs and the turn continues to its end", async () => {
  const asked = await ask("delete");
  const { ann, sessionId, stream, request } = asked;
  expect(request.data).toEqual({
    toolCall: {
      toolCallId: expect.any(String),
      function: { name: "delete_file", arguments: '{"path":"a.txt"}' },
    },
    isSensitive: true,
    availableOptions: ["approve", "approve_always", "reject_with_reply", "reject"].map((value) => {
      return { value, label: expect.any(String) };
    }),
    expiresAt: expect.any(Number),
  });
  expect(request.requestId).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
  const call = stream.events.find(({ type }) => type === "tool_call")!;
  expect(call.data).toMatchObject({ ...(request.data["toolCall"] as object), agent: { name: "general" } });
  await stream.findState(sessionId, "active.waiting");
  expect((await ann.see(sessionId)).activity).toBe("waiting");
  const events = await answer(asked, "approve");
  const result = { toolName: "delete_file", status: "success" };
  expect(events.filter(({ type }) => type !== "delta")).toMatchObject([
    { type: "interaction_resolved", requestId: asked.requestId, data: { by: "client" } },
    { type: "session_transition" },
    { type: "tool_result", data: result },
    { type: "message" },
    { type: "session_updated" },
    { type: "complete" },
  ]);
  expect(lastMessage(events)).toBe("Deleted.");
});

test.each([
  ["reject", "Rejected."],
  [{ type: "reject_with_reply", reason: "not now" }, "Rejected: not now"],
  [{ rejectWithReply: "not now" }, "Rejected: not now"],
])("a confirmation that is answered %j gives the agent this answer", async (response, content) => {
  const events = await answer(await ask("delete"), response);
  expect(events.find(({ type }) => type === "tool_result")!.data).toMatchObject({ content, status: "error" });
  expect(lastMessage(events)).toBe("Kept it.");
});

test("a question is asked with its options", async () => {
  const { request } = await ask("ask");
  expect([request.type, request.data]).toMatchObject([
    "user_question_request",
    { question: "Which one?", options: ["a", "b"] },
  ]);
  expect((await ask("pick")).request.data).toMatchObject({ multiSelect: true });
});

test.each([
  ["ask", { selected: "a" }, "You chose a."],
  ["ask", { selected: ["b"] }, "You chose b."],
  ["ask", "b", "You chose b."],
  ["ask", "a\u0000b", "You chose a\uFFFDb."],
  ["ask", { customInput: "neither" }, "You chose neither."],
  ["ask", { selected: [], customInput: "neither" }, "You chose neither."],
  ["ask", { cancelled: true }, "None."],
  ["ask", { selected: "a", cancelled: true }, "None."],
  ["pick", { selected: ["a", "b"] }, "You picked a, b."],
  ["pick", "my own words", "You picked my own words."],
])("a question to %j that is answered %j has the result: %s", async (content, response, said) => {
  expect(lastMessage(await answer(await ask(content), response))).toBe(said);
});

const RESPONSES = {
  delete: "tool_confirmation_response",
  ask: "user_question_response",
  pick: "user_question_response",
};
/** A refusal that names one fault of the response. */
const faulty = (message: unknown, path: unknown = "body.response") => ({
  errorCode: "bad_request",
  issues: [{ path, message }],
});
const wrong = (error: string) => ({ errorCode: "bad_request", error: expect.stringContaining(error) });
const notFound = (error: unknown = expect.any(String)) => ({ errorCode: "interaction_not_found", error });
test.each<[content: keyof typeof RESPONSES, fields: object, refusal: object]>([
  [
    "delete",
    { response: "yes" },
    faulty(expect.stringMatching(/approve, approve_always, reject, .*reject_with_reply/)),
  ],
  ...["reject_with_reply", {}, { type: "reject_with_reply" }, { type: "other", reason: "x" }, null, 1].map(
    (response): ["delete", object, object] => [
      "delete",
      { response },
      faulty(expect.any(String), expect.stringMatching(/^body\.response/)),
    ],
  ),
  ["ask", { response: 7 }, faulty(expect.stringMatching(/a text .*selected.*customInput.*cancelled/))],
  ["ask", { response: { selected: ["nope"] } }, wrong("The question has no option")],
  ["pick", { response: { selected: ["a", "nope"] } }, wrong("The question has no option")],
  ["ask", { response: { selected: ["a", "b"] } }, wrong("The question takes one option.")],
  ["ask", { response: { selected: [] } }, wrong("must select an option, or have a customInput")],
  ["ask", { requestId: "unknown" }, notFound()],
  ["ask", { type: RESPONSES.delete }, notFound(`This request waits for a ${RESPONSES.ask}.`)],
  ["delete", { type: RESPONSES.ask }, notFound(`This request waits for a ${RESPONSES.delete}.`)],
])("a request to %j refuses the answer %j, and still waits", async (content, fields, refusal) => {
  const { ann, sessionId, requestId } = await ask(content);
  const message = { type: RESPONSES[content], sessionId, requestId, response: "approve", ...fields };
  expect(await refused(ann.send(message))).toMatchObject(refusal);
  expect((await ann.see(sessionId)).activity).toBe("waiting");
});

test("a question whose answer was refused takes another one, which is not one of another session", async () => {
  const asked = await ask("ask");
  const { ann, requestId } = asked;
  const message = { type: "user_question_response", requestId, response: "a" };
  const { id: idle } = await new E2eClient(node).create("general");
  expect((await refused(ann.send({ ...message, sessionId: idle }))).errorCode).toBe("interaction_not_found");
  const none = { ...message, sessionId: asked.sessionId, response: { selected: ["nope"] } };
  expect((await refused(ann.send(none))).errorCode).toBe("bad_request");
  expect(lastMessage(await answer(asked, "my own words"))).toContain("my own words");
});

test("an answer may arrive on another connection, after the connection that received the question has closed", async () => {
  const { ann, sessionId, stream, requestId } = await ask("ask");
  await stream.close();
  expect((await ann.see(sessionId)).activity).toBe("waiting");
  const other = await node.stream(`/session/${sessionId}/events`);
  expect(await nextRequest(other)).toMatchObject({ requestId });
  await accepted(ann.send({ type: "user_question_response", sessionId, requestId, response: "a" }));
  expect((await other.find("complete")).data).not.toHaveProperty("cancelled");
});

test("an answer is accepted while the session is paused, and the turn continues when it is resumed", async () => {
  const { ann, sessionId, stream, requestId } = await ask("ask");
  const phone = await ann.hold("phone");
  expect(await ann.see(sessionId)).toMatchObject({ state: "paused", activity: "waiting" });
  await accepted(ann.send({ type: "user_question_response", sessionId, requestId, response: "a" }));
  await stream.find("interaction_resolved");
  await accepted(ann.on(phone.id, "archive"));
  expect(lastMessage(await stream.until("complete"))).toBe("You chose a.");
});

test("a later answer to a timed-out request says so, and the session accepts the next message", async () => {
  const ann = new E2eClient(impatient);
  const { sessionId, stream, requestId } = await ask("ask", ann);
  await stream.findState(sessionId, "active.failed");
  const message = { type: "user_question_response", sessionId, requestId, response: "a" };
  expect((await refused(ann.send(message))).errorCode).toBe("interaction_timeout");
  // Also when the floor is only in the store: a repeated key makes it read the store.
  await accepted(ann.on(sessionId, "pause"));
  for (const _ of ["first", "repeated"]) await ann.askToCreate({ agentId: "chat" }, { key: `key-${sessionId}` });
  expect((await refused(ann.send(message))).errorCode).toBe("interaction_timeout");
  expect((await refused(ann.send({ ...message, requestId: "other" }))).errorCode).toBe("interaction_not_found");
  await ann.talk(sessionId, "hello");
  expect((await ann.messages(sessionId)).at(-1)).toMatchObject({ content: "Hello there." });
});
