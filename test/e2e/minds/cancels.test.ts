import { afterAll, expect, test } from "vitest";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const provider = await startProviderServer();
afterAll(() => provider.close());

/** Longer than any test, so that a silent provider does not end a run. */
const patience = { first_token_timeout: "1h", next_token_timeout: "1h" };
const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl, ...patience };
const CATALOG = { agents: [{ name: "model", adapter: model }] };

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
