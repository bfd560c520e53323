import { expect, test } from "vitest";
import type { Part } from "../../../src/agents/agent.ts";
import { isTooDeep } from "../../../src/protocol/internal/json-depth.ts";
import type { ReportPart } from "../../../src/protocol/internal/run.ts";
import { ReportPart as Schema } from "../../../src/protocol/internal/run.ts";
import { type DriverStage, drive, said } from "../../support/agents/driver-stage.ts";
import { finish } from "../../support/agents/puppet.ts";

const MIB = 1_048_576;
/** NUL, and half of a character. */
const UNCLEAN = "a\u0000b\ud800";
const CLEAN = "a\ufffdb\ufffd";

const deep = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));

/** What a run reports of these parts of an agent, besides messages. */
async function reported(...parts: Part[]): Promise<ReportPart[]> {
  const stage = await drive();
  stage.run.do(...parts);
  await finish(stage, stage.run);
  expect(stage.outcome()).toBe("done");
  return stage.floor.parts.filter(({ kind }) => kind !== "open" && kind !== "close");
}

const linesOf = (parts: ReportPart[]) => parts.flatMap((part) => (part.kind === "log" ? [part.line.text] : []));

test.each([129, 5_000, 200_000])(
  "data that is nested %i levels deep is left out, and the log says so",
  async (levels) => {
    const parts = await reported({ type: "data", name: "chart", data: deep(levels) }, { type: "text", text: "Done." });
    expect(parts.map(({ kind }) => kind)).toEqual(["log", "append"]);
    expect(linesOf(parts)).toEqual(["data of the name chart was left out: it is nested too deeply"]);
  },
);

test("data that is nested 128 levels deep is kept", async () => {
  const data = deep(128);
  expect(await reported({ type: "data", name: "chart", data })).toMatchObject([{ kind: "data", data }]);
});

test("the depth of a value that contains itself or one object many times is found quickly", () => {
  const circle: Record<string, unknown> = {};
  Object.assign(circle, { one: circle, other: circle });
  expect(isTooDeep(circle)).toBe(false);
  let twice: unknown = [];
  for (let level = 0; level < 100; level++) twice = [twice, twice];
  expect(isTooDeep(twice)).toBe(false);
});

test("data of more than a mebibyte is left out, and the log says so", async () => {
  const [whole, ...others] = await reported(
    { type: "data", name: "chart", data: "x".repeat(MIB - 2) },
    { type: "data", name: "n".repeat(1_000), data: "x".repeat(MIB - 1) },
  );
  expect(whole).toMatchObject({ kind: "data", name: "chart" });
  const left = `data of the name ${"n".repeat(256)} was left out: it has more than ${MIB} characters`;
  expect(linesOf(others)).toEqual([left]);
});

test("data is written as JSON once to bound, count and report it", async () => {
  let written = 0;
  const data = { toJSON: () => ++written };
  expect(await reported({ type: "data", name: "chart", data })).toMatchObject([{ kind: "data" }]);
  expect(written).toBe(1);
});

test("no part has NUL or half of a character", async () => {
  const parts = await reported(
    { type: "tool-call", call: { toolCallId: UNCLEAN, function: { name: UNCLEAN, arguments: UNCLEAN } } },
    { type: "tool-result", toolCallId: UNCLEAN, toolName: UNCLEAN, content: UNCLEAN, status: "success" },
    { type: "data", name: UNCLEAN, data: { [UNCLEAN]: [UNCLEAN, 1, null], __proto__: { own: true } } },
    { type: "log", stream: "stdout", text: UNCLEAN },
    { type: "message", content: "m", output: UNCLEAN },
  );
  expect(parts).toMatchObject([
    { kind: "tool_call", call: { toolCallId: CLEAN, function: { name: CLEAN, arguments: CLEAN } } },
    { kind: "tool_result", toolCallId: CLEAN, toolName: CLEAN, content: CLEAN },
    { kind: "data", name: CLEAN, data: { [CLEAN]: [CLEAN, 1, null] } },
    { kind: "log", line: { text: CLEAN } },
    { kind: "append", text: "m" },
  ]);
});

test("a tool's name is one line without characters that are not seen, and in its arguments they are escapes", async () => {
  const name = "re\u{202e}daer\u{200b}\u{2028}\n file\u{e0041}";
  const json = JSON.stringify({ path: "\u{202e}txt.exe", tag: "\u{e0041}", family: "\u{1F468}\u200d\u{1F469}" });
  const [call, result] = await reported(
    { type: "tool-call", call: { toolCallId: "c", function: { name, arguments: json } } },
    { type: "tool-result", toolCallId: "c", toolName: "\u{202e}", content: "", status: "success" },
  );
  if (call?.kind !== "tool_call" || result?.kind !== "tool_result") throw new Error("other parts");
  expect(call.call.function.name).toBe("redaer file");
  const { arguments: args } = call.call.function;
  expect(args).toBe('{"path":"\\u202etxt.exe","tag":"\\udb40\\udc41","family":"\u{1F468}\u200d\u{1F469}"}');
  expect(JSON.parse(args)).toEqual(JSON.parse(json));
  expect(result.toolName).toBe("unnamed");
});

