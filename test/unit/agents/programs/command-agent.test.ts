import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Part } from "../../../../src/agents/agent.ts";
import { readJsonLine } from "../../../../src/agents/command/json-line.ts";
import { gone, isAlive, LEAVERS, running } from "../../../support/agents/processes.ts";
import { acpAdapter, commandAdapter, printing, talking } from "../../../support/agents/programs.ts";
import {
  createRunStage,
  messageOf,
  ofType,
  play,
  playToFailure,
  playUntil,
  textOf,
  turnOf,
} from "../../../support/agents/run-stage.ts";

const exitOf = (parts: readonly Part[]) => ofType(parts, "exit");
const logOf = (parts: readonly Part[]) => ofType(parts, "log").map(({ text }) => text);
const textsOf = (parts: readonly Part[]) => ofType(parts, "text").map(({ text }) => text);

describe("a prompt", () => {
  const quoted = '$(rm -rf /) `id` "quoted" 你好\nsecond line';
  test.each([
    ["reaches the program on its standard input", commandAdapter("echo"), quoted, quoted],
    [
      "reaches the program unchanged, as one argument",
      commandAdapter("arguments", "--say={prompt}", "end"),
      "a; b && $(c) 'd'",
      "--say=a; b && $(c) 'd'|end",
    ],
    [
      "that begins with a dash is not parsed as an option",
      commandAdapter("arguments", "{prompt}"),
      "--dangerous",
      " --dangerous",
    ],
  ])("a prompt %s", async (_, adapter, prompt, received) => {
    expect(textOf(await play(talking(adapter).agent, turnOf(prompt)))).toBe(received);
  });

  test("a prompt that is too long for an argument is refused, and nothing is started", async () => {
    const { agent } = printing("arguments", commandAdapter("arguments", "{prompt}"));
    const ended = await playToFailure(agent, turnOf("x".repeat(140_000)));
    expect(ended).toMatchObject({ failure: { code: "too_large" }, parts: [] });
  });

  test("a prompt includes the conversation if the catalogue entry requires it", async () => {
    const history = [messageOf("user", "Call me Ann."), messageOf("assistant", "Hello Ann.")];
    const text = textOf(await play(printing("echo", { history: true }).agent, turnOf("Who am I?", { history })));
    expect(text).toContain("User: Call me Ann.\n\nAssistant: Hello Ann.\n\nWho am I?");
    expect(textOf(await play(printing("echo").agent, turnOf("Who am I?", { history })))).toBe("Who am I?");
  });
});

describe("the user of a program", () => {
  const adapter = (more: object) => ({
    kind: "command",
    command: "/bin/sh",
    args: [
      "-c",
      "/usr/bin/id -u; /usr/bin/id -g; /usr/bin/id -G; /bin/cat /proc/$PPID/environ > /dev/null 2>&1 && echo read; true",
    ],
    cwd: "/",
    ...more,
  });
  const outputOf = async (more: object) => textOf(await play(talking(adapter(more)).agent, turnOf("go")));
  const asRoot = test.skipIf(process.getuid?.() !== 0);
  const run_as = { uid: 65_533, gid: 65_532 };

  asRoot("a program runs as its own user, who cannot read its worker's environment", async () => {
    expect(await outputOf({ run_as })).toBe("65533\n65532\n65532");
    expect(await outputOf({})).toMatch(/^0\n.*\nread$/s);
  });

  test("a worker that is not root does not start a program with a user of its own, and says why", async () => {
    const getuid = vi.spyOn(process, "getuid").mockReturnValue(1_000);
    onTestFinished(() => getuid.mockRestore());
    const { failure } = await playToFailure(talking(adapter({ run_as })).agent, turnOf("go"));
    expect(`${failure}`).toMatch(/run_as needs Linux or macOS, and a worker that runs as root/);
  });
});

