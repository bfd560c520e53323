import { expect, test } from "vitest";
import { create, say } from "../../support/clients/node-client.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { beforeTries } from "../../support/runner/before-tries.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";

const ABOUT_RUNS = "a run failed";

const atEnd = atEndOfSuite();
let provider: ProviderServer;
let node: ChildServer;

beforeTries(async () => {
  provider = await startProviderServer();
  atEnd(() => provider.close());
  const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
  const replies = [{ delegate: { name: "sound", task: "go" }, say: ["Done."] }];
  const agents = [
    { name: "sound", adapter },
    { name: "impatient", adapter: { ...adapter, first_token_timeout: "1s" } },
    { name: "keyless", adapter: { ...adapter, api_key_env: "MISSING_KEY" } },
    { name: "boss", sub_agents: ["sound"], adapter: { kind: "scripted", replies } },
  ];
  node = await (await makeInstallation({ agents }, {}, atEnd)).start();
});

/** A turn, up to its end. */
async function play(agentId: string): Promise<{ sessionId: string; runId: string }> {
  const sessionId = `of-${agentId}`;
  await create(node, sessionId, agentId);
  const runId = await say(node, sessionId, "hello");
  await node.follow(sessionId, ({ type }) => type === "complete");
  return { sessionId, runId };
}

const countOf = (agent: string, code: string) =>
  node.metric(`interlock_run_seconds_count{agent="${agent}",outcome="failed",code="${code}"}`);

/** The node has logged a line with these facts. */
const logged = (facts: object) => expect.poll(() => node.log).toContainEqual(expect.objectContaining(facts));

test("a provider that refuses is logged with its agent, run, code and reason, and counted by its code", async () => {
  provider.willReply({ kind: "refusal", status: 401, error: { type: "invalid_request_error" } });
  const about = await play("sound");
  const reason = expect.stringContaining("401");
  await logged({ msg: ABOUT_RUNS, agentId: "sound", ...about, code: "provider_refused", reason });
  await expect.poll(() => countOf("sound", "provider_refused")).toBe(1);
});

test("a run whose provider is away is listed with the failure after which it tries again, and is cancelled meanwhile", async () => {
  provider.willReply({ kind: "refusal", status: 503, headers: { "retry-after": "10" } });
  await create(node, "trying", "sound");
  const runId = await say(node, "trying", "hello");
  const again = { after: "provider_unreachable", nextAt: expect.any(Number) };
  const runs = async () => (await node.ask("GET", "/runs")).body.runs;
  await expect.poll(runs).toMatchObject([{ id: runId, state: "driven", attempt: 1, again }]);
  expect((await node.post(`/runs/${runId}/cancel`)).status).toBe(200);
  await node.follow("trying", ({ type, data }) => type === "complete" && data["cancelled"] === true);
  expect(await runs()).toEqual([]);
});

test("a silent provider ends its run in time, gets one request, and is logged", async () => {
  provider.willReply({ kind: "stream", ending: "never" });
  const before = provider.requests.length;
  const about = await play("impatient");
  const reason = expect.stringMatching(/^127\.0\.0\.1:\d+ no token for 1000 ms$/);
  await logged({ msg: ABOUT_RUNS, ...about, code: "provider_unreachable", reason });
  expect(provider.requests).toHaveLength(before + 1);
  await expect.poll(() => countOf("impatient", "provider_unreachable")).toBe(1);
});

test("a provider that fails a sub-agent is logged too, though the run continues", async () => {
  provider.willReply({ kind: "refusal", status: 429 });
  const { runId } = await play("boss");
  await logged({ msg: "a sub-agent failed", agentId: "sound", runId, code: "provider_rate_limited" });
});

test("an agent whose key is missing is named when the node starts", async () => {
  const problem = "the environment variable MISSING_KEY is not set";
  await logged({ msg: "an agent cannot answer", agentId: "keyless", problem });
});
