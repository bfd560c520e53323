import { describe, expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { Delta } from "../../../src/protocol/event.ts";
import type { SessionId } from "../../../src/protocol/ids.ts";
import type { Answer } from "../../../src/protocol/interaction.ts";
import { masterRef } from "../../../src/protocol/message.ts";
import type { RunOutcome } from "../../../src/protocol/run.ts";
import { RunDriver } from "../../../src/runs/run-driver.ts";
import { FloorInHand } from "../../support/floor-in-hand.ts";
import { Puppet, type PuppetRun } from "../../support/puppet.ts";
import { turnOf } from "../../support/run-stage.ts";
import { KeptLog } from "../../support/sqlite-place.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const MAX_LOG_UNITS = 1_048_576;
const MAX_UNACKNOWLEDGED_UNITS = 262_144;
const STOP_MS = 5_000;
const MASTER = masterRef("music");

interface Stage {
  clock: VirtualClock;
  floor: FloorInHand;
  log: KeptLog;
  driver: RunDriver;
  run: PuppetRun;
  deltas: Delta[];
  /** Whether it was held, each time that changed. */
  holds: boolean[];
  /** What became of it, once it is over. */
  outcome: () => string | undefined;
  lastOutcome: () => RunOutcome | undefined;
}

/** A driver whose agent has begun. */
async function drive(agent = new Puppet(), onDelta: (driver: RunDriver) => void = () => {}): Promise<Stage> {
  const clock = new VirtualClock();
  const floor = new FloorInHand();
  const log = new KeptLog();
  const deltas: Delta[] = [];
  const holds: boolean[] = [];
  let ids = 0;
  let outcome: string | undefined;
  const driver: RunDriver = new RunDriver({
    agent,
    turn: turnOf("go"),
    sessionId: "session_1" as SessionId,
    clock,
    newId: () => `id${ids++}`,
    log,
    ask: floor.ask,
    loadImage: async ({ hash }) => new TextEncoder().encode(hash),
    stream: (delta) => {
      deltas.push(delta);
      onDelta(driver);
    },
    onHold: (isHeld) => void holds.push(isHeld),
  });
  void driver.run().then((kind) => {
    outcome = kind;
  });
  await clock.advance(0);
  return {
    clock,
    floor,
    log,
    driver,
    run: agent.last,
    deltas,
    holds,
    outcome: () => outcome,
    lastOutcome: () => floor.reports.at(-1)?.outcome,
  };
}

const said = ({ deltas }: Stage) => deltas.map(({ text }) => text).join("");
const kinds = ({ floor }: Stage) => floor.parts.map(({ kind }) => kind);

describe("an attempt that comes to its end", () => {
  test("has said everything its agent did, in order, and how it ended", async () => {
    const stage = await drive();
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const call = { toolCallId: "t", function: { name: "look", arguments: "{}" } };
    stage.run.say("I look.");
    stage.run.do({ type: "tool-call", call });
    stage.run.say("I wait.");
    stage.run.do(
      { type: "tool-result", toolCallId: "t", toolName: "look", content: "there", status: "success" },
      { type: "data", name: "chart", data: [1] },
      { type: "provider-session", id: "p" },
      { type: "text", text: "So:" },
      { type: "message", content: "A whole message.", output: "whole" },
    );
    stage.run.say("It is ", "there.");
    stage.run.do({ type: "usage", usage });
    stage.run.end();
    await stage.clock.advance(0);
    expect(stage.outcome()).toBe("done");
    const idOf = (n: number) => `run_1-1-${n}`;
    const text = (n: number, words: string) => [
      { kind: "open", messageId: idOf(n), agent: MASTER },
      { kind: "append", messageId: idOf(n), offset: 0, text: words },
    ];
    const close = (n: number, rest = {}) => ({ kind: "close", messageId: idOf(n), status: "success", ...rest });
    expect(stage.floor.parts).toEqual([
      ...text(0, "I look."),
      close(0),
      { kind: "tool_call", call, agent: MASTER },
      ...text(1, "I wait."),
      close(1),
      {
        kind: "tool_result",
        toolCallId: "t",
        toolName: "look",
        content: "there",
        status: "success",
        agent: MASTER,
      },
      { kind: "data", name: "chart", data: [1], agent: MASTER },
      { kind: "provider_session", id: "p" },
      ...text(2, "So:"),
      close(2),
      ...text(3, "A whole message."),
      close(3, { output: "whole" }),
      ...text(4, "It is there."),
      { kind: "usage", usage },
      close(4, { usage }),
    ]);
    expect(stage.lastOutcome()).toEqual({ kind: "done", summary: "It is there." });
    expect(said(stage)).toBe("I look.I wait.So:A whole message.It is there.");
    expect(stage.run.isOver).toBe(true);
    expect(stage.clock.timerCount).toBe(0);
  });

  test("that said nothing says so", async () => {
    const stage = await drive();
    stage.run.end();
    await stage.clock.advance(0);
    expect([stage.floor.parts, stage.lastOutcome()]).toEqual([[], { kind: "done" }]);
  });

  test("is over when the floor knows, and not before", async () => {
    const stage = await drive();
    stage.floor.hold();
    stage.run.end();
    await stage.clock.advance(60_000);
    expect([stage.outcome(), stage.driver.isEnding]).toEqual([undefined, true]);
    stage.floor.release();
    await stage.clock.advance(0);
    expect(stage.outcome()).toBe("done");
  });

  test("says that words of another are another's", async () => {
    const stage = await drive();
    const agent = { kind: "sub" as const, name: "browser", depth: 1, path: ["music", "browser"] };
    stage.run.say("I ask.");
    stage.run.do({ type: "text", text: "I look.", agent });
    stage.run.end();
    await stage.clock.advance(0);
    expect(stage.floor.parts.filter(({ kind }) => kind === "open")).toMatchObject([{ agent: MASTER }, { agent }]);
  });

  test("leaves nothing behind that its agent waited for", async () => {
    const stage = await drive();
    const { control } = stage.run;
    const failures: unknown[] = [];
    for (const waiting of [control.sleep(60_000), control.ask({ kind: "question", question: "?", options: [] })]) {
      waiting.catch((error) => void failures.push(error));
    }
    stage.run.end();
    await stage.clock.advance(0);
    expect([stage.outcome(), failures.length, control.signal.aborted]).toEqual(["done", 2, true]);
    expect(stage.clock.timerCount).toBe(0);
    await expect(control.sleep(1)).rejects.toThrow();
  });
});

describe("an attempt whose agent fails", () => {
  test.each([
    ["provider_rate_limited", { retryAfterMs: 900 }, { retryAfterMs: 900 }],
    ["provider_rate_limited", { retryAfterMs: "soon" }, {}],
    ["provider_unreachable", {}, {}],
    ["provider_refused", { prompt: "secret" }, {}],
  ] as const)("with %s and %j says so, and keeps what was said", async (code, facts, told) => {
    const stage = await drive();
    stage.run.say("la");
    stage.run.fail(new AppError(code, "no, and this is why", { facts }));
    await stage.clock.advance(0);
    expect(stage.outcome()).toBe("failed");
    expect(stage.lastOutcome()).toEqual({ kind: "failed", code, message: "no, and this is why", ...told });
    expect(stage.floor.parts.at(-1)).toMatchObject({ kind: "close", status: "error" });
    expect(stage.log.lines).toEqual([]);
  });

  test.each([new Error("the key is sk-1234"), new AppError("internal", "the key is sk-1234"), "sk-1234", undefined])(
    "in any other way is internal, and nothing of the cause is told (%s)",
    async (failure) => {
      const stage = await drive();
      stage.run.fail(failure);
      await stage.clock.advance(0);
      expect(stage.lastOutcome()).toEqual({
        kind: "failed",
        code: "internal",
        message: new AppError("internal").message,
      });
      expect(stage.log.lines).toEqual(["an agent failed"]);
    },
  );

  test("before it began is the same", async () => {
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
});

describe("a hold", () => {
  const hold = { standing: "hold" as const, answers: [] };
  const go = { standing: "go" as const, answers: [] };

  test("stops the pulling; what came at that moment is said when it goes on", async () => {
    const stage = await drive();
    stage.run.say("la ");
    await stage.clock.advance(250);
    const { pulls } = stage.run;
    stage.floor.standing = hold;
    stage.driver.obey(hold);
    stage.run.say("li ", "lu");
    await stage.clock.advance(60_000);
    expect([said(stage), stage.run.pulls, stage.driver.isHeld]).toEqual(["la ", pulls, true]);
    stage.floor.standing = go;
    stage.driver.obey(go);
    await stage.clock.advance(0);
    expect([said(stage), stage.driver.isHeld, stage.holds]).toEqual(["la li lu", false, [true, false]]);
  });

  test("is told at once when it is over, so that no other worker is sent", async () => {
    const stage = await drive();
    stage.driver.obey(hold);
    await stage.clock.advance(0);
    const { length } = stage.floor.reports;
    stage.driver.obey(go);
    await stage.clock.advance(0);
    expect(stage.floor.reports).toHaveLength(length + 1);
  });

  test("said twice is said once", async () => {
    const stage = await drive();
    for (const word of [hold, hold, go, go, go]) stage.driver.obey(word);
    expect(stage.holds).toEqual([true, false]);
  });

  test("whose end was lost is over within a second, by the floor's own word", async () => {
    const stage = await drive();
    stage.floor.standing = hold;
    stage.driver.obey(hold);
    await stage.clock.advance(10_000);
    expect(stage.driver.isHeld).toBe(true);
    stage.floor.standing = go;
    stage.run.say("la");
    await stage.clock.advance(1_000);
    expect([stage.driver.isHeld, said(stage)]).toEqual([false, "la"]);
  });

  test("that was lost is heard with the next report, or within five seconds of silence", async () => {
    const speaking = await drive();
    speaking.floor.standing = hold;
    speaking.run.say("la");
    await speaking.clock.advance(250);
    expect(speaking.driver.isHeld).toBe(true);

    const silent = await drive();
    silent.floor.standing = hold;
    await silent.clock.advance(4_999);
    expect(silent.driver.isHeld).toBe(false);
    await silent.clock.advance(1);
    expect(silent.driver.isHeld).toBe(true);
  });

  test("that begins with a word lets no other be asked for", async () => {
    const agent = new Puppet();
    const stage = await drive(agent, (driver) => driver.obey(hold));
    stage.floor.standing = hold;
    stage.run.say("la");
    await stage.clock.advance(60_000);
    expect([stage.run.pulls, said(stage)]).toEqual([1, "la"]);
  });

  test.each([[], ["la"]])(
    "does not keep an attempt from being stopped, with words to say or without (%j)",
    async (...words) => {
      const stage = await drive();
      stage.floor.standing = hold;
      stage.driver.obey(hold);
      stage.run.say(...words);
      await stage.clock.advance(0);
      stage.driver.stop("it is over");
      await stage.clock.advance(0);
      expect([stage.outcome(), stage.run.isOver, said(stage)]).toEqual(["stopped", true, ""]);
    },
  );

  test("does not keep the agent's end from being told when it goes on", async () => {
    const stage = await drive();
    stage.floor.standing = hold;
    stage.driver.obey(hold);
    stage.run.say("la");
    stage.run.end();
    await stage.clock.advance(60_000);
    expect(stage.outcome()).toBeUndefined();
    stage.floor.standing = go;
    stage.driver.obey(go);
    await stage.clock.advance(0);
    expect([stage.outcome(), said(stage)]).toEqual(["done", "la"]);
  });
});

describe("a stop", () => {
  test("ends an agent that waits for words, keeps what was said, and says so", async () => {
    const stage = await drive();
    stage.run.say("la");
    await stage.clock.advance(0);
    stage.driver.stop("it is over");
    await stage.clock.advance(0);
    expect([stage.outcome(), stage.lastOutcome(), stage.run.isOver]).toEqual(["stopped", { kind: "stopped" }, true]);
    expect(stage.floor.parts.at(-1)).toMatchObject({ kind: "close", status: "interrupted" });
    expect(kinds(stage)).toEqual(["open", "append", "close"]);
    expect(stage.clock.timerCount).toBe(0);
  });

  test("that was lost is heard with the floor's next word", async () => {
    const stage = await drive();
    stage.floor.standing = { standing: "stop", answers: [] };
    await stage.clock.advance(5_000);
    expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", true]);
  });

  test("does not wait for an agent that does not end", async () => {
    const stage = await drive();
    stage.run.isStubborn = true;
    stage.driver.stop("it is over");
    await stage.clock.advance(STOP_MS - 1);
    expect(stage.outcome()).toBeUndefined();
    await stage.clock.advance(1);
    expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", false]);
    // What it says afterwards is heard by nobody.
    const { length } = stage.floor.asked;
    stage.run.say("la la la");
    await stage.clock.advance(60_000);
    expect([said(stage), stage.floor.asked.length]).toEqual(["", length]);
  });

  test("of an agent that fails in the end is a stop, not a failure", async () => {
    const stage = await drive();
    stage.run.isStubborn = true;
    stage.driver.stop("it is over");
    stage.run.fail(new Error("aborted"));
    await stage.clock.advance(0);
    expect([stage.outcome(), stage.log.lines]).toEqual(["stopped", []]);
  });

  test("ends what the agent waits for: a delay, a question", async () => {
    const stage = await drive();
    const { control } = stage.run;
    const waiting = [control.sleep(60_000), control.ask({ kind: "question", question: "?", options: [] })];
    const failures = Promise.allSettled(waiting);
    stage.driver.stop("it is over");
    expect((await failures).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  test("before the agent's first word is a stop", async () => {
    const agent = new Puppet();
    const driving = drive(agent);
    const stage = await driving;
    stage.driver.stop("it is over");
    stage.driver.stop("it is still over");
    await stage.clock.advance(0);
    expect([stage.outcome(), stage.floor.reports.length]).toEqual(["stopped", 1]);
  });

  test("after the end is none", async () => {
    const stage = await drive();
    stage.run.end();
    await stage.clock.advance(0);
    stage.driver.stop("too late");
    stage.driver.giveBack(false);
    await stage.clock.advance(60_000);
    expect([stage.outcome(), stage.floor.reports.length]).toEqual(["done", 1]);
  });
});

describe("an attempt that is given back", () => {
  test.each([true, false])("is lost, and says whether it was held for too long (%s)", async (yielded) => {
    const stage = await drive();
    stage.run.say("la");
    await stage.clock.advance(0);
    stage.driver.giveBack(yielded);
    stage.driver.giveBack(!yielded);
    await stage.clock.advance(0);
    expect([stage.outcome(), stage.lastOutcome()]).toEqual(["lost", { kind: "lost", yielded }]);
    expect(stage.floor.parts.at(-1)).toMatchObject({ kind: "close", status: "interrupted" });
  });

  test("is done all the same when its agent came to the end before", async () => {
    const stage = await drive();
    stage.floor.hold();
    stage.run.end();
    await stage.clock.advance(0);
    stage.driver.giveBack(false);
    stage.floor.release();
    await stage.clock.advance(0);
    expect(stage.lastOutcome()).toEqual({ kind: "done" });
  });

  test("to nobody, since the floor cannot be had, ends without a word", async () => {
    const stage = await drive();
    stage.floor.hold();
    stage.driver.giveBack(false);
    await stage.clock.advance(60_000);
    expect(stage.outcome()).toBeUndefined();
    stage.driver.abandon();
    await stage.clock.advance(0);
    expect(stage.outcome()).toBe("lost");
    expect(stage.floor.reports).toHaveLength(1);
  });
});

describe("a question", () => {
  const question = { kind: "question" as const, question: "Which?", options: ["a", "b"] };
  const answerOf = (stage: Stage, rest: Partial<Answer> = {}): Answer => {
    const part = stage.floor.parts.findLast(({ kind }) => kind === "ask");
    const requestId = (part as { interaction: { requestId: string } }).interaction.requestId;
    return { kind: "question", requestId, selected: ["a"], ...rest } as Answer;
  };

  test("is asked at once, ends the message before it, and is answered", async () => {
    const stage = await drive();
    stage.run.say("Well …");
    await stage.clock.advance(0);
    const asked = stage.run.control.ask(question);
    await stage.clock.advance(0);
    expect(kinds(stage)).toEqual(["open", "append", "close", "ask"]);
    stage.driver.answer(answerOf(stage));
    stage.driver.answer(answerOf(stage, { selected: ["b"] } as never));
    expect(await asked).toMatchObject({ selected: ["a"] });
  });

  test("is not answered by the answer to another", async () => {
    const stage = await drive();
    const asked = stage.run.control.ask(question);
    await stage.clock.advance(0);
    stage.driver.answer({ ...answerOf(stage), requestId: "other" as never });
    stage.driver.answer(answerOf(stage, { selected: ["b"] } as never));
    expect(await asked).toMatchObject({ selected: ["b"] });
  });

  test("whose answer was lost has it within a second, by the floor's own word", async () => {
    const stage = await drive();
    const asked = stage.run.control.ask(question);
    await stage.clock.advance(0);
    const before = stage.floor.stills.length;
    await stage.clock.advance(3_000);
    expect(stage.floor.stills.length - before).toBe(3);
    stage.floor.standing = { standing: "go", answers: [answerOf(stage)] };
    await stage.clock.advance(1_000);
    expect(await asked).toMatchObject({ selected: ["a"] });
    // Answered, it is as patient as before.
    const after = stage.floor.stills.length;
    await stage.clock.advance(4_999);
    expect(stage.floor.stills.length).toBe(after);
  });

  test("may stand beside others, each with its own answer", async () => {
    const stage = await drive();
    const asked = [stage.run.control.ask(question), stage.run.control.ask(question)];
    await stage.clock.advance(0);
    const ids = stage.floor.parts.flatMap((part) => (part.kind === "ask" ? [part.interaction.requestId] : []));
    expect(new Set(ids).size).toBe(2);
    for (const [n, requestId] of ids.entries()) {
      stage.driver.answer({ kind: "question", requestId, selected: [`${n}`] });
    }
    expect(await Promise.all(asked)).toMatchObject([{ selected: ["0"] }, { selected: ["1"] }]);
  });
});

describe("an agent that says more than is taken", () => {
  test("is not asked for more until the floor has taken what there is", async () => {
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

  test("can be stopped meanwhile", async () => {
    const stage = await drive();
    stage.floor.hold();
    for (let n = 0; n < 20; n++) stage.run.say("x".repeat(32_768));
    await stage.clock.advance(60_000);
    stage.driver.abandon();
    await stage.clock.advance(0);
    expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", true]);
  });
});

describe("the log of a run", () => {
  const linesOf = ({ floor }: Stage) => floor.parts.flatMap((part) => (part.kind === "log" ? [part] : []));

  test("belongs to the message that is being written, or the one to come", async () => {
    const stage = await drive();
    stage.run.do({ type: "log", stream: "stderr", text: "warming up" });
    stage.run.say("la");
    stage.run.do({ type: "log", stream: "stdout", text: "sung" });
    stage.run.end();
    await stage.clock.advance(0);
    expect(linesOf(stage)).toMatchObject([
      { messageId: "run_1-1-0", line: { stream: "stderr", text: "warming up", timestamp: stage.clock.now() } },
      { messageId: "run_1-1-0", line: { stream: "stdout", text: "sung" } },
    ]);
    expect(new Set(linesOf(stage).map(({ line }) => line.id)).size).toBe(2);
    expect(kinds(stage).filter((kind) => kind === "open")).toHaveLength(1);
  });

  test("is cut at 1 MiB, and says so", async () => {
    const stage = await drive();
    const piece = "x".repeat(65_536);
    const pieces = MAX_LOG_UNITS / piece.length;
    for (let n = 0; n < pieces; n++) stage.run.do({ type: "log", stream: "stdout", text: piece });
    await stage.clock.advance(0);
    expect(linesOf(stage)).toHaveLength(pieces);
    for (let n = 0; n < 3; n++) stage.run.do({ type: "log", stream: "stdout", text: "y" });
    stage.run.say("la");
    stage.run.end();
    await stage.clock.advance(0);
    const lines = linesOf(stage);
    expect(lines).toHaveLength(pieces + 1);
    expect(lines.at(-1)!.line.text).toMatch(/cut/);
    expect([stage.outcome(), said(stage)]).toEqual(["done", "la"]);
  });
});

test("a floor that takes no report any more ends the attempt", async () => {
  const stage = await drive();
  stage.floor.fates.push(...Array.from({ length: 5 }, () => new AppError("internal")));
  stage.run.say("la");
  await stage.clock.advance(60_000);
  expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", true]);
  expect(stage.log.lines).toEqual(["the floor takes no report of this run"]);
});

test("an agent gets the bytes of the images it asks for", async () => {
  const stage = await drive();
  const bytes = await stage.run.control.loadImage({ hash: "abc", mimeType: "image/png", bytes: 3 });
  expect(new TextDecoder().decode(bytes)).toBe("abc");
});
