import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import { type DriverStage, drive, kinds, said } from "../../support/agents/driver-stage.ts";
import { finish, Puppet } from "../../support/agents/puppet.ts";

const MAX_LOG_UNITS = 1_048_576;
const MAX_UNACKNOWLEDGED_UNITS = 262_144;
const MASTER = masterRef("music");

const SUB = { kind: "sub" as const, name: "browser", depth: 1, path: ["music", "browser"] };

test("a finished attempt has reported its agent's whole output in order, with its authors, and its outcome", async () => {
  const stage = await drive(new Puppet(), undefined, "here");
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
  const call = { toolCallId: "t", function: { name: "look", arguments: "{}" } };
  const result = { toolCallId: "t", toolName: "look", content: "there", status: "success" as const };
  const exit = { code: null, signal: "SIGKILL" as const, durationMs: 12 };
  stage.run.say("I look.");
  stage.run.do({ type: "text", text: "So do I.", agent: SUB }, { type: "tool-call", call });
  stage.run.say("I wait.");
  stage.run.do(
    { type: "tool-result", ...result },
    { type: "data", name: "chart", data: [1] },
    { type: "provider-session", id: "near", isLocal: true },
    { type: "provider-session", id: "anywhere" },
    { type: "provider-session", id: undefined },
    { type: "exit", ...exit },
    { type: "text", text: "So:" },
    { type: "message", content: "A whole message.", output: "whole" },
  );
  stage.run.say("It is ", "there.");
  stage.run.do({ type: "usage", usage });
  await finish(stage, stage.run);
  expect(stage.outcome()).toBe("done");
  const idOf = (n: number) => `run_1-1-${n}`;
  const text = (n: number, words: string, agent: object = MASTER) => [
    { kind: "open", messageId: idOf(n), agent },
    { kind: "append", messageId: idOf(n), offset: 0, text: words },
  ];
  const close = (n: number, rest = {}) => ({ kind: "close", messageId: idOf(n), status: "success", ...rest });
  expect(stage.floor.parts).toEqual([
    ...text(0, "I look."),
    ...text(1, "So do I.", SUB),
    close(0),
    { kind: "tool_call", call, agent: MASTER },
    ...text(2, "I wait."),
    close(2),
    { kind: "tool_result", ...result, agent: MASTER },
    { kind: "data", name: "chart", data: [1], agent: MASTER },
    { kind: "provider_session", id: "near", home: "here" },
    { kind: "provider_session", id: "anywhere" },
    { kind: "provider_session" },
    { kind: "data", name: "exit", data: { runId: "run_1", ...exit }, agent: MASTER },
    ...text(3, "So:"),
    close(3),
    ...text(4, "A whole message."),
    close(4, { output: "whole" }),
    ...text(5, "It is there."),
    { kind: "usage", usage },
    close(1),
    close(5, { usage }),
  ]);
  expect(stage.lastOutcome()).toEqual({ kind: "done", summary: "It is there." });
  expect(said(stage)).toBe("I look.So do I.I wait.So:A whole message.It is there.");
  expect(stage.run.isOver).toBe(true);
  expect(stage.clock.timerCount).toBe(0);
});

test("an attempt with too much output is cut, and fails with an error", async () => {
  const stage = await drive();
  const piece = "x".repeat(65_536);
  for (let length = 0; length <= 4_194_304; length += piece.length) stage.run.say(piece);
  await stage.clock.advance(60_000);
  const message = "The reply is longer than 4,194,304 characters, and was cut there.";
  expect(stage.lastOutcome()).toEqual({ kind: "failed", code: "too_large", message });
  expect([said(stage).length, stage.run.isOver]).toEqual([4_194_304, true]);
});

test("a finished attempt leaves no timer and no question of its agent", async () => {
  const stage = await drive();
  const { control } = stage.run;
  const failures: unknown[] = [];
  for (const waiting of [control.sleep(60_000), control.askUser({ kind: "question", question: "?", options: [] })]) {
    waiting.catch((error) => void failures.push(error));
  }
  await finish(stage, stage.run);
  expect([stage.outcome(), failures.length, control.signal.aborted]).toEqual(["done", 2, true]);
  expect(stage.clock.timerCount).toBe(0);
  await expect(control.sleep(1)).rejects.toThrow();
});

test.each([
  ["provider_rate_limited", { retryAfterMs: 900 }, { retryAfterMs: 900 }],
  ["provider_rate_limited", { retryAfterMs: "soon" }, {}],
  ["provider_unreachable", {}, {}],
  ["provider_refused", { prompt: "secret" }, {}],
] as const)(
  "an attempt whose agent fails with %s and %j reports it, and keeps the text so far",
  async (code, facts, told) => {
    const stage = await drive();
    stage.run.say("la");
    stage.run.fail(new AppError(code, "no, and this is why", { facts }));
    await stage.clock.advance(0);
    expect(stage.outcome()).toBe("failed");
    expect(stage.lastOutcome()).toEqual({ kind: "failed", code, message: "no, and this is why", ...told });
    expect(stage.floor.parts.at(-1)).toMatchObject({ kind: "close", status: "error" });
    expect(stage.log.lines).toEqual(["a run failed"]);
  },
);

