import { describe, expect, test } from "vitest";
import type { Agent, Part } from "../../../src/agents/agent.ts";
import {
  createRunStage,
  messageOf,
  ofType,
  play,
  playToFailure,
  playUntil,
  textOf,
  turnOf,
} from "../../support/agents/run-stage.ts";
import { subjectOf } from "../../support/agents/test-registry.ts";

const BROWSER = { name: "browser", adapter: { kind: "scripted", replies: [{ say: ["It is ", "raining."] }] } };
const scripted = (...replies: object[]): Agent =>
  subjectOf({ adapter: { kind: "scripted", replies } }, { others: [BROWSER] }).agent;

const textsOf = (parts: readonly Part[]) => ofType(parts, "text").map(({ text }) => text);
const callsOf = (parts: readonly Part[]) => ofType(parts, "tool-call").map(({ call }) => call);

describe("choosing a rule", () => {
  test("the first matching rule is used, regardless of case", async () => {
    const agent = scripted({ match: "天气|weather", say: "Sunny." }, { match: "weather", say: "Rain." });
    expect(textOf(await play(agent, turnOf("The WEATHER, please")))).toBe("Sunny.");
    expect(textOf(await play(agent, turnOf("今天天气怎么样")))).toBe("Sunny.");
  });

  test("without a matching rule the message is echoed, in pieces that split no character", async () => {
    const message = "🎵".repeat(10_000);
    const texts = textsOf(await play(scripted({ match: "x", say: "y" }), turnOf(message)));
    expect(texts.join("")).toBe(`You said: ${message}`);
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(4_096);
    expect(texts.filter((text) => !text.isWellFormed())).toEqual([]);
  });

  test("a pattern is matched against the beginning of a message, so that it never searches megabytes", async () => {
    const agent = scripted({ match: "needle", say: "Found." });
    expect(textOf(await play(agent, turnOf(`${"x".repeat(1_000)} needle`)))).toBe("Found.");
    expect(textOf(await play(agent, turnOf(`${"x".repeat(1_024)} needle`)))).toMatch(/^You said: /);
  });
});

describe("a say rule", () => {
  test("a say rule repeats all its texts, and waits between them, not before the first or after the last", async () => {
    const stage = createRunStage();
    const parts = await play(scripted({ say: ["♪ ", "♫ "], repeat: 3, delay: "500ms" }), turnOf("play"), stage);
    expect(textsOf(parts)).toEqual(["♪ ", "♫ ", "♪ ", "♫ ", "♪ ", "♫ "]);
    expect(stage.sleeps).toEqual(Array(5).fill(500));
  });

  test("a rule reports the configured token usage at the end", async () => {
    const parts = await play(scripted({ say: "ok", usage: { input: 12, output: 7 } }), turnOf("go"));
    const usage = { prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 };
    expect(parts.at(-1)).toEqual({ type: "usage", usage });
  });

  test("text that cannot be stored is replaced", async () => {
    expect(textOf(await play(scripted({ say: "a\u0000b\ud800" }), turnOf("go")))).toBe("a\ufffdb\ufffd");
  });
});

describe("an ask rule", () => {
  const agent = scripted({
    ask: { question: "Which one?", options: ["a", "b"], multi_select: true },
    say: "You chose {answer}.",
    otherwise: "Never mind.",
  });
  test.each([
    ["the answer", { selected: ["a", "b"] }, "You chose a, b."],
    ["the user's own text if nothing was selected", { selected: [], customInput: "neither" }, "You chose neither."],
    ["the answer without the user's own text", { selected: ["a"], customInput: "neither" }, "You chose a."],
    [
      "an answer unchanged, even if it looks like a placeholder",
      { selected: ["$& {result} {answer}"] },
      "You chose $& {result} {answer}.",
    ],
    ['its "otherwise" text when the user cancels', { selected: [], cancelled: true }, "Never mind."],
  ])("an ask rule asks the question and says %s", async (_, answer, said) => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", ...answer });
    expect(textOf(await play(agent, turnOf("which"), stage))).toBe(said);
    expect(stage.asked).toEqual([{ kind: "question", question: "Which one?", options: ["a", "b"], multiSelect: true }]);
  });

  test("an ask rule ends with the run when no answer comes", async () => {
    const stage = createRunStage();
    const asked = stage.next("question");
    const end = playToFailure(agent, turnOf("which"), stage);
    await asked;
    stage.abort();
    expect((await end).parts).toEqual([]);
  });
});

