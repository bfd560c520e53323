import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, expect, test } from "vitest";
import { gone, running } from "../../support/agents/processes.ts";
import { CACHED } from "../../support/agents/programs.ts";
import type { StreamEvent } from "../../support/clients/frame-reader.ts";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { type ProviderReply, startProviderServer } from "../../support/servers/provider-server.ts";
import { SmallServer } from "../../support/servers/small-server.ts";

const PROGRAM = fileURLToPath(new URL("../../support/agents/mcp-program-server.ts", import.meta.url));

/** The provider of every model, and a site that models read; both on this machine. */
const provider = await startProviderServer();
const pages = await SmallServer.start((response) =>
  response.writeHead(200, { "content-type": "text/html" }).end("<p>A page.</p>"),
);
const site = new URL(pages.url).host;
afterAll(async () => {
  await provider.close();
  await pages[Symbol.asyncDispose]();
});

beforeEach(() => provider.replyBy(() => undefined));

const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
const tag = `tag-${randomUUID()}`;
const files = { command: process.execPath, args: ["--no-warnings", PROGRAM] };
const fetching = { name: "web-fetch", hosts: [site], networks: ["127.0.0.1"] };
const CATALOG = {
  mcp_servers: [{ name: "files", ...files, env: ["GIVEN=GIVEN_THERE"], set: { ...CACHED, TEST_TAG: tag } }],
  agents: [
    { name: "reader", adapter: model, tools: ["clock", fetching] },
    { name: "careful", adapter: model, tools: [{ name: "clock", confirm: true }] },
    { name: "filer", adapter: model, tools: ["mcp:files/*"] },
  ],
};

interface Call {
  id: string;
  name: string;
  arguments: string;
}
const call = (name: string, input: unknown, id = "c1"): Call => ({ id, name, arguments: JSON.stringify(input) });
const calls = (...all: Call[]): ProviderReply => ({ kind: "stream", calls: all });
const says = (...text: string[]): ProviderReply => ({ kind: "stream", text });

const results = (events: readonly StreamEvent[]) => events.filter(({ type }) => type === "tool_result");
const lastRequest = () => provider.requests.at(-1)!.body;

const settings = { GIVEN_THERE: "given", SECRET: "never" };
describeDeployments("a model with tools", { catalog: () => CATALOG, settings }, (deployment) => {
  test("a model reads the clock and a listed page, and no other; the log has each call and its end, live and later", async () => {
    const talk = await Talk.open(deployment, "reader");
    provider.willReply(
      calls(
        call("clock", { timezone: "Asia/Shanghai" }, "a"),
        call("web-fetch", { url: `http://${site}/page` }, "b"),
        call("web-fetch", { url: "http://localhost:1/secret" }, "c"),
      ),
      says("I looked."),
    );
    const events = await talk.ask("look");
    const called = events.filter(({ type }) => type === "tool_call");
    const names = called.map(({ data }) => (data["function"] as { name: string }).name);
    expect(names).toEqual(["clock", "web-fetch", "web-fetch"]);
    const outcomes = called.map(({ data: { ["toolCallId"]: id } }) => {
      const { data } = results(events).find((result) => result.data["toolCallId"] === id)!;
      return [data.status, data.content] as const;
    });
    expect(outcomes.map(([status]) => status)).toEqual(["success", "success", "error"]);
    expect(outcomes[0]![1]).toContain("Asia/Shanghai");
    expect(outcomes[1]![1]).toContain("A page.");
    expect(outcomes[2]![1]).not.toContain("A page.");
    for (const [, content] of outcomes) expect(lastRequest()).toContain(JSON.stringify(content).slice(1, 20));
    expect((await talk.messages()).map(({ content }) => content)).toEqual(["look", "I looked."]);
    expect(await talk.replay()).toEqual(talk.events);
  });

  test("a tool that is approved for a session needs no confirmation, even after a kill of all nodes; another session asks", async () => {
    const talk = await Talk.open(deployment, "careful");
    provider.willReply(calls(call("clock", {}, "a"), call("clock", {}, "b")), says("Once."));
    const runId = await talk.say("the time?");
    await talk.answer(await talk.asked("tool_confirmation_request"), "approve_always");
    await talk.ended(runId);
    await deployment.restart();
    await talk.comeBack();
    provider.willReply(calls(call("clock", {})), says("Twice."));
    await talk.ask("and now?");
    expect(talk.eventsOf("tool_confirmation_request")).toHaveLength(1);
    expect(results(talk.events).map(({ data }) => data.status)).toEqual(["success", "success", "success"]);
    const other = await Talk.open(deployment, "careful");
    provider.willReply(calls(call("clock", {})));
    const run = await other.say("the time?");
    await other.asked("tool_confirmation_request");
    await other.send({ type: "abort" });
    expect((await other.ended(run)).data.cancelled).toBe(true);
  });

  test("a worker that is killed leaves no process of an MCP server; its runs are lost, also one that waited for a confirmation, which calls no tool and whose session takes the next turn", async () => {
    const hanging = await Talk.open(deployment, "filer");
    provider.willReply(calls(call("files_hang", { text: "x" })));
    const hung = await hanging.say("hang");
    await running(tag, 2);
    const talk = await Talk.open(deployment, "careful");
    provider.willReply(calls(call("clock", {})));
    const runId = await talk.say("the time?");
    const request = await talk.asked("tool_confirmation_request");
    await deployment.loseWorker();
    await gone(tag);
    for (const [lost, id] of [
      [hanging, hung],
      [talk, runId],
    ] as const) {
      await lost.comeBack();
      await lost.ended(id);
      expect(lost.eventsOf("error").map(({ data }) => data.errorCode)).toEqual(["run_lost"]);
    }
    expect(talk.eventsOf("interaction_resolved").map(({ requestId }) => requestId)).toEqual([request.requestId]);
    const late = { type: "tool_confirmation_response", requestId: request.requestId, response: "approve" };
    const { body } = await deployment.there.post("/message", { ...late, sessionId: talk.id });
    expect(body.errorCode).toBe("interaction_not_found");
    provider.willReply(says("Here I am."));
    await talk.ask("are you there?");
    expect(talk.eventsOf("complete")).toHaveLength(2);
    expect(results(talk.events)).toMatchObject([
      { data: { status: "error", content: expect.stringContaining("did not begin") } },
    ]);
    expect((await talk.messages()).at(-1)!.content).toBe("Here I am.");
  });
});
