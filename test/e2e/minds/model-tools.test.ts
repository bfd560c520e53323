import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { AgentRef } from "../../../src/protocol/message.ts";
import { gone, running } from "../../support/agents/processes.ts";
import { CACHED } from "../../support/agents/programs.ts";
import type { StreamEvent } from "../../support/clients/frame-reader.ts";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { type ProviderReply, startProviderServer } from "../../support/servers/provider-server.ts";
import type { WireCall } from "../../support/servers/provider-wire.ts";
import { type Answer, SmallServer } from "../../support/servers/small-server.ts";

const PROGRAM = fileURLToPath(new URL("../../support/agents/mcp-program-server.ts", import.meta.url));

/** The provider of every model, and a site that models read; both on this machine. */
const provider = await startProviderServer();
let page: Answer;
const pages = await SmallServer.start((response, request) => page(response, request));
const site = new URL(pages.url).host;
afterAll(async () => {
  await provider.close();
  await pages[Symbol.asyncDispose]();
});

beforeEach(() => {
  page = (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>A page.</p>");
  provider.replyBy(() => undefined);
});

const model = { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl };
const speaker = { kind: "scripted", replies: [{ say: ["deep"], delay: "0ms", usage: { input: 5, output: 7 } }] };
const tag = `tag-${randomUUID()}`;
const files = { command: process.execPath, args: ["--no-warnings", PROGRAM] };
const fetching = { name: "web-fetch", hosts: [site], networks: ["127.0.0.1"] };
const CATALOG = {
  mcp_servers: [{ name: "files", ...files, env: ["GIVEN=GIVEN_THERE"], set: { ...CACHED, TEST_TAG: tag } }],
  agents: [
    { name: "reader", adapter: model, tools: ["clock", "ask-user", fetching] },
    { name: "careful", adapter: model, tools: [{ name: "clock", confirm: true }] },
    { name: "filer", adapter: model, tools: ["mcp:files/*"] },
    { name: "master", adapter: model, tools: ["sub-agent"] },
    { name: "helper", adapter: { ...model, model: "helper" }, tools: ["sub-agent"] },
    { name: "speaker", adapter: speaker },
  ],
};

const call = (name: string, input: unknown, id = "c1"): WireCall => ({ id, name, arguments: JSON.stringify(input) });
const calls = (...all: WireCall[]): ProviderReply => ({ kind: "stream", calls: all });
const says = (...text: string[]): ProviderReply => ({ kind: "stream", text });

/** The next request to the site, which the test answers. */
const nextRead = () => new Promise<ServerResponse>((resolve) => (page = resolve));

const agentOf = ({ data }: StreamEvent) => data["agent"] as AgentRef;
const results = (events: readonly StreamEvent[]) => events.filter(({ type }) => type === "tool_result");
const said = async (talk: Talk) => (await talk.messages()).filter(({ role }) => role === "assistant");
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

  test("a tool that the user rejects with a reply is not called, and the model gets the reply", async () => {
    const talk = await Talk.open(deployment, "careful");
    provider.willReply(calls(call("clock", {})), says("So be it."));
    const runId = await talk.say("the time?");
    const request = await talk.asked("tool_confirmation_request");
    expect((await talk.session()).activity).toBe("waiting");
    await talk.answer(request, { type: "reject_with_reply", reason: "not at night" });
    await talk.ended(runId);
    expect(results(talk.events)).toMatchObject([{ data: { status: "error" } }]);
    expect(lastRequest()).toContain("not at night");
    expect((await talk.messages()).at(-1)!.content).toBe("So be it.");
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

  test("a model asks the user, who answers at another node, and the model gets the answer", async () => {
    const talk = await Talk.open(deployment, "reader");
    provider.willReply(calls(call("ask-user", { question: "Which?", options: ["red", "blue"] })), says("Blue it is."));
    const runId = await talk.say("paint");
    const request = await talk.asked("user_question_request");
    expect(request.data).toMatchObject({ question: "Which?", options: ["red", "blue"] });
    await talk.answer(request, { selected: ["blue"] });
    await talk.ended(runId);
    expect(lastRequest()).toContain("blue");
    expect(talk.eventsOf("interaction_resolved").map(({ data }) => data)).toEqual([{ by: "client" }]);
  });

  test("a model calls an MCP server's tools, which see only their own variables; one that may write needs confirmation", async () => {
    const talk = await Talk.open(deployment, "filer");
    const text = { text: "hi; $(rm -rf /) `x`" };
    provider.willReply(calls(call("files_echo", text, "a"), call("files_write", text, "b")), says("Filed."));
    const runId = await talk.say("file it");
    await talk.answer(await talk.asked("tool_confirmation_request"), "approve");
    await talk.ended(runId);
    const contents = results(talk.events).map(({ data }) => data.content);
    expect(contents.toSorted()).toEqual([`${text.text} given -`, `wrote ${text.text}`]);
    await gone(tag);
  });

  describe("a model that delegates", () => {
    /** Forty sub-agents at once, each a model; the first three delegate further. */
    function answerForty(): void {
      provider.replyBy(({ body }) => {
        const { model: name, messages } = JSON.parse(body) as { model: string; messages: { role: string }[] };
        const isFirst = !messages.some(({ role }) => role === "tool");
        const tasks = Array.from({ length: 40 }, (_, n) => n);
        if (name === "m" && isFirst) {
          return calls(...tasks.map((n) => call("sub-agent", { name: "helper", task: `task ${n}.` }, `c${n}`)));
        }
        if (name === "m") return says("All ", "done.");
        const n = Number(/task (\d+)\./.exec(body)![1]);
        if (isFirst && n < 3) return calls(call("sub-agent", { name: "speaker", task: "dig" }));
        return { ...says(`result `, `${n}`), usage: { input: n, output: 1 } } as ProviderReply;
      });
    }

    test("forty sub-agents, some of which delegate further, have separate paths, order, results and usage, live and stored", async () => {
      const talk = await Talk.open(deployment, "master");
      answerForty();
      const events = await talk.ask("go");
      const ids = events.flatMap((event) =>
        event.type === "tool_call" && agentOf(event).depth === 0 ? [event.data["toolCallId"] as string] : [],
      );
      expect(new Set(ids).size).toBe(40);
      const messages = (await talk.messages()) as unknown as (Awaited<ReturnType<Talk["messages"]>>[number] & {
        agent?: AgentRef;
        usage?: { prompt_tokens: number };
      })[];
      for (const [n, id] of ids.entries()) {
        const below = messages.filter(({ agent }) => agent?.calls?.[0] === id);
        const helper = below.filter(({ agent }) => agent!.depth === 1);
        const place = { kind: "sub", name: "helper", path: ["master", "helper"], calls: [id] };
        expect(helper).toMatchObject([{ content: `result ${n}`, agent: place }]);
        const deep = below.filter(({ agent }) => agent!.depth === 2);
        expect(deep.map(({ content, agent }) => [content, agent!.path])).toEqual(
          n < 3 ? [["deep", ["master", "helper", "speaker"]]] : [],
        );
        const { data } = results(events).find((result) => result.data["toolCallId"] === id)!;
        expect(JSON.parse(data.content)).toEqual({ ok: true, result: `result ${n}` });
        const counted = events.filter((event) => event.type === "usage" && agentOf(event)?.calls?.[0] === id);
        const input = counted.reduce((sum, event) => sum + (event.data["prompt_tokens"] as number), 0);
        // A sub-agent that delegated was asked twice, and its speaker counts five.
        expect(input).toBe(n < 3 ? 1 + n + 5 : n);
      }
      // The stored messages fold into the same tree as the streamed ones.
      const heard = events.flatMap(({ type, data }) => (type === "message" && !data.streaming ? [data] : []));
      const place = ({ id, content, agent }: { id: string; content: string; agent?: AgentRef }) => [id, content, agent];
      expect(heard.map((data) => place(data as never)).toSorted()).toEqual(messages.map(place).toSorted());
      const all = Array.from({ length: 40 }, (_, n) => n).reduce((sum, n) => sum + n, 0);
      expect(talk.eventsOf("complete")[0]!.data["usage"]).toMatchObject({ prompt_tokens: all + 3 * (1 + 5) + 2 });
      expect(messages.at(-1)!.content).toBe("All done.");
      expect(await talk.replay()).toEqual(talk.events);
    });

    test("a pause holds the whole tree of sub-agents: a running tool ends, and no model is asked until the session resumes", async () => {
      const talk = await Talk.open(deployment, "master");
      const read = nextRead();
      provider.willReply(calls(call("sub-agent", { name: "reader", task: "read" })));
      provider.willReply(calls(call("web-fetch", { url: `http://${site}/slow` })));
      const runId = await talk.say("go");
      const response = await read;
      expect((await deployment.here.post(`/session/${talk.id}/pause`)).status).toBe(200);
      await talk.until(() => talk.state === "paused");
      const asked = provider.requests.length;
      response.writeHead(200, { "content-type": "text/plain" }).end("A slow page.");
      // Work that would happen meanwhile is done when a complete turn of another session is over.
      await (await Talk.open(deployment, "speaker")).ask("hello");
      expect(provider.requests).toHaveLength(asked);
      provider.willReply(says("It is slow."), says("So it is."));
      expect((await deployment.here.post(`/session/${talk.id}/resume`)).status).toBe(200);
      await talk.ended(runId);
      expect(provider.requests[asked]!.body).toContain("A slow page.");
      expect(await said(talk)).toMatchObject([{ content: "It is slow." }, { content: "So it is." }]);
    });

    test("an abort during a sub-agent aborts the whole tree, and the session takes the next turn", async () => {
      const talk = await Talk.open(deployment, "master");
      provider.willReply(calls(call("sub-agent", { name: "helper", task: "wait" })));
      provider.willReply({ ...says("I wait"), ending: "never" } as ProviderReply);
      const runId = await talk.say("go");
      await talk.until(() => talk.reading("I wait"));
      const waiting = provider.requests.at(-1)!;
      await talk.send({ type: "abort" });
      expect((await talk.ended(runId)).data.cancelled).toBe(true);
      await waiting.closed;
      const asked = provider.requests.length;
      provider.willReply(says("Again."));
      await talk.ask("next");
      expect(provider.requests).toHaveLength(asked + 1);
      expect(await said(talk)).toMatchObject([
        { status: "interrupted", content: "I wait" },
        { status: "success", content: "Again." },
      ]);
    });
  });

  test("an abort during a tool closes the tool's connection, and the session takes the next turn", async () => {
    const talk = await Talk.open(deployment, "reader");
    const read = nextRead();
    provider.willReply(calls(call("web-fetch", { url: `http://${site}/slow` })));
    const runId = await talk.say("read");
    const response = await read;
    const closed = new Promise((resolve) => response.once("close", resolve));
    await talk.send({ type: "abort" });
    expect((await talk.ended(runId)).data.cancelled).toBe(true);
    await closed;
    provider.willReply(says("Again."));
    await talk.ask("next");
    expect((await talk.messages()).at(-1)!.content).toBe("Again.");
    expect(results(talk.events).map(({ data }) => data.status)).not.toContain("success");
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
