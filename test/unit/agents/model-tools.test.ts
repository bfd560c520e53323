import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Part } from "../../../src/agents/agent.ts";
import { createRunStage, ofType, play, playToFailure, textOf, turnOf } from "../../support/agents/run-stage.ts";
import { subjectOf } from "../../support/agents/test-registry.ts";
import { type ProviderServer, startProviderServer } from "../../support/servers/provider-server.ts";
import { WIRES } from "../../support/servers/provider-wire.ts";
import { SmallServer } from "../../support/servers/small-server.ts";

let server: ProviderServer;
beforeEach(async () => {
  server = await startProviderServer();
});
afterEach(() => server.close());

const NOTHING = { sleepers: 0, listeners: 0 };

function modelWithTools(
  agent: object,
  others: object[] = [],
  { adapter: more = {}, provider = "openai-compatible", limits = { requests: 64, programs: 8 } } = {},
) {
  const adapter = { kind: "ai-sdk", provider, model: "m", base_url: server.baseUrl, api_key_env: "KEY", ...more };
  const faults: unknown[] = [];
  const onFault = (fault: unknown) => faults.push(fault);
  const subject = subjectOf({ name: "master", adapter, ...agent }, { others, env: { KEY: "k" }, limits, onFault });
  return { ...subject, faults };
}

const call = (name: string, input: unknown, id = "c1") => ({ id, name, arguments: JSON.stringify(input) });
const calls = (...all: ReturnType<typeof call>[]) => ({ kind: "stream", calls: all }) as const;
const says = (...text: string[]) => ({ kind: "stream", text }) as const;
const results = (parts: readonly Part[]) => ofType(parts, "tool-result");

describe.each(Object.keys(WIRES) as (keyof typeof WIRES)[])("a model of %s with tools", (provider) => {
  test("a model calls a tool, gets its result, and continues", async () => {
    const { agent } = modelWithTools({ tools: ["clock"] }, [], { provider });
    server.willReply(
      { ...calls(call("clock", { timezone: "Asia/Shanghai" })), text: ["I look."] },
      says("It is late."),
    );
    const parts = await play(agent, turnOf("What time is it?"));
    expect(parts.map(({ type }) => type)).toEqual(["text", "tool-call", "tool-result", "usage", "text", "usage"]);
    const { toolCallId } = results(parts)[0]!;
    const called = { toolCallId, function: { name: "clock", arguments: '{"timezone":"Asia/Shanghai"}' } };
    expect(ofType(parts, "tool-call")).toMatchObject([{ call: called }]);
    const content = expect.stringContaining("Asia/Shanghai");
    expect(results(parts)).toMatchObject([{ toolName: "clock", status: "success", content }]);
    expect(server.requests[1]!.body).toContain("Asia/Shanghai");
    expect(textOf(parts)).toBe("I look.It is late.");
  });
});

