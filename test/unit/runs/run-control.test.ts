import { expect, test } from "vitest";
import type { Answer } from "../../../src/protocol/interaction.ts";
import { type DriverStage, drive, kinds, said } from "../../support/agents/driver-stage.ts";
import { finish, Puppet } from "../../support/agents/puppet.ts";

const STOP_MS = 9_000;

const hold = { verdict: "hold" as const, answers: [] };
const go = { verdict: "go" as const, answers: [] };

/** The floor holds the attempt, or lets it go on, and its message arrives. */
async function order(stage: DriverStage, directive: typeof hold | typeof go): Promise<void> {
  stage.floor.directive = directive;
  stage.driver.obey(directive);
  await stage.clock.advance(0);
}

test("a hold stops the pulling; output of that moment is reported when the run continues", async () => {
  const stage = await drive();
  stage.run.say("la ");
  await stage.clock.advance(250);
  const { pulls } = stage.run;
  const held = order(stage, hold);
  stage.run.say("li ", "lu");
  await held;
  await stage.clock.advance(60_000);
  expect([said(stage), stage.run.pulls, stage.driver.isHeld]).toEqual(["la ", pulls, true]);
  await order(stage, go);
  expect([said(stage), stage.driver.isHeld, stage.holds]).toEqual(["la li lu", false, [true, false]]);
});

test("a hold that is requested twice is told once, and its end is reported at once, so that no other worker is requested", async () => {
  const stage = await drive();
  for (const word of [hold, hold]) stage.driver.obey(word);
  await stage.clock.advance(0);
  const { length } = stage.floor.reports;
  for (const word of [go, go, go]) stage.driver.obey(word);
  await stage.clock.advance(0);
  expect([stage.floor.reports.length, stage.holds]).toEqual([length + 1, [true, false]]);
});

test("a hold that begins with a part prevents the next pull", async () => {
  const stage = await drive(new Puppet(), (driver) => driver.obey(hold));
  stage.floor.directive = hold;
  stage.run.say("la");
  await stage.clock.advance(60_000);
  expect([stage.run.pulls, said(stage)]).toEqual([1, "la"]);
});

test.each([
  ["without", []],
  ["with", ["la"]],
])("a held attempt can be stopped, %s an unsent report", async (_, words) => {
  const stage = await drive();
  const held = order(stage, hold);
  stage.run.say(...words);
  await held;
  stage.driver.stop("it is over");
  await stage.clock.advance(0);
  expect([stage.outcome(), stage.run.isOver, said(stage)]).toEqual(["stopped", true, ""]);
});

test("the agent's end during a hold is reported after the resume", async () => {
  const stage = await drive();
  const held = order(stage, hold);
  stage.run.say("la");
  stage.run.end();
  await held;
  await stage.clock.advance(60_000);
  expect(stage.outcome()).toBeUndefined();
  await order(stage, go);
  expect([stage.outcome(), said(stage)]).toEqual(["done", "la"]);
});

const call = { toolCallId: "c1", function: { name: "send_mail", arguments: "{}" } };
/** A run whose agent has called a tool, as it waits for the floor's leave to act. */
async function calling() {
  const stage = await drive();
  stage.floor.hold();
  stage.run.do({ type: "tool-call", call });
  await stage.clock.advance(0);
  const act = { state: "waiting" };
  const become = (state: string) => () => void Object.assign(act, { state });
  stage.run.control.untilMayAct().then(become("acts"), become("gives up"));
  return { stage, act };
}

test("a tool waits until the floor has its call, so that no attempt repeats a call unnoticed", async () => {
  const { stage, act } = await calling();
  // Text that comes meanwhile is no reason to wait longer.
  for (let second = 0; second < 60; second += 1) {
    stage.run.say("la ");
    await stage.clock.advance(1_000);
  }
  expect([act.state, stage.outcome()]).toEqual(["waiting", undefined]);
  stage.floor.release();
  await stage.clock.advance(0);
  expect(kinds(stage).filter((kind) => kind === "tool_call")).toHaveLength(1);
  expect(act.state).toBe("acts");
});

