import { expect, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import { parseFrame } from "../../../src/protocol/frames.ts";
import { finish } from "../../support/agents/puppet.ts";
import { openSinging, sing, WorkerStage } from "../../support/nodes/worker-stage.ts";

const STOP_MS = 9_000;
const WHO_DRIVES_MS = 250;
const SWEEP_MS = 10_000;
const REPORT_AFTER_MS = 250;

/** A worker, and ann's session, which has no run yet. */
async function openIdle(agent = "music") {
  const stage = await WorkerStage.open();
  const worker = await stage.startWorker();
  await stage.create("ann", agent);
  return { stage, worker, puppet: stage.puppet(agent) };
}

/** Two workers with separate disks; the near worker has the conversation of ann's session. */
async function openElsewhere() {
  const stage = await WorkerStage.open();
  const near = await stage.startWorker({ home: "near", leaveToOthersMs: 60_000 });
  await stage.create("ann");
  await stage.chat("ann");
  const { last } = stage.puppet();
  last.do({ type: "provider-session", id: "p", isLocal: true });
  await finish(stage, last, "la");
  const far = await stage.startWorker({ home: "far", leaveToOthersMs: 60_000 });
  return { stage, near, far };
}

test("a run is claimed, driven and ended; its output reaches readers at once, and the store soon after", async () => {
  const stage = await WorkerStage.open();
  const messages = await stage.floors.hear();
  const worker = await stage.startWorker();
  await stage.create("ann");
  await stage.chat("ann");
  const { last } = stage.puppet();
  expect(last.turn).toMatchObject({ runId: "run-ann", attempt: 1, sessionId: "ann", history: [], approvedTools: [] });
  expect(last.turn.input).toMatchObject({ id: "m-run-ann", content: "go" });
  expect(worker.counts).toEqual({ underWay: 1, held: 0 });

  messages.length = 0;
  last.say("la ");
  await stage.clock.advance(0);
  expect(messages.map((message) => message.kind)).toEqual(["delta"]);
  const [delta] = messages.map((message) => message.kind === "delta" && parseFrame(message.frame));
  expect(delta).toMatchObject({ type: "delta", sessionId: "ann", data: { text: "la ", offset: 0, attempt: 1 } });
  expect(await stage.answersOf("ann")).toEqual([]);
  await stage.clock.advance(250);
  expect(await stage.answersOf("ann")).toEqual(["running la "]);

  await finish(stage, last, "li");
  expect(await stage.answersOf("ann")).toEqual(["success la li"]);
  expect(await stage.stateOf("ann")).toBe("active/idle");
  expect(await stage.runRequests()).toEqual([]);
  expect([worker.ended, worker.counts]).toEqual([["music done"], { underWay: 0, held: 0 }]);
  expect(worker.log.lines).toEqual([]);
});

test("a run that is no longer wanted when its turn comes is dropped without a call of its agent", async () => {
  const { stage, worker, puppet } = await openSinging({ concurrency: 1 });
  await stage.create("bob");
  await stage.chat("bob");
  expect(puppet.runs).toHaveLength(1);
  await stage.on("bob", "abort");
  await finish(stage, puppet.last);
  expect(worker.claims).toHaveLength(2);
  expect([puppet.runs.length, worker.ended]).toEqual([1, ["music done"]]);
});

test("a run that waited for others gets their messages, each answer after its question", async () => {
  const { stage, puppet } = await openIdle("stacker");
  for (const turn of ["one", "two", "three"]) await stage.chat("ann", turn);
  for (const turn of ["one", "two"]) await finish(stage, puppet.last, `about ${turn}`);
  const conversations = puppet.runs.map(({ turn }) =>
    turn.history.map(({ id, content }) => (content === "go" ? id : content)),
  );
  expect(conversations).toEqual([[], ["m-one", "about one"], ["m-one", "about one", "m-two", "about two"]]);
  expect(puppet.last.turn.input.id).toBe("m-three");
});

test("a run of an agent that no longer exists fails with the reason, after it was left to other workers for a while", async () => {
  const stage = await WorkerStage.open();
  stage.agents.delete("music");
  await stage.startWorker({ leaveToOthersMs: 60_000 });
  await stage.create("ann");
  await stage.chat("ann");
  await stage.clock.advance(55_000);
  expect(await stage.stateOf("ann")).toBe("active/running");
  expect(await stage.eventsOf("ann", "error")).toEqual([]);
  await stage.clock.advance(SWEEP_MS + 1_000);
  expect(await stage.eventsOf("ann", "error")).toMatchObject([{ errorCode: "agent_not_found", runId: "run-ann" }]);
  expect(await stage.stateOf("ann")).toBe("active/failed");
});

test("a run whose agent's program is on another worker is left to that worker", async () => {
  const stage = await WorkerStage.open();
  const lacking = await stage.startWorker({ leaveToOthersMs: 60_000 });
  lacking.lacks.add("music");
  const having = await stage.startWorker({ leaveToOthersMs: 60_000 });
  await stage.create("ann");
  await stage.chat("ann");
  expect([lacking.claims.length, having.claims.length]).toEqual([0, 1]);
});

test("a run whose conversation is on another worker's disk is handed over to that worker", async () => {
  const { stage, near, far } = await openElsewhere();
  near.isOffered = false;
  await stage.chat("ann", "second");
  expect([near.claims.length, far.claims.length]).toEqual([2, 0]);
  expect(stage.puppet().last.turn).toMatchObject({ runId: "second", providerSessionId: "p", heardUpTo: "m-run-ann" });
});

test("a run whose conversation's disk is gone for a minute is driven elsewhere, as a new conversation", async () => {
  const { stage, near, far } = await openElsewhere();
  near.isOffered = false;
  near.isCutOff = true;
  await stage.chat("ann", "second");
  await stage.clock.advance(55_000);
  expect(far.claims).toEqual([]);
  await stage.clock.advance(SWEEP_MS + 1_000);
  expect(far.claims).toHaveLength(1);
  const { turn } = stage.puppet().last;
  expect(turn).toMatchObject({ runId: "second" });
  expect(turn.providerSessionId).toBeUndefined();
  expect(turn.history.map(({ content }) => content)).toEqual(["go", "la"]);
});

test("a worker that stops in the pause between two tries ends the pause, and leaves no timer of it", async () => {
  const { stage, worker } = await openIdle();
  worker.isCutOff = true;
  await stage.chat("ann");
  await stage.clock.advance(0);
  expect(worker.claims).toHaveLength(1);
  const inPause = stage.clock.timerCount;
  await worker.worker.stop({ graceMs: 0, giveBackMs: 0 });
  await stage.clock.advance(0);
  expect([stage.clock.timerCount, worker.claims.length]).toEqual([inPause - 1, 1]);
});

test("a run whose message is missing fails with the reason", async () => {
  const { stage, puppet } = await openIdle();
  stage.floors.store.missing.add("findMessage");
  await stage.chat("ann");
  expect(await stage.eventsOf("ann", "error")).toMatchObject([{ errorCode: "internal" }]);
  expect(puppet.runs).toEqual([]);
});

test.each([
  ["the bus", "for a moment, is taken then", 0, 250],
  ["the floor", "for a moment, is taken then", 0, 250],
  ["the bus", "for seconds, is taken by a later sweep", 4_000, SWEEP_MS],
  ["the floor", "for seconds, is taken by a later sweep", 4_000, SWEEP_MS],
  ["the store", "for a moment, is taken by a later sweep", 0, SWEEP_MS],
])("a run that cannot be taken because %s is away %s", async (what, _, awayMs, untilMs) => {
  const { stage, worker, puppet } = await openIdle();
  const subscribe = stage.bus.subscribe.bind(stage.bus);
  const away = () => Promise.reject(new AppError("unavailable"));
  if (what === "the bus") stage.bus.subscribe = away;
  if (what === "the floor") worker.isCutOff = true;
  if (what === "the store") stage.floors.store.away.add("listMessages");
  await stage.chat("ann");
  expect(puppet.runs).toEqual([]);
  await stage.clock.advance(awayMs);
  const next = what === "the store" ? "driven; the next sweep offers it again" : "claimed; the worker tries again";
  expect(worker.log.lines).toEqual([`a run could not be ${next}`]);
  stage.bus.subscribe = subscribe;
  worker.isCutOff = false;
  stage.floors.store.away.clear();
  expect(puppet.runs).toEqual([]);
  await stage.clock.advance(untilMs + WHO_DRIVES_MS);
  expect(puppet.runs).toHaveLength(1);
  await finish(stage, puppet.last);
  expect(await stage.stateOf("ann")).toBe("active/idle");
});

test("a run that two workers receive is driven by one: the other learns that it is claimed, and leaves it", async () => {
  const stage = await WorkerStage.open();
  const workers = [await stage.startWorker(), await stage.startWorker()];
  await sing(stage, "ann");
  await stage.clock.advance(WHO_DRIVES_MS);
  expect(stage.puppet().runs).toHaveLength(1);
  expect(workers.map(({ claims }) => claims.map(({ hasNoDriver }) => hasNoDriver))).toEqual([[false], [false]]);
  stage.puppet().last.end();
  await stage.clock.advance(SWEEP_MS);
  expect(stage.puppet().runs).toHaveLength(1);
  expect(workers.flatMap(({ ended }) => ended)).toEqual(["music done"]);
});

test("a run goes to the second worker if no worker answers that it drives it: the claim is sent a second time", async () => {
  const { stage, worker, puppet } = await openSinging();
  worker.isCutOff = true;
  const other = await stage.startWorker();
  await stage.clock.advance(SWEEP_MS - REPORT_AFTER_MS);
  expect(other.claims).toEqual([expect.objectContaining({ hasNoDriver: false })]);
  await stage.clock.advance(WHO_DRIVES_MS);
  const [first, second, ...more] = other.claims;
  expect(second).toEqual({ ...first, hasNoDriver: true });
  expect(more).toEqual([]);
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
  expect(puppet.last.turn.history.map(({ content, status }) => [content, status])).toEqual([["la", "interrupted"]]);

  // The first worker is back, and is told that the run is over.
  worker.isCutOff = false;
  puppet.runs[0]!.say(" too late");
  puppet.last.say("again");
  await stage.clock.advance(STOP_MS);
  expect(puppet.runs.map(({ isOver }) => isOver)).toEqual([true, false]);
  await finish(stage, puppet.last);
  expect(await stage.answersOf("ann")).toEqual(["interrupted la", "success again"]);
  expect(await stage.eventsOf("ann", "complete")).toHaveLength(1);
});

test("a late message to an attempt affects that attempt only", async () => {
  const { stage, puppet } = await openSinging({ agent: "restless" });
  stage.bus.fate = (topic) => (topic.includes(".run.") ? "delay" : "deliver");
  await stage.ring("ann");
  await stage.clock.advance(STOP_MS);
  expect(puppet.last.isOver).toBe(true);
  await stage.hangUp("ann");
  expect([puppet.last.turn.attempt, stage.bus.lateCount]).toEqual([2, 1]);
  await stage.bus.deliverLate();
  await stage.clock.advance(2 * STOP_MS);
  expect(puppet.runs.map(({ isOver }) => isOver)).toEqual([true, false]);
});

test("a message to an attempt that arrives before its agent was started takes effect", async () => {
  const { stage, worker, puppet } = await openIdle();
  const gate = Promise.withResolvers<void>();
  stage.floors.store.waiting.set("listMessages", gate.promise);
  await stage.chat("ann");
  await stage.on("ann", "abort");
  gate.resolve();
  await stage.clock.advance(0);
  expect([worker.ended, puppet.last.pulls]).toEqual([["music stopped"], 0]);
});

const question = { kind: "question" as const, question: "Which?", options: ["a"] };

test.each(["deliver", "lose"] as const)(
  "a question is asked of the user, and answered, although the bus may %s its messages",
  async (fate) => {
    const { stage, puppet } = await openSinging();
    const answered = puppet.last.control.askUser(question);
    await stage.clock.advance(0);
    expect(await stage.stateOf("ann")).toBe("active/waiting");
    const { entries } = await stage.floors.store.store.readFloorLog("u:ann" as never, 0, 100);
    const { requestId } = entries.find(({ type }) => type === "user_question_request")!;
    stage.bus.fate = () => fate;
    const answer = { kind: "question" as const, requestId: requestId!, selected: ["a"] };
    await stage.floors.ask({ type: "session.answer", sessionId: "ann", requestId: requestId!, answer });
    await stage.clock.advance(fate === "lose" ? 1_000 : 0);
    expect(await answered).toMatchObject({ selected: ["a"] });
  },
);