test.each([
  ["an error of its own", new Error("the key is sk-1234")],
  ["the code internal", new AppError("internal", "the key is sk-1234")],
  ["a text", "sk-1234"],
  ["undefined", undefined],
])("an attempt whose agent throws %s fails as internal, without the cause", async (_, failure) => {
  const stage = await drive();
  stage.run.fail(failure);
  await stage.clock.advance(0);
  const { message } = new AppError("internal");
  expect(stage.lastOutcome()).toEqual({ kind: "failed", code: "internal", message });
  expect(stage.log.lines).toEqual(["an agent failed"]);
});

test("an attempt whose agent fails before it began is reported the same way", async () => {
  const agent = new Puppet();
  const failing = Object.assign(agent, {
    run(turn: never, control: never) {
      Puppet.prototype.run.call(agent, turn, control);
      throw new AppError("provider_refused");
    },
  });
  const stage = await drive(failing);
  expect([stage.outcome(), stage.lastOutcome()]).toMatchObject(["failed", { code: "provider_refused" }]);
});

test("an agent that writes faster than the floor accepts is not pulled until the floor has caught up", async () => {
  const stage = await drive();
  stage.floor.hold();
  const piece = "x".repeat(32_768);
  for (let n = 0; n < 20; n++) stage.run.say(piece);
  await stage.clock.advance(60_000);
  const before = said(stage).length;
  expect(before).toBeGreaterThanOrEqual(MAX_UNACKNOWLEDGED_UNITS);
  expect(before).toBeLessThanOrEqual(MAX_UNACKNOWLEDGED_UNITS + 2 * piece.length);
  stage.floor.release();
  await stage.clock.advance(0);
  expect(said(stage).length).toBe(20 * piece.length);
  const appended = stage.floor.parts.map((part) => (part.kind === "append" ? part.text : "")).join("");
  expect(appended.length).toBe(20 * piece.length);
});

test("an agent that waits for the floor to catch up can be stopped", async () => {
  const stage = await drive();
  stage.floor.hold();
  for (let n = 0; n < 20; n++) stage.run.say("x".repeat(32_768));
  await stage.clock.advance(60_000);
  stage.driver.abandon();
  await stage.clock.advance(0);
  expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", true]);
});

const linesOf = ({ floor }: DriverStage) => floor.parts.flatMap((part) => (part.kind === "log" ? [part] : []));

test("a line of a run's log belongs to the current message, or to the next one", async () => {
  const stage = await drive();
  stage.run.do({ type: "log", stream: "stderr", text: "warming up" });
  stage.run.say("la");
  stage.run.do({ type: "log", stream: "stdout", text: "sung" });
  await finish(stage, stage.run);
  expect(linesOf(stage)).toMatchObject([
    { messageId: "run_1-1-0", line: { stream: "stderr", text: "warming up", timestamp: stage.clock.now() } },
    { messageId: "run_1-1-0", line: { stream: "stdout", text: "sung" } },
  ]);
  expect(new Set(linesOf(stage).map(({ line }) => line.id)).size).toBe(2);
  expect(kinds(stage).filter((kind) => kind === "open")).toHaveLength(1);
});

test("the log of a run is cut at 1 MiB, with a note", async () => {
  const stage = await drive();
  const piece = "x".repeat(4_096);
  const pieces = MAX_LOG_UNITS / piece.length;
  for (let n = 0; n < pieces; n++) stage.run.do({ type: "log", stream: "stdout", text: piece });
  await stage.clock.advance(0);
  expect(linesOf(stage)).toHaveLength(pieces);
  for (let n = 0; n < 3; n++) stage.run.do({ type: "log", stream: "stdout", text: "y" });
  await finish(stage, stage.run, "la");
  const lines = linesOf(stage);
  expect(lines).toHaveLength(pieces + 1);
  expect(lines.at(-1)!.line.text).toMatch(/cut/);
  expect([stage.outcome(), said(stage)]).toEqual(["done", "la"]);
});

test("a floor that accepts no further report ends the attempt", async () => {
  const stage = await drive();
  stage.floor.fates.push(...Array.from({ length: 5 }, () => new AppError("internal")));
  stage.run.say("la");
  await stage.clock.advance(60_000);
  expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", true]);
  expect(stage.log.lines).toEqual(["the floor rejects the reports of this run"]);
});

test("an agent gets the bytes of the images that it requests", async () => {
  const stage = await drive();
  const bytes = await stage.run.control.loadImage({ hash: "abc", mimeType: "image/png", bytes: 3 });
  expect(new TextDecoder().decode(bytes)).toBe("abc");
});
