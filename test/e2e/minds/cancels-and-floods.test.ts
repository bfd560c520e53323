import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { gone, running } from "../../support/agents/processes.ts";
import { acpAdapter } from "../../support/agents/programs.ts";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";
import { WIRES } from "../../support/servers/provider-wire.ts";
import { SmallServer } from "../../support/servers/small-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const MEGABYTE = 1_048_576;
const LIMIT = 4_194_304;
const PIECE = "~".repeat(65_536);

/** A provider that sends a hundred megabytes as fast as they are read. */
let sent = 0;
let hungUp: Promise<unknown>;
const sea = await SmallServer.start(async (response) => {
  sent = 0;
  const closed = once(response, "close");
  hungUp = closed;
  const wire = WIRES["openai-compatible"];
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(wire.open());
  const frame = wire.text([PIECE]);
  while (sent < 100 * MEGABYTE && !response.destroyed) {
    sent += PIECE.length;
    if (!response.write(frame)) await Promise.race([once(response, "drain"), closed]);
  }
  response.end(wire.close({ input: 1, output: 1 }, "whole"));
});
const provider = await startProviderServer();
afterAll(async () => {
  await provider.close();
  await sea[Symbol.asyncDispose]();
});

const tag = `tag-${randomUUID()}`;
const set = { TEST_TAG: tag };
const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m" };
/** Longer than any test, so that a silent provider does not end a run. */
const patience = { first_token_timeout: "1h", next_token_timeout: "1h" };
const CATALOG = {
  agents: [
    { name: "model", adapter: { ...model, ...patience, base_url: provider.baseUrl } },
    { name: "sea", adapter: { ...model, base_url: `${sea.url}/v1` } },
    { name: "general" },
    { name: "starting", adapter: { ...acpAdapter("hangs"), set } },
    { name: "coder", adapter: { ...acpAdapter(), set } },
  ],
};

/** Abort twice at once. One of them may come too late to find a run, and neither may fail. */
const abort = (talk: Talk) => Promise.all([talk.send({ type: "abort" }), talk.send({ type: "abort" })]);

/** The run has ended once, as an abort, and the session accepts the next turn. */
async function expectCancelled(talk: Talk, runId: string): Promise<void> {
  expect((await talk.ended(runId)).data.cancelled).toBe(true);
  await talk.until(() => talk.state === "active.idle");
  expect(talk.eventsOf("complete").filter(({ data }) => data.runId === runId)).toHaveLength(1);
  expect(talk.eventsOf("error")).toEqual([]);
}

describeDeployments("a turn that is cancelled or floods", { catalog: () => CATALOG }, (deployment) => {
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
    provider.willReply({ kind: "stream", text: ["Second."] });
    await talk.ask("two");
    expect((await talk.messages()).map(({ content }) => content)).toEqual(["one", "two", "Second."]);
  });

  test("a reply of a hundred megabytes is cut at the limit with an error and not read further, while others are answered", async () => {
    const [talk, other] = [await Talk.open(deployment, "sea"), await Talk.open(deployment, "general")];
    const runId = await talk.say("speak");
    await other.ask("hello");
    expect((await other.messages()).at(-1)!.content).toBe("You said: hello");
    await talk.ended(runId);
    expect(talk.eventsOf("error").map(({ data }) => [data.errorCode, data["message"]])).toEqual([
      ["too_large", "The reply is longer than 4,194,304 characters, and was cut there."],
    ]);
    const said = talk.eventsOf("message").filter(({ data }) => data["role"] === "assistant" && !data.streaming);
    const length = said.reduce((sum, { data }) => sum + data.content.length, 0);
    expect(length).toBeGreaterThan(LIMIT - PIECE.length);
    expect(length).toBeLessThanOrEqual(LIMIT);
    await hungUp;
    expect(sent).toBeLessThan(50 * MEGABYTE);
    await other.ask("again");
    expect((await other.messages()).at(-1)!.content).toBe("You said: again");
  });

  test("a provider that answers 429 fails each of twenty turns after one request, and delays no other session", async () => {
    const refusal = { kind: "refusal", status: 429, headers: { "retry-after": "3" } } as const;
    provider.replyBy(() => refusal);
    const asked = provider.requests.length;
    const talks = await Promise.all(Array.from({ length: 5 }, () => Talk.open(deployment, "model")));
    const other = await Talk.open(deployment, "general");
    const failing = talks.map(async (talk) => {
      for (let turn = 0; turn < 4; turn += 1) await talk.ask(`turn ${turn}`);
    });
    await other.ask("hello");
    await Promise.all(failing);
    expect(provider.requests).toHaveLength(asked + 20);
    for (const talk of talks) {
      expect(talk.eventsOf("error").map(({ data }) => [data.errorCode, data["retryAfterMs"]])).toEqual(
        Array(4).fill(["provider_rate_limited", 3_000]),
      );
      expect(talk.eventsOf("complete")).toHaveLength(4);
      await talk.until(() => talk.state === "active.failed");
    }
    provider.replyBy(() => ({ kind: "stream", text: ["Better."] }));
    await talks[0]!.ask("and now?");
    expect((await talks[0]!.messages()).at(-1)!.content).toBe("Better.");
  });
});
