import { beforeAll, expect, test } from "vitest";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { atEndOfSuite } from "../../support/runner/at-end-of-suite.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";

const SUMMARY = "A trip to Oslo\n\nThe user flies to Oslo on Friday.";

describeClusters("over several nodes", (servers) => {
  const atEnd = atEndOfSuite();
  let provider: ProviderServer;
  let cluster: Cluster;
  let gateway: ChildServer;
  let workers: readonly ChildServer[];

  beforeAll(async () => {
    provider = await startProviderServer();
    atEnd(() => provider.close());
    const adapter = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
    const agents = [
      { name: "model", adapter: { ...adapter, summary: { after: 1, keep: 0 } } },
      { name: "choosing", tools: ["clock"], modes: [{ name: "talk" }, { name: "work", tools: ["clock"] }], adapter },
    ];
    cluster = await Cluster.make(servers, { catalog: { agents }, atEnd });
    [gateway, , ...workers] = await cluster.startAll(["gateway"], ["orchestrator"], ["worker"], ["worker"]);
  }, 60_000);

  const create = async (agentId: string) =>
    (await gateway.post("/session/create", { agentId, activate: true })).body.session.id;
  async function talk(sessionId: string, ...replies: string[]): Promise<void> {
    provider.willReply(...replies.map((text) => ({ kind: "stream" as const, text: [text] })));
    const { runId } = (await gateway.post("/message", { type: "chat", sessionId, content: "go" })).body;
    await gateway.follow(sessionId, ({ type, data }) => type === "complete" && data["runId"] === runId);
  }

  test("a summary whose worker is killed is written by another, and used by the next turn", async () => {
    const id = await create("model");
    const before = provider.requests.length;
    provider.willReply({ kind: "stream", text: ["Yes."] }, { kind: "stream", text: ["A"], ending: "never" });
    await gateway.post("/message", { type: "chat", sessionId: id, content: "one" });
    while (provider.requests.length < before + 2) await provider.nextRequest();
    await Promise.all(workers.map((worker) => worker.kill()));
    provider.willReply({ kind: "stream", text: [SUMMARY] });
    workers = await cluster.startAll(["worker"], ["worker"]);
    await gateway.follow(id, ({ type, data }) => type === "message" && data["summary"] !== undefined);
    await talk(id, "Yes.", SUMMARY);
    const asked = JSON.parse(provider.requests[before + 3]!.body) as { messages: { content: string }[] };
    expect(asked.messages[0]!.content).toContain(SUMMARY);
    // The summary of this turn, because the next test scripts its own replies.
    while (provider.requests.length < before + 5) await provider.nextRequest();
  });

  test("a mode chosen at one node selects the tools at another", async () => {
    const id = await create("choosing");
    expect((await gateway.post(`/session/${id}/mode`, { mode: "work" })).status).toBe(200);
    await talk(id, "Yes.");
    const { tools } = JSON.parse(provider.requests.at(-1)!.body) as { tools: { function: { name: string } }[] };
    expect(tools.map((tool) => tool.function.name)).toEqual(["clock"]);
  });
});