test("texts that are too long are cut, and never within a character", async () => {
  const long = `x${"\u{1F697}".repeat(100_000)}`;
  const parts = await reported(
    { type: "tool-call", call: { toolCallId: long, function: { name: long, arguments: JSON.stringify({ long }) } } },
    { type: "tool-result", toolCallId: long, toolName: long, content: long, status: "error" },
    { type: "log", stream: "stdout", text: long },
  );
  const [call, result, line] = parts as [ReportPart, ReportPart, ReportPart];
  if (call.kind !== "tool_call" || result.kind !== "tool_result" || line.kind !== "log") throw new Error("other parts");
  const { name, arguments: args } = call.call.function;
  const lengths = [call.call.toolCallId, name, result.toolCallId, result.toolName, result.content, line.line.text];
  expect(lengths.map(({ length }) => length)).toEqual([255, 255, 255, 255, 65_535, 4_095]);
  expect(lengths.every((text) => text.isWellFormed())).toBe(true);
  expect(JSON.parse(args)).toEqual({ cut: expect.stringMatching(/^\{"long":"x/) });
  for (const part of parts) expect(Schema.safeParse(part).success).toBe(true);
});

test("tokens are counted up to a number that JSON can hold", async () => {
  const usage = { prompt_tokens: Number.MAX_SAFE_INTEGER * 3, completion_tokens: 1e308, total_tokens: 7 };
  expect(await reported({ type: "usage", usage })).toEqual([
    { kind: "usage", usage: { prompt_tokens: 1e9, completion_tokens: 1e9, total_tokens: 7 } },
  ]);
});

test.each([
  ["too long", "s".repeat(513)],
  ["no text", { a: 1 } as never],
  ["unclean", UNCLEAN],
])("a provider's session whose id is %s is not kept", async (_, id) => {
  expect(await reported({ type: "provider-session", id })).toEqual([{ kind: "provider_session" }]);
});

const failureOf = (stage: DriverStage) => {
  const outcome = stage.lastOutcome();
  return outcome?.kind === "failed" ? [outcome.code, outcome.message] : outcome;
};

test("the output of whole messages counts as its text", async () => {
  const stage = await drive();
  for (let n = 0; n < 33; n++) stage.run.do({ type: "message", content: "m", output: "x".repeat(200_000) });
  await stage.clock.advance(0);
  expect(failureOf(stage)).toEqual(["too_large", expect.stringMatching(/4,194,304/)]);
});

test("the tool calls and data of a run are cut at 256 MiB, and what it said is kept", async () => {
  const stage = await drive();
  stage.run.say("la");
  const data = "x".repeat(MIB - 2);
  for (let n = 0; n < 257; n++) stage.run.do({ type: "data", name: "flood", data });
  await stage.clock.advance(0);
  expect(failureOf(stage)).toEqual([
    "too_large",
    "The tool calls and data of the run are longer than 268,435,456 characters.",
  ]);
  expect(stage.floor.parts.filter(({ kind }) => kind === "data")).toHaveLength(255);
  expect(said(stage)).toBe("la");
});

test("sixty-four questions may wait for a person; a further one is refused, and its text is bounded", async () => {
  const stage = await drive();
  const options = Array(200).fill("o".repeat(2_000));
  const question = { kind: "question", question: "q".repeat(20_000), options } as const;
  const asked = Array.from({ length: 65 }, () => stage.run.control.askUser(question));
  for (const one of asked) one.catch(() => {});
  await expect(asked[64]).rejects.toMatchObject({ code: "busy" });
  await stage.clock.advance(0);
  const asks = stage.floor.parts.filter((part) => part.kind === "ask");
  expect(asks).toHaveLength(64);
  for (const part of asks) expect(Schema.safeParse(part).success).toBe(true);
  await finish(stage, stage.run);
  expect(stage.outcome()).toBe("done");
});

test("a part that cannot be written fails its run, and nothing else", async () => {
  const stage = await drive();
  stage.run.say("la");
  stage.run.do({ type: "data", name: "big", data: 1n });
  await stage.clock.advance(0);
  expect(failureOf(stage)).toEqual(["internal", expect.any(String)]);
  expect(said(stage)).toBe("la");
});