test("a tool does not start if the floor has given the run to another attempt meanwhile", async () => {
  const { stage, act } = await calling();
  stage.floor.directive = { verdict: "stop", answers: [] };
  stage.floor.release();
  await stage.clock.advance(STOP_MS);
  expect([act.state, stage.outcome()]).toEqual(["gives up", "stopped"]);
});

test("a tool does not start if the session was paused when its call was reported", async () => {
  const { stage, act } = await calling();
  stage.floor.directive = hold;
  stage.floor.release();
  await stage.clock.advance(60_000);
  expect(act.state).toBe("waiting");
  await order(stage, go);
  expect(act.state).toBe("acts");
});

test("a tool whose leave to act is a second old asks again, so that a worker that was frozen meanwhile does not act", async () => {
  const { stage, act } = await calling();
  // The floor has said so, and the worker reads it only when it wakes. Then the run is another attempt's.
  stage.floor.fates.push({ ok: true, directive: go });
  stage.floor.directive = { verdict: "stop", answers: [] };
  await stage.clock.advance(1_001);
  stage.floor.release();
  await stage.clock.advance(STOP_MS);
  expect([act.state, stage.outcome()]).toEqual(["gives up", "stopped"]);
});

test("a tool that starts after a long wait asks the floor, also when nothing is left to report", async () => {
  const stage = await drive();
  stage.driver.obey(go);
  await stage.clock.advance(4_000);
  const { length } = stage.floor.reports;
  await stage.run.control.untilMayAct();
  await stage.run.control.untilMayAct();
  expect(stage.floor.reports).toHaveLength(length + 1);
});

test("a tool acts also if the floor takes longer than a second for each answer", async () => {
  const { stage, act } = await calling();
  for (let answers = 0; answers < 2; answers += 1) {
    await stage.clock.advance(2_000);
    stage.floor.release();
    stage.floor.hold();
    await stage.clock.advance(0);
  }
  expect(act.state).toBe("acts");
});

test("a stop does not wait for an agent that does not end", async () => {
  const stage = await drive();
  stage.run.isStubborn = true;
  stage.driver.stop("it is over");
  await stage.clock.advance(STOP_MS - 1);
  expect(stage.outcome()).toBeUndefined();
  await stage.clock.advance(1);
  expect([stage.outcome(), stage.run.isOver]).toEqual(["stopped", false]);
  // Its later parts are ignored.
  const { length } = stage.floor.asked;
  stage.run.say("la la la");
  await stage.clock.advance(60_000);
  expect([said(stage), stage.floor.asked.length]).toEqual(["", length]);
});

test("a stop of an agent that then fails is a stop, not a failure", async () => {
  const stage = await drive();
  stage.run.isStubborn = true;
  stage.driver.stop("it is over");
  stage.run.fail(new Error("aborted"));
  await stage.clock.advance(0);
  expect([stage.outcome(), stage.log.lines]).toEqual(["stopped", []]);
});

test("a stop before the agent's first part is a stop", async () => {
  const stage = await drive();
  stage.driver.stop("it is over");
  stage.driver.stop("it is still over");
  await stage.clock.advance(0);
  expect([stage.outcome(), stage.floor.reports.length]).toEqual(["stopped", 1]);
});

test("a stop after the end has no effect", async () => {
  const stage = await drive();
  await finish(stage, stage.run);
  stage.driver.stop("too late");
  stage.driver.giveBack(false);
  await stage.clock.advance(60_000);
  expect([stage.outcome(), stage.floor.reports.length]).toEqual(["done", 1]);
});

test.each([
  ["was held for too long", true],
  ["was not held for too long", false],
])("an attempt that is given back is lost, and reports that it %s", async (_, yielded) => {
  const stage = await drive();
  stage.run.say("la");
  await stage.clock.advance(0);
  stage.driver.giveBack(yielded);
  stage.driver.giveBack(!yielded);
  await stage.clock.advance(0);
  expect([stage.outcome(), stage.lastOutcome()]).toEqual(["lost", { kind: "lost", yielded }]);
  expect(stage.floor.parts.at(-1)).toMatchObject({ kind: "close", status: "interrupted" });
});