describe("the output of a program", () => {
  test("a program's output is text, line by line, without the last line break, and its end is reported once", async () => {
    const { agent, logged } = printing("lines");
    const parts = await play(agent, turnOf("go"));
    expect(textsOf(parts)).toEqual(["one", "\n\ntwo", "\nthree"]);
    expect(exitOf(parts)).toEqual([{ type: "exit", code: 0, signal: null, durationMs: expect.any(Number) }]);
    expect(parts.at(-1)).toBe(exitOf(parts)[0]);
    // To its run, and not in the log.
    expect(logged.filter(({ message }) => /aborted run/.test(message))).toEqual([]);
  });

  test("lines of JSON become parts, and other lines are logged", async () => {
    const parts = await play(printing("parts", { format: "jsonl" }).agent, turnOf("go"));
    expect(parts.slice(0, -1)).toEqual([
      { type: "start", command: [process.execPath, "--no-warnings", expect.any(String), "parts"], cwd: process.cwd() },
      { type: "reasoning", text: "hm" },
      { type: "tool-call", call: { toolCallId: "t", function: { name: "look", arguments: '{"at":"it"}' } } },
      { type: "tool-result", toolCallId: "t", toolName: "look", content: "seen", status: "success" },
      { type: "log", stream: "stdout", text: "this is no JSON" },
      { type: "log", stream: "stdout", text: '{"type":"unheard of"}' },
      { type: "message", content: "Whole.", output: "w" },
      { type: "data", name: "chart", data: [1] },
      { type: "log", stream: "stdout", text: "a line" },
    ]);
  });

  test("a long line, or the log, is never cut within a character", async () => {
    const parts = await play(printing("cars").agent, turnOf("go"));
    const line = `x${"🚗".repeat(5_000)}`;
    expect(textOf(parts)).toBe(line);
    expect(logOf(parts).join("")).toBe(line);
    const pieces = [...textsOf(parts), ...logOf(parts)];
    expect(pieces.length).toBe(5);
    expect(pieces.filter((text) => !text.isWellFormed())).toEqual([]);
  });

  test("a character that is split over two lines of JSON is put together", async () => {
    const parts = await play(printing("halves", { format: "jsonl" }).agent, turnOf("go"));
    expect(textOf(parts)).toBe("A 🚗 drives.");
  });

  test("a program's text and log contain no part of a secret that has several lines, or that stands where a line is cut", async () => {
    const env = { OTHER_NAME: "sk-very-secret\n1234-more-of-it" };
    const { agent } = printing("pieces", { env: ["THE_KEY=OTHER_NAME"] }, env);
    const parts = await play(agent, turnOf("go"));
    expect(textOf(parts)).toBe(`I know [THE_KEY].\n${"x".repeat(8_185)}[THE_KEY]\nand s`);
    expect(logOf(parts).join("|")).toBe(`using [THE_KEY]|${"y".repeat(4_084)}[THE_KEY]|and s`);
  });

  test("a secret in pieces of a reply, or in JSON, is not shown, and what only begins like it is", async () => {
    const key = 'sk-very-secret"1234';
    const { agent } = printing("tokens", { env: ["THE_KEY"], format: "jsonl" }, { THE_KEY: key });
    const { parts, failure } = await playToFailure(agent, turnOf("go"));
    expect(textOf(parts)).toBe("I know [THE_KEY].and s");
    expect(failure).toMatchObject({ message: "no [THE_KEY]" });
    const shown = JSON.stringify(parts);
    expect(shown).toContain('{"type":"data","name":"[THE_KEY]","data":{"[THE_KEY]":"[THE_KEY]"}}');
    expect(shown).not.toContain(key.slice(0, 7));
    const adapter = { ...commandAdapter("tokens", "hangs"), env: ["THE_KEY"], format: "jsonl", silence_timeout: "1s" };
    const hanging = talking(adapter, {}, { THE_KEY: key });
    const late = await playToFailure(hanging.agent, turnOf("go"));
    expect(late.failure).toMatchObject({ message: "This agent's program has given no sign for 1 s." });
    expect(textOf(late.parts)).toBe("I know [THE_KEY].and s");
  });

  test.each(["lines", "line"])("endless output, as %s, is read no faster than it is pulled", async (form) => {
    const { agent } = printing("flood", commandAdapter("flood", form));
    const { parts } = await playUntil(agent, turnOf("go"), createRunStage(), "start");
    const lengths: number[] = [];
    while (lengths.length < 200) lengths.push(((await parts.next()).value as { text: string }).text.length);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(8_194);
    expect(lengths.reduce((sum, length) => sum + length)).toBeGreaterThan(1_000_000);
    await parts.return?.();
  });

  test("lines of JSON that are nested too deeply, or report an exit, become lines of the log", async () => {
    const parts = await play(printing("nested", { format: "jsonl" }).agent, turnOf("go"));
    expect(textOf(parts)).toBe("Still here.");
    expect(logOf(parts)).toHaveLength(3);
    for (const name of ["start", "exit"]) {
      expect(readJsonLine(`{"type":"data","name":"${name}","data":{"code":0}}`, (text) => text)).toBeUndefined();
    }
  });

  test("an endless line of JSON fails with an error", async () => {
    const { agent } = printing("flood", { ...commandAdapter("flood", "line"), format: "jsonl" });
    const { failure } = await playToFailure(agent, turnOf("go"));
    expect(failure).toMatchObject({ code: "too_large" });
  });
});

