import { expect, onTestFinished, test } from "vitest";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";

const ABOUT_RUNS = "a run failed";

async function openInstallation() {
  const provider = await startProviderServer();
  onTestFinished(() => provider.close());
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
  const agents = [
    { name: "sound", adapter },
    { name: "impatient", adapter: { ...adapter, first_token_timeout: "1s" } },
    { name: "keyless", adapter: { ...adapter, api_key_env: "MISSING_KEY" } },
    {
      name: "boss",
      sub_agents: ["sound"],
      adapter: { kind: "scripted", replies: [{ delegate: { name: "sound", task: "go" }, say: ["Done."] }] },
    },
  ];
  const node = await (await makeInstallation({ agents })).start();
  return { provider, node };
}

/** A turn, up to its end. */
async function play(node: ChildServer, agentId: string): Promise<{ sessionId: string; runId: string }> {
  const { session } = (await node.post("/session/create", { agentId, activate: true })).body;
  const { runId } = (await node.post("/message", { type: "chat", sessionId: session.id, content: "hello" })).body;
  const stream = await fetch(`${node.url}/session/${session.id}/events?lastEventId=`);
  let text = "";
  for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.includes('"type":"complete"')) break;
  }
  return { sessionId: session.id, runId };
}

const countOf = (node: ChildServer, agent: string, code: string) =>
  node.metric(`interlock_run_seconds_count{agent="${agent}",outcome="failed",code="${code}"}`);

test("a provider that refuses is logged with its agent, run, code and reason, and counted by its code", async () => {
  const { provider, node } = await openInstallation();
  provider.willReply({ kind: "refusal", status: 401, error: { type: "invalid_request_error" } });
  const about = await play(node, "sound");
  expect(node.log).toContainEqual(
    expect.objectContaining({
      msg: ABOUT_RUNS,
      agentId: "sound",
      ...about,
      code: "provider_refused",
      reason: expect.stringContaining("401"),
    }),
  );
  expect(await countOf(node, "sound", "provider_refused")).toBe(1);
});

test("a silent provider ends its run in time, gets one request, and is logged", async () => {
  const { provider, node } = await openInstallation();
  provider.willReply({ kind: "stream", ending: "never" });
  const about = await play(node, "impatient");
  expect(node.log).toContainEqual(
    expect.objectContaining({
      msg: ABOUT_RUNS,
      ...about,
      code: "provider_unreachable",
      reason: expect.stringMatching(/^127\.0\.0\.1:\d+ no token for 1000 ms$/),
    }),
  );
  expect(provider.requests).toHaveLength(1);
  expect(await countOf(node, "impatient", "provider_unreachable")).toBe(1);
});

test("a provider that fails a sub-agent is logged too, though the run continues", async () => {
  const { provider, node } = await openInstallation();
  provider.willReply({ kind: "refusal", status: 429 });
  const { runId } = await play(node, "boss");
  expect(node.log).toContainEqual(
    expect.objectContaining({ msg: "a sub-agent failed", agentId: "sound", runId, code: "provider_rate_limited" }),
  );
});

test("an agent whose key is missing is named when the node starts", async () => {
  const { node } = await openInstallation();
  expect(node.log).toContainEqual(
    expect.objectContaining({
      msg: "an agent cannot answer",
      agentId: "keyless",
      problem: "the environment variable MISSING_KEY is not set",
    }),
  );
});