describe("a confirm rule", () => {
  const agent = scripted({
    confirm: { tool: "delete_file", arguments: { path: "a.txt" } },
    say: "Deleted.",
    otherwise: "Kept it.",
  });
  const decide = async (answer: { verdict: "approve" | "approve_always" | "reject"; reason?: string }) => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", ...answer });
    return { stage, parts: await play(agent, turnOf("delete"), stage) };
  };

  test("a confirm rule shows the call, asks, and continues when the user approves", async () => {
    const { stage, parts } = await decide({ verdict: "approve" });
    const [call] = callsOf(parts);
    expect(call!.function).toEqual({ name: "delete_file", arguments: '{"path":"a.txt"}' });
    expect(stage.asked).toEqual([{ kind: "confirmation", toolCall: call!, isSensitive: true }]);
    const { toolCallId } = call!;
    expect(parts.slice(1)).toEqual([
      { type: "tool-result", toolCallId, toolName: "delete_file", content: "Approved.", status: "success" },
      { type: "text", text: "Deleted." },
    ]);
  });

  test.each([
    [{ verdict: "reject", reason: "it is mine" }, { content: "Rejected: it is mine", status: "error" }, "Kept it."],
    [{ verdict: "reject" }, { content: "Rejected.", status: "error" }, "Kept it."],
    [{ verdict: "approve_always" }, { content: "Approved.", status: "success" }, "Deleted."],
  ] as const)("a confirm rule obeys the answer, which its result keeps: %j", async (answer, result, said) => {
    const { parts } = await decide(answer);
    expect(ofType(parts, "tool-result")).toMatchObject([result]);
    expect(textOf(parts)).toBe(said);
  });

  test("a tool that is approved for the session needs no confirmation", async () => {
    const stage = createRunStage();
    const parts = await play(agent, turnOf("delete", { approvedTools: ["delete_file"] }), stage);
    expect(stage.asked).toEqual([]);
    expect(parts.map(({ type }) => type)).toEqual(["tool-call", "tool-result", "text"]);
  });

  test('a confirm rule without "otherwise" says nothing when the user rejects', async () => {
    const stage = createRunStage();
    stage.willAnswer({ kind: "confirmation", verdict: "reject" });
    const parts = await play(scripted({ confirm: { tool: "t" }, say: "done" }), turnOf("go"), stage);
    expect(parts.map(({ type }) => type)).toEqual(["tool-call", "tool-result"]);
  });

  test("a confirm rule's call has the same id in each run of an attempt, and another one in the next attempt", async () => {
    const idOf = async (attempt: number) => {
      const stage = createRunStage();
      const input = messageOf("user", "delete", { id: turn.input.id });
      const parts = await play(agent, { ...turn, input, attempt, approvedTools: ["delete_file"] }, stage);
      return callsOf(parts)[0]!.toolCallId;
    };
    const turn = turnOf("delete");
    expect(await idOf(1)).toBe(await idOf(1));
    expect(await idOf(1)).not.toBe(await idOf(2));
  });
});

