import OpenAI from "openai";
import { afterAll, describe, expect, test } from "vitest";
import { accepted } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";

/** Sessions of OpenAI's clients that name none: no client returns to them, so they end with their reply. */
const node = await NodeUnderTest.start();
const impatient = await NodeUnderTest.start({ settings: { INTERLOCK_INTERACTION_TIMEOUT: "50ms" } });
afterAll(() => Promise.all([node.stop(), impatient.stop()]));

const clientOf = ({ url }: NodeUnderTest) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const say = (content: string) => [{ role: "user" as const, content }];
const sessionOf = (answer: object) => (answer as { metadata: { session: string } }).metadata.session;

async function findEnd(at: NodeUnderTest, sessionId: string) {
  const log = await at.stream(`/session/${sessionId}/events`);
  return (await log.findState(sessionId, "archived")).data;
}

/** A call of the client's function, as the last message of an answer. */
function callOf({ choices }: OpenAI.ChatCompletion) {
  const { message } = choices[0]!;
  const [call] = message.tool_calls!;
  return { message, id: call!.id };
}

describe("a session that the client did not name", () => {
  test("it ends when its question expires without an answer", async () => {
    const asked = await clientOf(impatient).chat.completions.create({ model: "general", messages: say("ask") });
    expect(asked.choices[0]!.finish_reason).toBe("tool_calls");
    expect(await findEnd(impatient, sessionOf(asked))).toMatchObject({ event: "archive", reason: "after_turn" });
  });

  test("it ends when its question expires, also if it is of a response that is not to be stored", async () => {
    const openai = clientOf(impatient);
    const asked = await openai.responses.create({ model: "general", input: "ask", store: false });
    expect(asked.output[0]).toMatchObject({ type: "function_call" });
    expect(await findEnd(impatient, sessionOf(asked))).toMatchObject({ event: "archive" });
    const kept = await openai.responses.create({ model: "general", input: "ask" });
    const log = await impatient.stream(`/session/${sessionOf(kept)}/events`);
    await log.findState(sessionOf(kept), "active.failed");
  });

  test("it ends when another client aborts it while it asks", async () => {
    const asked = await clientOf(node).chat.completions.create({ model: "general", messages: say("ask") });
    const sessionId = sessionOf(asked);
    expect((await accepted(node.get(`/session/${sessionId}`))).session.activity).toBe("waiting");
    await accepted(node.post("/message", { type: "abort", sessionId }));
    await findEnd(node, sessionId);
  });

  test("it ends with the reply to its answer", async () => {
    const openai = clientOf(node);
    const asked = await openai.chat.completions.create({ model: "general", messages: say("ask") });
    const { message, id } = callOf(asked);
    const messages = [...say("ask"), message, { role: "tool" as const, tool_call_id: id, content: "b" }];
    await openai.chat.completions.create({ model: "general", messages });
    await findEnd(node, sessionOf(asked));
  });

  test("it ends with a failed reply", async () => {
    const headers = { "Interlock-User": node.newId("ann") };
    const failing = clientOf(node).chat.completions.create({ model: "general", messages: say("refused") }, { headers });
    await expect(failing).rejects.toMatchObject({ code: "provider_refused" });
    const { sessions } = await accepted(
      node.get(`/session/list?userId=${headers["Interlock-User"]}&includeArchived=true`),
    );
    await findEnd(node, sessions[0]!.id);
  });
});

describe("a session that the client named", () => {
  test("it stays, also if the answer to its question does not name it again", async () => {
    const openai = clientOf(node);
    const metadata = { session: node.newId("kept") };
    const asked = await openai.chat.completions.create({ model: "general", messages: say("ask"), metadata });
    const { message, id } = callOf(asked);
    const messages = [...say("ask"), message, { role: "tool" as const, tool_call_id: id, content: "b" }];
    await openai.chat.completions.create({ model: "general", messages });
    const next = await openai.chat.completions.create({ model: "general", messages: say("nod"), metadata });
    expect(next.choices[0]!.message.content).toBe("Yes.");
  });
});
