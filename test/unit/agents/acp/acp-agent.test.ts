import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Part } from "../../../../src/agents/agent.ts";
import { AppError } from "../../../../src/protocol/errors.ts";
import { masterRef } from "../../../../src/protocol/message.ts";
import type { Clock } from "../../../../src/shared/ports/clock.ts";
import { SystemClock } from "../../../../src/system/system-clock.ts";
import { gone, running } from "../../../support/agents/processes.ts";
import { acpAdapter, talking } from "../../../support/agents/programs.ts";
import {
  createRunStage,
  messageOf,
  ofType,
  play,
  playToFailure,
  playUntil,
  type RunStage,
  textOf,
  turnOf,
} from "../../../support/agents/run-stage.ts";
import { makeFolder } from "../../../support/stores/sqlite-place.ts";

const sessionsOf = (parts: readonly Part[]) => ofType(parts, "provider-session").map(({ id }) => id);
/** Lines that are no messages of the protocol. */
const strayOf = (parts: readonly Part[]) =>
  ofType(parts, "log").flatMap(({ stream, text }) => (stream === "stdout" ? [text] : []));

/** The prompt that the agent received, as it reports it. */
async function echo(subject: ReturnType<typeof talking>, rest = {}, stage?: RunStage) {
  const parts = await play(subject.agent, turnOf("echo", rest), stage);
  const prompted = JSON.parse(textOf(parts)) as { prompt: { text?: string }[]; session: object; before: string[] };
  return { ...prompted, parts, text: prompted.prompt.map(({ text }) => text ?? "").join("") };
}

