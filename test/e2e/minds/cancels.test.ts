import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { gone, running } from "../../support/agents/processes.ts";
import { acpAdapter } from "../../support/agents/programs.ts";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const provider = await startProviderServer();
afterAll(() => provider.close());

const tag = `tag-${randomUUID()}`;
const set = { TEST_TAG: tag };
/** Longer than any test, so that a silent provider does not end a run. */
const patience = { first_token_timeout: "1h", next_token_timeout: "1h" };
const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl, ...patience };
const CATALOG = {
  agents: [
    { name: "model", adapter: model },
    { name: "starting", adapter: { ...acpAdapter("hangs"), set } },
    { name: "coder", adapter: { ...acpAdapter(), set } },
  ],
};

const says = (text: string) => ({ kind: "stream", text: [text] }) as const;

/** Abort twice at once. One of them may come too late to find a run, and neither may fail. */
const abort = (talk: Talk) => Promise.all([talk.send({ type: "abort" }), talk.send({ type: "abort" })]);

/** The run has ended once, as an abort, and the session accepts the next turn. */
async function expectCancelled(talk: Talk, runId: string): Promise<void> {
  expect((await talk.ended(runId)).data.cancelled).toBe(true);
  await talk.until(() => talk.state === "active.idle");
  expect(talk.eventsOf("complete").filter(({ data }) => data.runId === runId)).toHaveLength(1);
  expect(talk.eventsOf("error")).toEqual([]);
}

describeDeployments("a cancel", { catalog: () => CATALOG }, (deployment) => {
  test("an abort in the first chunk keeps the text so far, and releases the connection", async () => {
    const talk = await Talk.open(deployment, "model");
    provider.willReply({ ...says("Once upon"), ending: "never" });
    const asked = provider.nextRequest();
    const runId = await talk.say("hello");
    await talk.until(() => talk.reading("Once upon"));
    await abort(talk);
    await expectCancelled(talk, runId);
    await (await asked).closed;
    const said = async () => (await talk.messages()).map(({ content, status }) => [content, status]);
    // The last report may follow the end of the run.
    await expect.poll(async () => (await said()).at(-1)).toEqual(["Once upon", "interrupted"]);
  });

  test.each([
    ["while a program starts", "starting", 1],
    ["while a program is in the middle of a tool", "coder", 2],
  ])("a cancel %s leaves no process behind", async (_, agentId, processes) => {
    const talk = await Talk.open(deployment, agentId);
    const runId = await talk.say("tool");
    await running(tag, processes);
    await abort(talk);
    await expectCancelled(talk, runId);
    await gone(tag);
  });

  test("questions that a coding agent cancels are gone for the user, and a late answer is refused", async () => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const gate = join(folder, "go");
    const talk = await Talk.open(deployment, "coder");
    const runId = await talk.say(`reconsiders ${gate}`);
    const asked = [await talk.asked("tool_confirmation_request"), await talk.asked("user_question_request")];
    expect(talk.state).toBe("active.waiting");
    writeFileSync(gate, "");
    await talk.ended(runId);
    const resolved = talk.eventsOf("interaction_resolved");
    expect(resolved.map(({ data }) => data)).toEqual([{ by: "agent" }, { by: "agent" }]);
    const idsOf = (events: typeof resolved) => events.map(({ requestId }) => requestId).toSorted();
    expect(idsOf(resolved)).toEqual(idsOf(asked));
    const moves = talk.eventsOf("session_transition").map(({ data }) => data["event"]);
    expect(moves.slice(-3)).toEqual(["ask", "answer", "done"]);
    const late = { type: "tool_confirmation_response", sessionId: talk.id, requestId: asked[0]!.requestId };
    const { status, body } = await deployment.there.post("/message", { ...late, response: "approve" });
    expect([status, body.errorCode]).toEqual([404, "interaction_not_found"]);
    expect((await talk.messages()).at(-1)).toMatchObject({ content: "[-32800,-32800]", status: "success" });
  });

  // In one process no moment is before the worker's: the abort arrives while the run is being claimed.
  const early = deployment.isEmbedded ? "while the run is being claimed" : "before a worker has taken the run";
  test(`an abort ${early} ends it, and the next turn is answered`, async () => {
    const talk = await Talk.open(deployment, "model");
    const worker = deployment.isEmbedded ? undefined : deployment.workers[0]!;
    provider.replyBy(() => ({ kind: "stream", ending: "never" }));
    const asked = provider.requests.length;
    worker?.freeze();
    const runId = await talk.say("one");
    await abort(talk);
    worker?.thaw();
    await expectCancelled(talk, runId);
    if (worker) expect(provider.requests).toHaveLength(asked);
    provider.willReply(says("Second."));
    await talk.ask("two");
    expect((await talk.messages()).map(({ content }) => content)).toEqual(["one", "two", "Second."]);
  });
});