describe("the end of a program", () => {
  test.each([
    ["1", "provider_unreachable"],
    ["75", "provider_rate_limited"],
    ["77", "provider_refused"],
  ])("a program that ends with code %s is the failure %s, after the text so far", async (code, expected) => {
    const { agent } = printing("code", commandAdapter("code", code));
    const { parts, failure } = await playToFailure(agent, turnOf("go"));
    expect(textOf(parts)).toBe("Half");
    expect(exitOf(parts)).toMatchObject([{ code: Number(code) }]);
    expect(failure).toMatchObject({ code: expected, message: `This agent's program ended with code ${code}.` });
  });

  test("the end of a program ends all processes it started, even in another process session", async () => {
    const subject = printing("leaves");
    expect(textOf(await play(subject.agent, turnOf("go")))).toBe("Bye");
    await gone(subject.tag);
  });

  const leavers = Object.entries(LEAVERS);
  test.each(leavers)("the end of a program ends a process that cleared its environment%s", async (_, script) => {
    const { agent } = talking({ kind: "command", command: "/bin/sh", args: ["-c", script] });
    const pid = Number(textOf(await play(agent, turnOf("go"))));
    expect(pid).toBeGreaterThan(0);
    onTestFinished(() => void (isAlive(pid) && process.kill(pid, "SIGKILL")));
    expect(isAlive(pid)).toBe(false);
  });

  test("a program's run ends although a process that left its run keeps the pipe open", async () => {
    const parts = await play(printing("escapes").agent, turnOf("go"));
    const pid = Number(textOf(parts));
    expect(pid).toBeGreaterThan(0);
    expect(exitOf(parts)).toMatchObject([{ code: 0 }]);
    process.kill(pid, "SIGKILL");
  });
});

test.each([
  ["a program", () => printing("stubborn"), "go"],
  ["a coding agent", () => talking(acpAdapter("stays")), "stubborn"],
])("an abort ends %s that ignores every request to end, and the node logs its exit, once", async (_, make, content) => {
  const { agent, logged, tag } = make();
  const stage = createRunStage();
  const { part, parts } = await playUntil(agent, turnOf(content), stage, "text");
  expect(part).toMatchObject({ text: "I stay" });
  await running(tag, 2);
  stage.abort();
  await parts.next().catch(() => {});
  await parts.return?.();
  await gone(tag);
  const [sessionId, durationMs] = [expect.any(String), expect.any(Number)];
  const code = expect.toSatisfy((value) => value === null || typeof value === "number");
  const signal = expect.toSatisfy((value) => value === null || typeof value === "string");
  const facts = { agentId: "subject", sessionId, runId: "run_1", code, signal, durationMs };
  const message = "the program of an aborted run has ended";
  expect(logged.filter((line) => /aborted run/.test(line.message))).toEqual([{ facts, message }]);
});

test.each([
  ["a program", () => printing("clears")],
  ["a coding agent", () => talking()],
])("an abort of %s ends its tools that cleared their environment", async (_, make) => {
  const { agent } = make();
  const stage = createRunStage();
  const { part, parts } = await playUntil(agent, turnOf("clears"), stage, "text");
  const pid = Number((part as { text: string }).text);
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, "SIGKILL")));
  await expect.poll(() => readFileSync(`/proc/${pid}/cmdline`, "utf8")).toMatch(/^\/bin\/sleep/);
  stage.abort();
  await parts.return?.();
  expect(isAlive(pid)).toBe(false);
});

test.each([
  ["from its start", "silent", { start_timeout: "1s" }, "has not begun for 1 s."],
  ["after its first text", "pauses", { silence_timeout: "1s" }, "has given no sign for 1 s."],
])("a program that is silent %s is ended, and the run reports it", async (_, behaviour, limits, sentence) => {
  const { parts, failure } = await playToFailure(printing(behaviour, limits).agent, turnOf("go"));
  expect(failure).toMatchObject({ code: "provider_unreachable", message: `This agent's program ${sentence}` });
  expect(exitOf(parts)).toMatchObject([{ code: null, signal: "SIGTERM" }]);
});

test.each([
  ["lines that are no part of its reply", ["stdout", "begun"], "jsonl"],
  ["empty lines", ["empty"], "text"],
  ["a log", ["log", "begun"], "jsonl"],
])("a program that prints %s without end is ended, and the run reports it", async (_, args, format) => {
  const subject = talking({ ...commandAdapter("drones", ...args), format });
  const { failure } = await playToFailure(subject.agent, turnOf("go"));
  const message = "This agent's program printed 67,108,864 characters without a part of a reply.";
  expect(failure).toMatchObject({ code: "too_large", message });
  await gone(subject.tag);
});

describe("a program's environment", () => {
  test("a program's environment has the basic and the listed variables, and no others of the worker's", async () => {
    const env = { HOME: "/nowhere", LISTED: "listed", HIDDEN: "hidden", OTHER: "other" };
    const { agent } = printing("environment", { env: ["LISTED", "MINE=OTHER", "UNSET"], set: { PLAIN: "p" } }, env);
    const names = textOf(await play(agent, turnOf("go"))).split(" ");
    expect(names).toEqual(["HOME", "INTERLOCK_RUN", "LISTED", "MINE", "PATH", "PLAIN", "TEST_TAG"]);
  });

  test("a run whose program is not found is refused with a sentence, and starts nothing", async () => {
    const { agent } = printing("echo", { command: "no-such-program-anywhere" });
    const message = "This agent cannot start here: the program no-such-program-anywhere is not found.";
    const failure = { code: "provider_refused", message };
    expect(await playToFailure(agent, turnOf("go"))).toMatchObject({ failure, parts: [] });
  });
});