test("an attempt that is given back counts as done if its agent ended before", async () => {
  const stage = await drive();
  stage.floor.hold();
  await finish(stage, stage.run);
  stage.driver.giveBack(false);
  stage.floor.release();
  await stage.clock.advance(0);
  expect(stage.lastOutcome()).toEqual({ kind: "done" });
});

test("an attempt that is given back while its floor does not answer is lost once it is abandoned", async () => {
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

const question = { kind: "question" as const, question: "Which?", options: ["a", "b"] };
const answerOf = (stage: DriverStage, rest: Partial<Answer> = {}): Answer => {
  const part = stage.floor.parts.findLast(({ kind }) => kind === "ask");
  const { requestId } = (part as { interaction: { requestId: string } }).interaction;
  return { kind: "question", requestId, selected: ["a"], ...rest } as Answer;
};

test("a question is asked at once, ends the message before it, and is answered", async () => {
  const stage = await drive();
  stage.run.say("Well …");
  await stage.clock.advance(0);
  const asked = stage.run.control.askUser(question);
  await stage.clock.advance(0);
  expect(kinds(stage)).toEqual(["open", "append", "close", "ask"]);
  stage.driver.answer(answerOf(stage));
  stage.driver.answer(answerOf(stage, { selected: ["b"] } as never));
  expect(await asked).toMatchObject({ selected: ["a"] });
});

test("a question is withdrawn by its signal, and a late answer to it changes nothing", async () => {
  const stage = await drive();
  const need = new AbortController();
  const asked = stage.run.control.askUser(question, need.signal);
  await stage.clock.advance(0);
  const { requestId } = answerOf(stage);
  need.abort(new Error("not needed"));
  await expect(asked).rejects.toThrow("not needed");
  expect(stage.driver.isWaiting).toBe(false);
  await stage.clock.advance(0);
  expect(stage.floor.reports.at(-1)).toMatchObject({ parts: [], withdrawn: [requestId] });
  stage.driver.answer({ ...answerOf(stage), requestId });
  await expect(stage.run.control.askUser(question, need.signal)).rejects.toThrow("not needed");
  expect(kinds(stage).filter((kind) => kind === "ask")).toHaveLength(1);
});

test("a stop ends whatever the agent waits for, a delay or a question, and withdraws no question", async () => {
  const stage = await drive();
  const need = new AbortController();
  const waiting = [stage.run.control.sleep(60_000), stage.run.control.askUser(question, need.signal)];
  const failures = Promise.allSettled(waiting);
  await stage.clock.advance(0);
  stage.driver.stop("over");
  need.abort();
  const over = { status: "rejected", reason: { message: "over" } };
  expect(await failures).toMatchObject([over, over]);
  await stage.clock.advance(0);
  expect(stage.floor.reports.filter(({ withdrawn }) => withdrawn)).toEqual([]);
});

test("an agent that withdraws its questions again and again may ask no more", async () => {
  const stage = await drive();
  for (let n = 0; n < 256; n += 1) {
    const need = new AbortController();
    const asked = stage.run.control.askUser(question, need.signal);
    need.abort(new Error("not needed"));
    await expect(asked).rejects.toThrow("not needed");
  }
  await expect(stage.run.control.askUser(question)).rejects.toMatchObject({ code: "busy" });
});

test("several questions may be open at once, each with its own answer", async () => {
  const stage = await drive();
  const asked = [stage.run.control.askUser(question), stage.run.control.askUser(question)];
  await stage.clock.advance(0);
  const ids = stage.floor.parts.flatMap((part) => (part.kind === "ask" ? [part.interaction.requestId] : []));
  expect(new Set(ids).size).toBe(2);
  for (const [n, requestId] of ids.entries()) {
    stage.driver.answer({ kind: "question", requestId, selected: [`${n}`] });
  }
  expect(await Promise.all(asked)).toMatchObject([{ selected: ["0"] }, { selected: ["1"] }]);
});