describe("the output of a coding agent", () => {
  test("a coding agent's output becomes parts in order, and its tokens are counted", async () => {
    const parts = await play(talking().agent, turnOf("works"));
    const [start, session, ...said] = parts.filter(({ type }) => type !== "log");
    expect(start).toMatchObject({ type: "start", cwd: process.cwd() });
    expect(session).toMatchObject({ type: "provider-session", isLocal: true });
    expect(said).toEqual([
      { type: "reasoning", text: "hm" },
      { type: "data", name: "plan", data: { entries: [{ content: "look", status: "pending", priority: "high" }] } },
      { type: "tool-call", call: { toolCallId: "t", function: { name: "edit", arguments: '{"path":"a.txt"}' } } },
      { type: "data", name: "tool_progress", data: { toolCallId: "t", status: "in_progress", output: "" } },
      { type: "data", name: "tool_progress", data: { toolCallId: "t", status: "in_progress", output: "half" } },
      { type: "data", name: "diff", data: { toolCallId: "t", path: "a.txt", oldText: "a", newText: "b" } },
      { type: "tool-result", toolCallId: "t", toolName: "edit", content: "half", status: "success" },
      { type: "tool-call", call: { toolCallId: "u", function: { name: "tool", arguments: "{}" } } },
      { type: "tool-result", toolCallId: "u", toolName: "tool", content: '{"reason":"gone"}', status: "error" },
      { type: "data", name: "context", data: { used: 10, size: 100 } },
      { type: "data", name: "title", data: { title: "A title" } },
      { type: "data", name: "mode", data: { id: "plan" } },
      { type: "text", text: "Done." },
      { type: "text", text: "\n\nAnd more." },
      { type: "usage", usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 } },
      { type: "exit", code: 0, signal: null, durationMs: expect.any(Number) },
    ]);
  });

  test("cached tokens are counted as prompt tokens", async () => {
    const [usage] = ofType(await play(talking().agent, turnOf("speak")), "usage");
    const counts = { prompt_tokens: 8, completion_tokens: 4, total_tokens: 12, cache_read_input_tokens: 5 };
    expect(usage!.usage).toEqual(counts);
  });

  test("invalid output of a coding agent is logged or skipped, and the turn continues", async () => {
    const parts = await play(talking().agent, turnOf("garbage"));
    expect(textOf(parts)).toBe("warningStill here.");
    expect(strayOf(parts)).toEqual(["Welcome to the agent!", '{"half": ', "[1, 2]"]);
  });

  test("the user is asked what a sub-agent within a coding agent asks, and learns what became of that call alone", async () => {
    const stage = createRunStage();
    stage.willAnswer(
      { kind: "confirmation", verdict: "approve" },
      { kind: "confirmation", verdict: "reject" },
      { kind: "question", selected: [], customInput: "blue" },
    );
    const parts = await play(talking().agent, turnOf("delegates"), stage);
    expect(stage.asked.map(({ kind }) => kind)).toEqual(["confirmation", "confirmation", "question"]);
    const ids = ofType(parts, "tool-call").map(({ call }) => call.toolCallId);
    expect(ids).toEqual(["another-session/t1", "t1"]);
    const results = ofType(parts, "tool-result").map(({ toolCallId, content }) => [toolCallId, content]);
    expect(results).toEqual([["another-session/t1", "theirs"]]);
    expect(JSON.parse(textOf(parts))).toMatchObject([
      { outcome: { outcome: "selected", optionId: "once" } },
      { outcome: { outcome: "selected", optionId: "no" } },
      { action: "accept" },
    ]);
    const noted = ofType(parts, "log").filter(({ text }) => text.includes("another session"));
    expect(noted).toMatchObject([
      { stream: "stderr", text: "The agent sent messages of another session than that of this run. They are ignored." },
    ]);
  });

  test.each([
    ["answers to nothing", "babbles", 9],
    ["messages that are nested too deeply", "nests", 2],
  ])("%s of a coding agent are logged, the turn continues, and the node prints none of them", async (_, how, lines) => {
    const printed = vi.spyOn(console, "error").mockImplementation(() => {});
    const parts = await play(talking().agent, turnOf(how));
    expect(textOf(parts)).toBe("Still here.");
    expect(strayOf(parts)).toHaveLength(lines);
    expect(printed).not.toHaveBeenCalled();
  });

  test("long words and paths of a coding agent are cut", async () => {
    const parts = await play(talking().agent, turnOf("overlong"));
    const data = ofType(parts, "data").map((part) => JSON.stringify(part.data));
    expect(data).toHaveLength(3);
    for (const text of data) expect(text.length).toBeLessThan(25_000);
  });

  test("a coding agent that asks without end and reads no answer is not read on, and fails for its silence", async () => {
    const { agent } = talking({ ...acpAdapter(), silence_timeout: "2s" });
    const before = process.memoryUsage().rss;
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss - before);
    }, 20);
    const { failure } = await playToFailure(agent, turnOf("interrogates"));
    clearInterval(watch);
    expect(failure).toMatchObject({ code: "provider_unreachable", message: expect.stringMatching(/no sign for 2 s/) });
    expect(most).toBeLessThan(60_000_000);
  });

  const ENDS = ["null", '"end_turn"', '{"stopReason":{},"usage":[],"_meta":7}'];
  test.each(ENDS)(
    "a coding agent whose prompt ends with %s is done if it spoke, and has failed if not",
    async (shape) => {
      const parts = await play(talking().agent, turnOf(`shapes Hello ${shape}`));
      expect(textOf(parts)).toBe("Hello");
      expect(ofType(parts, "usage")).toEqual([]);
      const { failure } = await playToFailure(talking().agent, turnOf(`shapes  ${shape}`));
      const message = "This agent failed: it produced no output";
      expect(failure).toMatchObject({ code: "provider_unreachable", message });
    },
  );

  const GREETINGS = ["null", '{"agentCapabilities":"all"}', '{"agentCapabilities":{"sessionCapabilities":7}}'];
  test.each(GREETINGS)("a coding agent that greets with %s is taken for one without capabilities", async (shape) => {
    const parts = await play(talking(acpAdapter(`greets ${shape}`)).agent, turnOf("speak"));
    expect(textOf(parts)).toBe("One, two, three.");
  });

  test("output that is cut by the model's limit is marked as incomplete", async () => {
    const parts = await play(talking().agent, turnOf("endless"));
    expect(ofType(parts, "finish")).toEqual([{ type: "finish", reason: "length" }]);
  });

  test("output of a coding agent just after the end of its turn belongs to the reply", async () => {
    expect(textOf(await play(talking().agent, turnOf("late")))).toBe("In time. Just in time.");
  });

  test("a hundred megabytes of output are read no faster than they are pulled, and can be abandoned at once", async () => {
    const subject = talking();
    const parts = subject.agent.run(turnOf("floods"), createRunStage().control)[Symbol.asyncIterator]();
    const before = process.memoryUsage().rss;
    for (let pulled = 0; pulled < 100; pulled += 1) await parts.next();
    for (let turns = 0; turns < 1_000; turns += 1) await new Promise(setImmediate);
    expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
    await parts.return?.();
    await gone(subject.tag);
  });
});

