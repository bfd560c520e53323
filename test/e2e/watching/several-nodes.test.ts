import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { HeardReport } from "../../../src/protocol/internal/node-report.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { metricOf } from "../../support/clients/node-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { REDIS, type RedisServer } from "../../support/servers/redis-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { type SentSpan, TraceCollector } from "../../support/servers/trace-collector.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CALLER = { traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` };
const ROLES = ["orchestrator", "worker", "gateway"] as const;

describeWith([POSTGRES, REDIS], "three nodes, one of each role", (startPostgres, startRedis) => {
  const postgres = serverOf(startPostgres);
  let server: RedisServer;
  const closing: (() => Promise<unknown>)[] = [];
  const nodes = {} as Record<(typeof ROLES)[number], NodeUnderTest>;
  /** The settings of the node that started last. */
  let settings: Record<string, string>;
  let collector: TraceCollector;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.stop());

  // For each test and each try: a test counts what the nodes do from their start to their end.
  beforeEach(async () => {
    const { url, drop } = await postgres().makeDatabase();
    closing.push(drop);
    collector = await TraceCollector.start();
    closing.push(() => collector[Symbol.asyncDispose]());
    for (const role of ROLES) {
      settings = { INTERLOCK_STORE: url, INTERLOCK_BUS: server.url, INTERLOCK_ROLES: role };
      nodes[role] = await NodeUnderTest.start({ settings, env: collector.env });
      // Already stopped if the test passed.
      const node = nodes[role];
      closing.push(() => node.shutDown());
    }
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  test("each node reports what all nodes are and do, and a node that stops is removed", async () => {
    const { gateway } = nodes;
    const list = async () => {
      const answer = (await accepted(gateway.get("/nodes"))) as unknown as { nodes: HeardReport[] };
      return answer.nodes.map(({ isSelf, roles, partitions, missing }) => ({ isSelf, roles, partitions, missing }));
    };
    const about = (role: string) => ({ roles: [role], partitions: role === "orchestrator" ? 256 : 0, missing: [] });
    const three = [{ isSelf: true, ...about("gateway") }, about("orchestrator"), about("worker")];
    // A node that is slow to answer is missing from the list.
    await expect.poll(async () => (await list()).length).toBe(3);
    await expect.poll(list).toEqual(expect.arrayContaining(three));
    const more = await NodeUnderTest.start({ settings: { ...settings, INTERLOCK_ROLES: "worker" } });
    await expect.poll(async () => (await list()).length).toBe(4);
    await more.stop();
    await expect.poll(async () => (await list()).length).toBe(3);
  });

  test("without a worker, orchestrators count the runs that wait, and every list of nodes names the role that is missing", async () => {
    const { gateway, orchestrator, worker } = nodes;
    await worker.stop();
    const user = new E2eClient(gateway);
    const { id } = await user.hold("music");
    await accepted(user.say(id, "hello"));
    await expect.poll(() => metricOf(orchestrator, "interlock_runs_waiting")).toBe(1);
    await expect.poll(() => metricOf(orchestrator, "interlock_runs_waiting_seconds")).toBeGreaterThan(0);
    expect((await accepted(gateway.get("/nodes"))) as unknown).toMatchObject({ absentRoles: ["worker"] });
    const say = async () => {
      const another = new E2eClient(gateway);
      return another.say((await another.hold("music")).id, "hello");
    };
    const notice = "No worker answers: the turn waits until one starts.";
    await expect.poll(say).toMatchObject({ status: 200, body: { notice } });
    const { session } = await accepted(gateway.post("/session/create", { agentId: "music" }));
    const params = { name: "speak", arguments: { sessionId: session.id, content: "hello", waitSeconds: 0 } };
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const headers = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    const spoken = await fetch(`${gateway.url}/mcp`, { method: "POST", headers, body: JSON.stringify(call) });
    expect(await spoken.text()).toContain(`"notice":"${notice}"`);
    const messages = [{ role: "user", content: "hello" }];
    const parts = [{ type: "text", text: "hello" }];
    for (const [path, body] of [
      ["/v1/chat/completions", { model: "music", messages, stream: true }],
      ["/v1/responses", { model: "music", input: "hello", stream: true }],
      ["/api/chat", { id: "by-use-chat", messages: [{ id: "m1", role: "user", parts }] }],
    ] as const) {
      const answer = await fetch(`${gateway.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      expect([path, answer.headers.get("interlock-notice")]).toEqual([path, notice]);
      await answer.body?.cancel();
    }
    await orchestrator.stop();
    const absentRoles = ["orchestrator", "worker"];
    expect((await accepted(gateway.get("/nodes"))) as unknown).toMatchObject({ absentRoles });
    const error = expect.stringContaining("no node has the role orchestrator");
    await expect.poll(() => user.say(id, "are you there?")).toMatchObject({ status: 503, body: { error } });
  });

  test("a turn is one trace over all nodes, and each node counts its part of it", async () => {
    const { gateway, orchestrator, worker } = nodes;
    const user = new E2eClient(gateway);
    const { id } = await user.hold("music");
    const stream = await user.follow(id);
    await accepted(user.say(id, "hello", {}, { headers: CALLER }));
    await stream.until(({ type }) => type === "complete");

    expect(await metricOf(gateway, "interlock_bus_lag_seconds_count")).toBeGreaterThan(0);
    expect(await metricOf(gateway, "interlock_commit_seconds_count")).toBe(0);
    expect(await metricOf(gateway, "interlock_partitions_owned")).toBe(0);
    expect(await metricOf(gateway, "interlock_connections")).toBe(1);
    expect(await metricOf(orchestrator, "interlock_commit_seconds_count")).toBeGreaterThan(0);
    expect(await metricOf(orchestrator, "interlock_partitions_owned")).toBe(256);
    expect(await metricOf(worker, "interlock_run_wait_seconds_count")).toBe(1);
    // The worker counts a run once it knows that its end was committed.
    const done = () => metricOf(worker, 'interlock_run_seconds_count{agent="music",outcome="done",code=""}');
    await expect.poll(done).toBe(1);

    // Each node sends its last spans when it stops.
    for (const role of ["gateway", "worker", "orchestrator"] as const) await nodes[role].stop();
    const first = collector.spans.find(({ parentSpanId }) => parentSpanId === "b7ad6b7169203331")!;
    const ask = collector.below(first, "send session.chat");
    // On a busy machine a command is sent again, and each time has a span at the orchestrator; one of them begins the
    // run.
    const under = (parent: SentSpan, name: string) =>
      collector.spans.filter((span) => span.parentSpanId === parent.spanId && span.name === name);
    const commit = under(ask, "commit").find((span) => under(span, "run").length > 0)!;
    const run = collector.below(commit, "run");
    const [report] = under(run, "send run.report");
    const chain = [first, ask, commit, run, report!, under(report!, "commit")[0]!];
    expect(chain.map(({ name, about }) => [name, about["interlock.roles"]])).toEqual([
      ["POST /message", "gateway"],
      ["send session.chat", "gateway"],
      ["commit", "orchestrator"],
      ["run", "worker"],
      ["send run.report", "worker"],
      ["commit", "orchestrator"],
    ]);
    expect(new Set(chain.map(({ traceId }) => traceId))).toEqual(new Set([TRACE_ID]));
    expect(new Set(chain.map(({ about }) => about["service.instance.id"])).size).toBe(3);
  });
});