describe("a call", () => {
  test("a call of an unknown tool, or with invalid arguments, is answered with an error, and the turn continues", async () => {
    const { agent } = modelWithTools({ tools: ["clock"] });
    server.willReply(
      calls(call("rm", {}, "a"), call("clock", { timezone: 7 }, "b"), { id: "c", name: "clock", arguments: "{oops" }),
      says("Sorry."),
    );
    const parts = await play(agent, turnOf("x"));
    expect(results(parts).map(({ status }) => status)).toEqual(["error", "error", "error"]);
    expect(textOf(parts)).toBe("Sorry.");
    const ids = ofType(parts, "tool-call").map((part) => part.call.toolCallId);
    expect(new Set(ids).size).toBe(3);
    const answered = results(parts).map(({ toolCallId }) => toolCallId);
    expect(answered.toSorted()).toEqual(ids.toSorted());
  });

  test("a call that asks the user returns the user's answer", async () => {
    const { agent } = modelWithTools({ tools: ["ask-user"] });
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: ["red"] });
    server.willReply(calls(call("ask-user", { question: "Which?", options: ["red"] })), says("Red it is."));
    const parts = await play(agent, turnOf("x"), stage);
    expect(stage.asked).toEqual([{ kind: "question", question: "Which?", options: ["red"], multiSelect: false }]);
    expect(results(parts)).toMatchObject([{ status: "success", content: '{"selected":["red"]}' }]);
    expect(textOf(parts)).toBe("Red it is.");
  });

  test("a call that waits for a person does not count as the provider's silence, and ends with the run", async () => {
    const { agent } = modelWithTools({ tools: ["ask-user"] });
    server.willReply(calls(call("ask-user", { question: "Which?" })));
    const stage = createRunStage({ time: "stands" });
    const asked = stage.next("question");
    const run = playToFailure(agent, turnOf("x"), stage).catch(() => "ended without a failure");
    await asked;
    stage.advance(3_600_000);
    for (let turns = 0; turns < 20; turns += 1) await new Promise(setImmediate);
    stage.abort();
    expect(await run).toBe("ended without a failure");
    await server.requests[0]!.closed;
    expect(stage.leftovers()).toEqual(NOTHING);
  });

  test("a call waits while the run is held, and so does the model's next part", async () => {
    const { agent } = modelWithTools({ tools: ["clock"] });
    server.willReply(calls(call("clock", {})), says("Late."));
    const stage = createRunStage();
    stage.hold();
    const gate = stage.next("gate");
    const run = play(agent, turnOf("x"), stage);
    await gate;
    expect(server.requests).toHaveLength(1);
    stage.goOn();
    expect(textOf(await run)).toBe("Late.");
    expect(stage.leftovers()).toEqual(NOTHING);
  });

  test("a call in the last step is followed by text only: the model may call no further tool", async () => {
    const { agent } = modelWithTools({ tools: ["clock"], max_steps: 2 });
    server.willReply(calls(call("clock", {})), says("Done."), says("never"));
    expect(textOf(await play(agent, turnOf("x")))).toBe("Done.");
    expect(JSON.parse(server.requests[1]!.body).tool_choice).toBe("none");
    expect(server.requests).toHaveLength(2);
  });

  test.each([1, 2])("a call in the last of %i steps is not made, also if the provider allows it", async (max_steps) => {
    const { agent } = modelWithTools({ tools: ["clock", "ask-user"], max_steps });
    const replies = Array.from({ length: max_steps - 1 }, () => calls(call("clock", {}, "a")));
    server.willReply(...replies, calls(call("ask-user", { question: "Which?" }, "b")), says("never"));
    const stage = createRunStage();
    const parts = await play(agent, turnOf("x"), stage);
    expect(JSON.parse(server.requests.at(-1)!.body).tool_choice).toBe("none");
    expect(server.requests).toHaveLength(max_steps);
    expect(stage.asked).toEqual([]);
    expect(ofType(parts, "finish")).toEqual([{ type: "finish", reason: "length" }]);
  });
});

describe("a call that needs confirmation", () => {
  const REASON = "not now";
  const REJECTED = { status: "error", content: `The user rejected this call: ${REASON}` };
  const ASKED = { kind: "confirmation", isSensitive: true, toolCall: { function: { name: "clock" } } };
  const DONE = { status: "success" };
  test.each([
    ["is made when the user approves", { verdict: "approve" }, [], [ASKED], [DONE]],
    [
      "is not made when the user rejects it, and the model gets the reason",
      { verdict: "reject", reason: REASON },
      [],
      [ASKED],
      [REJECTED],
    ],
    [
      "is confirmed once if the user always approves, also for calls that wait at the same time",
      { verdict: "approve_always" },
      [],
      [ASKED],
      Array(5).fill(DONE),
    ],
    ["is made at once if the session approved its tool before", { verdict: "reject" }, ["clock"], [], [DONE]],
  ] as const)("a call that needs confirmation %s", async (_, answer, approvedTools, asked, outcomes) => {
    const { agent } = modelWithTools({ tools: [{ name: "clock", confirm: true }] });
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", ...answer });
    server.willReply(calls(...outcomes.map((_each, n) => call("clock", {}, `c${n}`))), says("ok"));
    const parts = await play(agent, turnOf("x", { approvedTools: [...approvedTools] }), stage);
    expect(stage.asked).toMatchObject(asked);
    expect(results(parts)).toMatchObject(outcomes);
    for (const { content } of results(parts))
      expect(server.requests[1]!.body).toContain(JSON.stringify(content).slice(1, -1));
  });
});