describe("a conversation", () => {
  test("a conversation begins with the instructions, the earlier messages, the message and its images", async () => {
    const subject = talking(acpAdapter(), { instructions: "Be brief." });
    const stage = createRunStage();
    const image = stage.storeImage(new Uint8Array([1, 2, 3]), "image/png");
    const history = [messageOf("user", "Call me Ann."), messageOf("assistant", "Hello Ann.")];
    const input = messageOf("user", "echo", { images: [image] });
    const { prompt, text } = await echo(subject, { history, input }, stage);
    expect(text).toMatch(/^Be brief\.\n\n.*\n\nUser: Call me Ann\.\n\nAssistant: Hello Ann\.\n\necho$/s);
    expect(prompt[1]).toEqual({ type: "image", mimeType: "image/png", data: "AQID" });
  });

  test("a conversation has the mode and the folder of its entry, and its instructions separately if the agent accepts them so", async () => {
    const adapter = { ...acpAdapter("instructed"), mode: "plan", cwd: "/" };
    const { text, session } = await echo(talking(adapter, { instructions: "Be brief." }));
    expect(text).toBe("echo");
    const systemPrompt = { mode: "append", content: [{ type: "text", text: "Be brief." }] };
    expect(session).toMatchObject({ systemPrompt, mode: "plan", cwd: "/" });
  });

  test.each([
    ["session/resume", "resumes"],
    ["session/load", "loads"],
  ])("a conversation continues by %s after a restart, and receives only the messages it missed", async (_, ability) => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    const subject = talking(acpAdapter(ability, folder), { instructions: "Be brief." });
    const [id] = sessionsOf(await play(subject.agent, turnOf("speak of Ann")));
    const own = { agent: masterRef("subject"), runId: "run_0" as never };
    const heard = messageOf("user", "speak of Ann");
    const reply = messageOf("assistant", "One, two, three.", own);
    const others = [
      messageOf("user", "What is the time?"),
      messageOf("assistant", "Noon.", { agent: masterRef("clock") }),
    ];
    const rest = { providerSessionId: id, heardUpTo: heard.id };
    const { parts, text, before } = await echo(subject, { ...rest, history: [heard, reply, ...others] });
    expect(sessionsOf(parts)).toEqual([id]);
    expect(before).toHaveLength(1);
    expect(text).toMatch(/:\n\nUser: What is the time\?\n\nAssistant \(clock\): Noon\.\n\necho$/);
    expect(text).not.toContain("three");
    expect(textOf(parts)).not.toContain("replayed");
    const cut = await echo(subject, { ...rest, history: [heard, { ...reply, playedUpTo: 8 }, ...others] });
    expect(cut.text).toMatch(/heard only this of your reply:\n\nOne, two \[.*\]\n\necho$/);
  });

  test.each([
    ["loads, before its answer", "session/load"],
    ["loads, after its answer", "session/load"],
    ["loads, after its answer, as it is busy", "session/load"],
    ["resumes, before its answer", "session/resume"],
    ["resumes, after its answer", "session/resume"],
    ["resumes, after its answer, as it is busy", "session/resume"],
  ])("a conversation that the agent repeats when it %s, adds nothing to the reply", async (ability) => {
    const { folder, remove } = await makeFolder();
    onTestFinished(remove);
    // A question to the agent is answered in its time, and not in that of a busy machine.
    const real = new SystemClock();
    const clock: Clock = {
      now: () => real.now(),
      after: (delayMs, callback) => real.after(delayMs === 2_000 ? 60_000 : delayMs, callback),
    };
    const subject = talking(acpAdapter(ability, folder), {}, {}, { clock });
    const [id] = sessionsOf(await play(subject.agent, turnOf("speak of Ann")));
    const parts = await play(subject.agent, turnOf("speak", { providerSessionId: id }));
    expect(textOf(parts)).toBe("One, two, three.");
    expect(ofType(parts, "tool-call")).toEqual([]);
  });

  test("a lost conversation begins again with the whole history, and the old one is forgotten", async () => {
    const history = [
      messageOf("user", "Call me Ann."),
      messageOf("assistant", "Hello Ann.", { agent: masterRef("subject") }),
    ];
    const { parts, text } = await echo(talking(), { history, providerSessionId: "gone" });
    const [lost, begun] = sessionsOf(parts);
    expect([lost, begun]).toEqual([undefined, expect.stringMatching(/^s-/)]);
    expect(text).toContain("Call me Ann.");
  });

  test("a conversation that the agent repeats without end fails with a sentence", async () => {
    // Time passes with what the program writes alone, also the quiet after which it would have repeated everything.
    const real = new SystemClock();
    let now = 0;
    let quiet = { endsAt: Number.POSITIVE_INFINITY, end: () => {} };
    const clock: Clock = {
      now() {
        now += 10;
        if (now >= quiet.endsAt) quiet.end();
        return now;
      },
      after(delayMs, callback) {
        if (delayMs !== 300) return real.after(delayMs, callback);
        const end = () => {
          quiet.endsAt = Number.POSITIVE_INFINITY;
          callback();
        };
        quiet = { endsAt: now + delayMs, end };
        return { cancel: () => {} };
      },
    };
    const adapter = { ...acpAdapter("repeats"), start_timeout: "1h", silence_timeout: "1h" };
    const { agent } = talking(adapter, {}, {}, { clock });
    const { failure } = await playToFailure(agent, turnOf("speak", { providerSessionId: "s-1" }));
    const message = "This agent repeated its conversation for more than 60 s.";
    expect(failure).toMatchObject({ code: "provider_unreachable", message });
  });

  test("a conversation that was interrupted in this turn gets the earlier text, and a request to continue", async () => {
    const rest = { agent: masterRef("subject"), runId: "run_1" as never, status: "interrupted" } as const;
    const said = messageOf("assistant", "One, tw", rest);
    const { text } = await echo(talking(), { attempt: 2, history: [said] });
    expect(text).toMatch(/^echo\n\n.*Go on where you stopped.*\n\nOne, tw$/s);
  });
});

