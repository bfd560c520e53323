import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { writeTemporary } from "../../support/clients/callers.ts";
import { accepted, E2eClient, refused } from "../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../support/nodes/node-under-test.ts";
import { TraceCollector } from "../../support/servers/trace-collector.ts";

const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER = { traceparent: `00-${TRACE_ID}-00f067aa0ba902b7-01` };

async function startTraced(env: Record<string, string> = {}) {
  const collector = await TraceCollector.start();
  onTestFinished(() => collector[Symbol.asyncDispose]());
  const node = await NodeUnderTest.start({ env: { ...collector.env, ...env } });
  return { collector, node, user: new E2eClient(node) };
}

describe("a traced node", () => {
  test("a traced node sends the spans of a turn from the caller's own trace to the run and its reports", async () => {
    const { collector, node, user } = await startTraced();
    const { id } = await user.hold("music");
    const stream = await user.follow(id);
    const { runId } = await accepted(user.say(id, "hello", {}, { headers: CALLER }));
    await stream.until(({ type }) => type === "complete");
    await node.stop();

    expect(new Set(collector.paths)).toEqual(new Set(["/v1/traces"]));
    const request = collector.spans.find(({ traceId }) => traceId === TRACE_ID)!;
    const chain = collector.spans.filter(({ traceId }) => traceId === TRACE_ID);
    const first = chain.find(({ parentSpanId }) => parentSpanId === "00f067aa0ba902b7")!;
    expect(first).toMatchObject({
      name: "POST /message",
      kind: 2,
      isError: false,
      facts: { "http.request.method": "POST", "http.route": "/message", "http.response.status_code": 200 },
      about: { "service.name": "interlock", "interlock.roles": "gateway,orchestrator,worker" },
    });
    expect(request.about["service.version"]).toMatch(/^\d+\.\d+\.\d+/);
    const floor = { "interlock.floor.id": `u:${user.userId}` };
    const ask = collector.below(first, "send session.chat");
    expect(ask.facts).toMatchObject({ ...floor, "interlock.outcome": "ok" });
    const commit = collector.below(ask, "commit");
    expect(commit.facts).toMatchObject({ ...floor, "interlock.batch": 1, "interlock.outcome": "committed" });
    const run = collector.below(commit, "run");
    expect(run).toMatchObject({ kind: 5, isError: false });
    expect(run.facts).toMatchObject({
      ...floor,
      "interlock.session.id": id,
      "interlock.run.id": runId,
      "interlock.agent": "music",
      "interlock.attempt": 1,
      "interlock.outcome": "done",
    });
    // The claim starts the run; its later output is part of it.
    collector.below(collector.below(commit, "send run.claim"), "commit");
    const reports = chain.filter(({ name, parentSpanId }) => name === "send run.report" && parentSpanId === run.spanId);
    expect(reports.length).toBeGreaterThan(0);
    collector.below(reports[0]!, "commit");
  });

  test("a traced node begins a trace if the caller sent none, and its answer names it", async () => {
    const { collector, node, user } = await startTraced();
    const { traceId } = await refused(user.on("nobody", "pause"));
    const malformed = { traceparent: "00-0-0-01" };
    const other = await refused(user.on("nobody", "resume", { headers: malformed }));
    await node.stop();
    const spans = collector.spans;
    expect(spans.map((span) => [span.name, span.traceId, span.parentSpanId])).toEqual([
      ["POST /session/:id/pause", traceId, ""],
      ["POST /session/:id/resume", other.traceId, ""],
    ]);
    expect(spans[0]).toMatchObject({ isError: false, facts: { "http.response.status_code": 404 } });
  });

  test("a traced node reports which run failed", async () => {
    const { collector, node, user } = await startTraced();
    const { id } = await user.hold("music");
    await user.talk(id, "offline");
    await node.stop();
    const run = collector.spans.find(({ name }) => name === "run")!;
    expect(run).toMatchObject({ isError: true, facts: { "interlock.outcome": "failed", "interlock.attempt": 1 } });
  });

  test("a traced node leaves out unsampled traces: by the caller's flag, or by the sampling ratio", async () => {
    const { collector, node, user } = await startTraced();
    const { id } = await user.hold("music", {});
    await accepted(user.say(id, "nod", {}, { headers: { traceparent: CALLER.traceparent.replace(/01$/, "00") } }));
    await node.stop();
    expect(collector.spans.some(({ name }) => name === "POST /session/create")).toBe(true);
    expect(collector.spans.filter(({ traceId }) => traceId === TRACE_ID)).toEqual([]);

    const none = await startTraced({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" });
    await none.user.hold("music");
    await none.node.stop();
    expect(none.collector.paths).toEqual([]);
  });

  test("a traced node sends no spans of streams and probes", async () => {
    const { collector, node, user } = await startTraced();
    const { id } = await user.create("music");
    await (await user.follow(id)).close();
    for (const path of ["/health", "/ready", "/metrics", "/nodes", "/no/such/path"]) await node.get(path);
    await node.stop();
    const requests = collector.spans.filter(({ kind }) => kind === 2).map(({ name }) => name);
    expect(requests).toEqual(["POST /session/create"]);
  });
});

test("a node without tracing does not load the tracer, and ignores a caller's trace", async () => {
  const program = `
    import { registerHooks } from "node:module";
    const seen = [];
    registerHooks({ resolve(name, context, next) { if (name.includes("opentelemetry/sdk-trace")) seen.push(name); return next(name, context); } });
    const { createApp, readSettings } = await import(${JSON.stringify(pathToFileURL("src/index.ts").href)});
    const { settings } = readSettings({ PORT: "0", INTERLOCK_STORE: "sqlite::memory:", LOG_LEVEL: "error", INTERLOCK_DRAIN: "0ms" });
    for (const env of [{}, JSON.parse(process.argv[2])]) {
      const app = createApp({ settings, env });
      const { url } = await app.start();
      const headers = { "Content-Type": "application/json", ...${JSON.stringify(CALLER)} };
      const answer = await fetch(url + "/session/nobody/pause", { method: "POST", headers });
      const { traceId } = await answer.json();
      await app.stop();
      console.log(JSON.stringify({ traceId, isLoaded: seen.length > 0 }));
    }`;
  const collector = await TraceCollector.start();
  onTestFinished(() => collector[Symbol.asyncDispose]());
  const file = await writeTemporary("two-nodes.mjs", program, onTestFinished);
  const child = spawn(process.execPath, [file, JSON.stringify(collector.env)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [printed] = await Promise.all([text(child.stdout), once(child, "exit")]);
  const [off, on] = printed
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(off.isLoaded).toBe(false);
  expect(off.traceId).not.toBe(TRACE_ID);
  // The same hook sees them when they are enabled.
  expect(on).toEqual({ traceId: TRACE_ID, isLoaded: true });
});