test("a refused call of a sub-agent is answered to the model with its error code", async () => {
  const speaker = (name: string) => ({ name, adapter: { kind: "scripted", replies: [{ say: "x" }] } });
  const master = { tools: ["sub-agent"], sub_agents: ["a"], max_depth: 1 };
  const { agent } = modelWithTools(master, [speaker("a"), speaker("b")]);
  const asked = ["master", "b", "a"].map((name, n) => call("sub-agent", { name, task: "t" }, `c${n}`));
  server.willReply(calls(...asked), says("ok"));
  const answers = results(await play(agent, turnOf("x"))).map(({ content }) => JSON.parse(content));
  const codes = answers.map(({ ok, error }) => (ok ? "ok" : error.code));
  expect(codes.toSorted()).toEqual(["NOT_ALLOWED", "RECURSION", "ok"]);
});

describe("a reply that is too long", () => {
  test.each([129, 5_000, 100_000])("arguments that are nested %i levels deep fail with a sentence", async (levels) => {
    const { agent, faults } = modelWithTools({ tools: ["clock"] });
    const nested = `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
    server.willReply(calls({ id: "c1", name: "clock", arguments: nested }), says("ok"));
    const { failure } = await playToFailure(agent, turnOf("x"));
    const message = "The model nested the arguments of a tool too deeply.";
    expect(failure).toMatchObject({ code: "too_large", message });
    expect(faults).toEqual([]);
  });

  test("a reply that is one endless event is cut, with a clear failure", async () => {
    await using flood = await SmallServer.start((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const chunk = Buffer.alloc(1_048_576, "x");
      const more = () => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on("drain", more);
      more();
    });
    const { agent } = modelWithTools({}, [], { adapter: { base_url: `${flood.url}/v1` } });
    const { failure } = await playToFailure(agent, turnOf("x"));
    const message = expect.stringMatching(/^127\S+ an event of the answer is larger than 8388608 bytes$/);
    expect(failure).toMatchObject({ code: "too_large", cause: expect.objectContaining({ message }) });
  });
});

describe("a tree of sub-agents", () => {
  const model = (name: string, rest: object = {}) => ({
    name,
    adapter: { kind: "ai-sdk", provider: "openai-compatible", model: name, base_url: server.baseUrl },
    ...rest,
  });
  const delegates = (name: string, count: number) =>
    calls(...Array.from({ length: count }, (_, n) => call("sub-agent", { name, task: "t" }, `c${n}`)));
  const errorsOf = (parts: readonly Part[]) =>
    results(parts).flatMap(({ content }) => {
      const { ok, error } = JSON.parse(content);
      return ok ? [] : [error];
    });
  let open = 0;
  let most = 0;
  beforeEach(() => {
    most = 0;
  });
  /** Each model delegates once, as `answers` say, and then ends. @returns the number of requests of each */
  function answerBy(answers: Record<string, ReturnType<typeof calls>>): Record<string, number> {
    const asked: Record<string, number> = {};
    server.replyBy(({ body, closed }) => {
      open += 1;
      most = Math.max(most, open);
      void closed.then(() => {
        open -= 1;
      });
      const { model: name, messages } = JSON.parse(body) as { model: string; messages: { role: string }[] };
      asked[name] = (asked[name] ?? 0) + 1;
      const isFirst = !messages.some(({ role }) => role === "tool");
      return (isFirst && answers[name]) || says("Done.");
    });
    return asked;
  }

  test("a tree of sub-agents has at most 64 at once on all levels together; further calls get a result that says so", async () => {
    const middle = model("middle", { tools: ["sub-agent"] });
    const { agent } = modelWithTools({ tools: ["sub-agent"] }, [middle, model("leaf")]);
    const asked = answerBy({ m: delegates("middle", 64), middle: delegates("leaf", 3) });
    const parts = await play(agent, turnOf("go"));
    expect(asked["middle"]).toBe(128);
    const limited = errorsOf(parts);
    expect(limited.length).toBeGreaterThan(0);
    expect(limited.length + (asked["leaf"] ?? 0)).toBe(64 * 3);
    const message = expect.stringMatching(/64 sub-agents of this turn work already/);
    for (const error of limited) expect(error).toEqual({ code: "LIMIT", message });
    expect(textOf(parts.filter((part) => !part.agent))).toBe("Done.");
  });

  test("a turn starts at most 16 programs at once; further calls get a result that says so", async () => {
    const program = { name: "program", adapter: { kind: "command", command: "/bin/cat" } };
    const limits = { requests: 64, programs: 64 };
    const { agent, registry } = modelWithTools({ tools: ["sub-agent"] }, [program], { limits });
    answerBy({ m: delegates("program", 40) });
    const stage = createRunStage();
    stage.hold();
    const parts: Part[] = [];
    for await (const part of agent.run(turnOf("go"), stage.control)) {
      parts.push(part);
      // All are called before the first one ends.
      if (parts.filter(({ type }) => type === "tool-call").length === 40) stage.goOn();
    }
    const limited = errorsOf(parts);
    expect(limited.length).toBe(24);
    const message = expect.stringMatching(/16 programs of this turn run already/);
    expect(limited[0]).toEqual({ code: "LIMIT", message });
    await registry.close();
  });

  test("a turn makes at most 1,024 tool calls with its sub-agents, and none after 10,000,000 tokens", async () => {
    const eager = model("eager", { tools: ["clock"] });
    const { agent } = modelWithTools({ tools: ["sub-agent", "clock"] }, [eager]);
    const clocks = calls(...Array.from({ length: 512 }, (_, n) => call("clock", {}, `k${n}`)));
    answerBy({ m: delegates("eager", 3), eager: clocks });
    const parts = await play(agent, turnOf("go"));
    const refused = results(parts).filter(({ content }) => content.includes("The turn has made its 1,024 tool calls"));
    expect(refused).toHaveLength(3 + 3 * 512 - 1_024);

    server.replyBy(() => undefined);
    server.willReply(
      { ...calls(call("clock", {})), usage: { input: 9_999_999, output: 1 } },
      calls(call("clock", {})),
      says("!"),
    );
    const spent = results(await play(agent, turnOf("go")));
    expect(spent.map(({ status }) => status)).toEqual(["success", "error"]);
    expect(spent[1]!.content).toBe("The turn has used its 10,000,000 tokens, with its sub-agents.");
  });

  test("requests beyond a node's places wait, and are made as replies end", async () => {
    const limits = { requests: 1, programs: 1 };
    const { agent } = modelWithTools({ tools: ["sub-agent"] }, [model("leaf")], { limits });
    answerBy({ m: delegates("leaf", 12) });
    const parts = await play(agent, turnOf("go"));
    expect([results(parts).length, most]).toEqual([12, 1]);

    const stage = createRunStage();
    const asked = server.requests.length;
    server.replyBy(({ body }) =>
      body.includes('"leaf"') ? { kind: "stream", ending: "never" } : delegates("leaf", 12),
    );
    const stuck = Array.fromAsync(agent.run(turnOf("go"), stage.control)).catch(() => {});
    while (server.requests.length < asked + 2) await server.nextRequest();
    // Further requests would have come.
    for (let turns = 0; turns < 500; turns += 1) await new Promise(setImmediate);
    stage.abort();
    await stuck;
    // The eleven that waited have asked nothing.
    expect(server.requests).toHaveLength(asked + 2);
  });
});