describe("a fail rule", () => {
  const agent = scripted(
    { match: "flaky", fail: { code: "provider_rate_limited", times: 2, message: "Not yet." }, say: "Better now." },
    { say: "fine" },
  );

  test("a fail rule fails the configured number of times in a session, counted from the history", async () => {
    const turn = turnOf("flaky");
    const { parts, failure } = await playToFailure(agent, turn);
    expect(parts).toEqual([]);
    expect(failure).toMatchObject({ code: "provider_rate_limited", message: "Not yet." });
    const once = [messageOf("user", "flaky, first"), messageOf("assistant", "flaky")];
    expect((await playToFailure(agent, { ...turn, history: once })).failure).toBeDefined();
    const twice = [...once, messageOf("user", "something else"), messageOf("user", "FLAKY again")];
    expect(textOf(await play(agent, { ...turn, history: twice }))).toBe("Better now.");
    // The message that it answers does not count.
    const again = [messageOf("user", "flaky"), turn.input];
    expect((await playToFailure(agent, { ...turn, history: again })).failure).toBeDefined();
  });

  test("a fail rule has the sentence of its code unless the rule gives one", async () => {
    const { failure } = await playToFailure(scripted({ fail: { code: "provider_refused" } }), turnOf("go"));
    expect(failure).toMatchObject({ message: "The model's provider refused the request." });
  });
});

describe("a rule with several actions", () => {
  test("the actions of a rule are done in the order fail, ask, confirm, delegate, say", async () => {
    const agent = scripted({
      fail: { code: "provider_unreachable" },
      say: "{answer}: {result}",
      delegate: { name: "browser", task: "look it up" },
      confirm: { tool: "go_online" },
      ask: { question: "Where?" },
      usage: { input: 1, output: 1 },
    });
    const turn = turnOf("go");
    const stage = createRunStage();
    expect((await playToFailure(agent, turn, stage)).parts).toEqual([]);
    expect(stage.asked).toEqual([]);

    stage.willAnswer({ kind: "question", selected: ["here"] }, { kind: "confirmation", verdict: "approve" });
    const parts = await play(agent, { ...turn, history: [messageOf("user", "go")] }, stage);
    expect(stage.asked.map(({ kind }) => kind)).toEqual(["question", "confirmation"]);
    const types = parts.map((part) => (part.agent ? `${part.agent.name}: ${part.type}` : part.type));
    const delegated = ["tool-call", "browser: text", "browser: text", "tool-result"];
    expect(types).toEqual(["tool-call", "tool-result", ...delegated, "text", "usage"]);
    expect(textOf(parts)).toBe("here: It is raining.");
  });

  test("the actions of a rule end with an abort, even if none of them waits", async () => {
    const stage = createRunStage();
    const turn = turnOf("go", { approvedTools: ["t"] });
    const { parts } = await playUntil(scripted({ confirm: { tool: "t" }, say: "Done." }), turn, stage, "tool-result");
    stage.abort();
    await expect(parts.next()).rejects.toThrow("aborted by the test");
  });

  test("the actions of a rule end with the first rejection", async () => {
    const agent = scripted({
      ask: { question: "Sure?" },
      confirm: { tool: "t" },
      delegate: { name: "browser", task: "t" },
      otherwise: "Then not.",
    });
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: [], cancelled: true });
    expect(await play(agent, turnOf("go"), stage)).toEqual([{ type: "text", text: "Then not." }]);
  });

  test("a delegation that the user confirms is two calls", async () => {
    const args = { name: "browser", task: "t" };
    const agent = scripted({ confirm: { tool: "sub-agent", arguments: args }, delegate: args });
    const calls = callsOf(await play(agent, turnOf("go", { approvedTools: ["sub-agent"] })));
    expect(new Set(calls.map(({ toolCallId }) => toolCallId)).size).toBe(2);
  });

  test('a rule says its "otherwise" text if the sub-agent has no result', async () => {
    const agent = scripted({ delegate: { name: "nobody", task: "t" }, say: "{result}", otherwise: "No luck." });
    const parts = await play(agent, turnOf("go"));
    const [call] = callsOf(parts);
    expect(call!.function).toEqual({ name: "sub-agent", arguments: '{"name":"nobody","task":"t"}' });
    const [result] = ofType(parts, "tool-result");
    expect(result).toMatchObject({ toolCallId: call!.toolCallId, toolName: "sub-agent", status: "error" });
    expect(JSON.parse(result!.content)).toMatchObject({ ok: false, error: { code: "NOT_FOUND" } });
    expect(textOf(parts)).toBe("No luck.");
  });
});