describe("a failure", () => {
  const [LIMITED, REFUSED, UNREACHABLE] = ["provider_rate_limited", "provider_refused", "provider_unreachable"];
  test.each([
    ["reports an error of its rate limit", "limited", LIMITED, " failed: too much"],
    ["demands a login", "login", REFUSED, " failed: Authentication required"],
    ["ends its turn normally, with its usage limit in the metadata", "hidden", LIMITED, " failed: Usage limit reached"],
    ["ends its turn normally, after a final error of Codex", "codexed", UNREACHABLE, " failed: stream gone"],
    ["writes nothing", "wordless", UNREACHABLE, " failed: it produced no output"],
    ["refuses", "refuses", REFUSED, " failed: it refused to answer"],
    ["cancels its turn unasked", "unasked", UNREACHABLE, " failed: it cancelled its turn"],
    ["dies", "dies", UNREACHABLE, "'s program ended with code 7 in the middle of its turn."],
  ])("a turn in which the agent %s is a failure", async (_, behaviour, code, message) => {
    const { parts, failure } = await playToFailure(talking().agent, turnOf(behaviour));
    expect(failure).toBeInstanceOf(AppError);
    expect(failure).toMatchObject({ code, message: `This agent${message}` });
    expect(ofType(parts, "exit")).toHaveLength(1);
  });

  test("a secret that a coding agent streams in pieces, or at a place where its output is cut, is not shown", async () => {
    const key = "sk-very-secret-1234";
    const subject = talking({ ...acpAdapter(), env: ["THE_KEY"] }, {}, { THE_KEY: key });
    const stage = createRunStage();
    stage.willAnswer({ kind: "question", selected: ["no"] });
    const parts = await play(subject.agent, turnOf("leaks"), stage);
    // A beginning of the key at the end of a message is told before what ends the message.
    expect(textOf(parts)).toBe("The key is [THE_KEY].sk-verysk-very");
    const call = parts.findIndex(({ type }) => type === "tool-call");
    expect(parts[call - 1]).toEqual({ type: "text", text: "sk-very" });
    expect(ofType(parts, "reasoning").map(({ text }) => text)).toEqual(["Is it ", "[THE_KEY]?"]);
    const told = ofType(parts, "tool-call").map((part) => part.call.function.arguments);
    expect(told).toEqual(['{"command":"login [THE_KEY]","[THE_KEY]":true}']);
    const [, progress] = ofType(parts, "data").filter(({ name }) => name === "tool_progress");
    expect(progress).toMatchObject({ data: { output: "used " } });
    expect(stage.asked).toMatchObject([{ question: "May I use [THE_KEY]?", options: ["[THE_KEY]", "no"] }]);
    const rest = parts.filter(({ type }) => type !== "text");
    expect(JSON.stringify([rest, stage.asked])).not.toContain(key.slice(0, 8));
  });

  test("a failure contains no secret", async () => {
    const subject = talking({ ...acpAdapter(), env: ["THE_KEY"] }, {}, { THE_KEY: "sk-very-secret-1234" });
    const { failure } = await playToFailure(subject.agent, turnOf("broken"));
    expect(String(failure)).toContain("it broke with [THE_KEY]");
  });

  const [START, SILENCE] = [{ start_timeout: "1s" }, { silence_timeout: "1s" }];
  const unreachable = (sentence: string) => ({ code: UNREACHABLE, message: `This agent${sentence}` });
  const NO_SESSION = unreachable(" failed: it opened no session.");
  test.each([
    ["is silent at its start", "hangs", "go", START, unreachable("'s program has not begun for 1 s.")],
    ["is silent in its turn", "resumes", "mute", SILENCE, unreachable("'s program has given no sign for 1 s.")],
    [
      "prints without end before it has begun",
      "chatters",
      "go",
      START,
      unreachable("'s program has not begun for 1 s."),
    ],
    [
      "prints without end and opens no conversation",
      "drifts",
      "go",
      SILENCE,
      unreachable("'s program has opened no conversation for 1 s."),
    ],
    ["opens a session whose id is no text", 'opens {"a":1}', "speak", {}, NO_SESSION],
    ["opens a session whose id is empty", 'opens ""', "speak", {}, NO_SESSION],
    ["sends updates without a meaning without end", "resumes", "mumbles", {}, { code: "too_large" }],
    ["sends one endless message", "resumes", "huge", {}, { code: "too_large" }],
  ])("an agent that %s fails, and its program is ended", async (_, ability, content, limits, expected) => {
    const subject = talking({ ...acpAdapter(ability), ...limits });
    const { failure } = await playToFailure(subject.agent, turnOf(content));
    expect(failure).toMatchObject(expected);
    await gone(subject.tag);
  });
});

describe("a cancel", () => {
  test.each<[string, string, string, (tag: string, stage: RunStage) => Promise<unknown>]>([
    ["while the agent starts", "hangs", "speak", (tag) => running(tag, 1)],
    ["while it waits for a permission", "resumes", "permit", (_, stage) => stage.next("question")],
  ])("a cancel %s ends the program, and leaves nothing", async (_, ability, content, moment) => {
    const subject = talking(acpAdapter(ability));
    const stage = createRunStage();
    const reached = moment(subject.tag, stage);
    const pulling = play(subject.agent, turnOf(content), stage).catch(() => {});
    await reached;
    stage.abort();
    await pulling;
    await gone(subject.tag);
    expect(stage.leftovers()).toEqual({ sleepers: 0, listeners: 0 });
  });

  test("a cancel in the middle of a tool call leaves no process, in any process session", async () => {
    const subject = talking();
    const stage = createRunStage();
    const { parts } = await playUntil(subject.agent, turnOf("tool"), stage, "tool-call");
    stage.abort();
    await parts.return?.();
    await gone(subject.tag);
  });
});
