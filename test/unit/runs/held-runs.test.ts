import { expect, test } from "vitest";
import { finish } from "../../support/agents/puppet.ts";
import { openSinging, sing, WorkerStage } from "../../support/nodes/worker-stage.ts";

const HOLD_TIMEOUT_MS = 300_000;
const STOP_MS = 9_000;
const WHO_DRIVES_MS = 250;
const SWEEP_MS = 10_000;

test("a pause holds the run, and its end lets it continue: one attempt, and no text is lost", async () => {
  const { stage, worker, puppet } = await openSinging();
  const { last } = puppet;
  await stage.ring("ann");
  expect([worker.counts, await stage.stateOf("ann")]).toEqual([{ underWay: 0, held: 1 }, "paused/running"]);
  const { pulls } = last;
  last.say(" li", " lu");
  await stage.clock.advance(60_000);
  expect([last.pulls, await stage.answersOf("ann")]).toEqual([pulls, ["running la"]]);
  await stage.hangUp("ann");
  await finish(stage, last);
  expect(await stage.answersOf("ann")).toEqual(["success la li lu"]);
  // The floor's second request, in case the run is not held, is removed as well.
  await stage.clock.advance(SWEEP_MS);
  expect([puppet.runs.length, await stage.runRequests()]).toEqual([1, []]);
});

test("a pause whose bus message is lost is noticed with the floor's next message", async () => {
  const { stage, worker, puppet } = await openSinging();
  stage.bus.fate = (topic) => (topic.includes(".run.") ? "lose" : "deliver");
  await stage.ring("ann");
  expect(worker.counts.held).toBe(0);
  await stage.clock.advance(STOP_MS);
  expect(worker.counts.held).toBe(1);
  await stage.hangUp("ann");
  expect(worker.counts.held).toBe(1);
  await stage.clock.advance(1_000);
  expect(worker.counts.held).toBe(0);
  await stage.on("ann", "abort");
  expect(puppet.last.isOver).toBe(false);
  await stage.clock.advance(STOP_MS);
  expect([puppet.last.isOver, worker.ended]).toEqual([true, ["music stopped"]]);
});

test("a pause stops the run of an agent that cannot hold; the run restarts after the pause, with its earlier text", async () => {
  const { stage, worker, puppet } = await openSinging({ agent: "restless" });
  await stage.ring("ann");
  expect([worker.ended, puppet.last.isOver]).toEqual([["restless stopped"], true]);
  expect(await stage.runRequests()).toEqual([]);
  await stage.hangUp("ann");
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
  expect(puppet.last.turn.history.map(({ content }) => content)).toEqual(["la"]);
  await finish(stage, puppet.last, "li");
  expect(await stage.answersOf("ann")).toEqual(["interrupted la", "success li"]);
});

test("held runs occupy no place that another run could use", async () => {
  const { stage, worker, puppet } = await openSinging({ concurrency: 1 });
  await stage.create("bob");
  await stage.chat("bob");
  expect(puppet.runs).toHaveLength(1);
  await stage.ring("ann");
  expect([puppet.runs.length, worker.counts]).toEqual([2, { underWay: 1, held: 1 }]);
  // It continues although its place is taken.
  await stage.hangUp("ann");
  expect(worker.counts).toEqual({ underWay: 2, held: 0 });
});

test("the number of held runs is limited: the longest held one ends, and restarts when it is resumed", async () => {
  const { stage, worker, puppet } = await openSinging({ agent: "once", maxHeld: 2 });
  for (const user of ["bob", "cid"]) await sing(stage, user, "once");
  for (const user of ["ann", "bob", "cid"]) {
    await stage.ring(user);
    await stage.clock.advance(1_000);
  }
  expect(worker.counts).toEqual({ underWay: 0, held: 2 });
  expect(worker.ended).toEqual(["once lost"]);
  expect(puppet.runs.map(({ isOver }) => isOver)).toEqual([true, false, false]);
  expect(await stage.stateOf("ann")).toBe("paused/running");
  // It must not be started until it is resumed.
  expect((await stage.runRequests()).map(({ floorId }) => floorId)).not.toContain("u:ann");
  await stage.hangUp("ann");
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
  expect(await stage.eventsOf("ann", "error")).toEqual([]);
  expect(await stage.answersOf("ann")).toEqual(["interrupted la"]);
});

test("a run that is held for too long is ended, and one that continued in time is not", async () => {
  const { stage, worker } = await openSinging();
  await sing(stage, "bob");
  await stage.ring("ann");
  await stage.ring("bob");
  await stage.clock.advance(HOLD_TIMEOUT_MS - 1);
  expect(worker.counts.held).toBe(2);
  await stage.hangUp("bob");
  await stage.clock.advance(1);
  expect([worker.counts, worker.ended]).toEqual([{ underWay: 1, held: 0 }, ["music lost"]]);
  // The next hold has the full time again.
  await stage.floors.create("call-2", "phone", { floorId: "u:bob" });
  await stage.clock.advance(HOLD_TIMEOUT_MS - 1);
  expect(worker.counts.held).toBe(1);
  await stage.clock.advance(1);
  expect(worker.counts.held).toBe(0);
});

test.each([
  ["at once", 0],
  ["seconds later", STOP_MS - 1_000],
])("a held run that is resumed %s while it is being ended starts again without a failure", async (_, ms) => {
  const { stage, puppet } = await openSinging({ agent: "once" });
  await stage.ring("ann");
  puppet.last.isStubborn = true;
  await stage.clock.advance(HOLD_TIMEOUT_MS + ms);
  // It was told to end, and has not ended yet.
  await stage.hangUp("ann");
  await stage.clock.advance(STOP_MS - ms);
  expect(await stage.eventsOf("ann", "error")).toEqual([]);
  expect(puppet.runs.map(({ turn }) => turn.attempt)).toEqual([1, 2]);
  await finish(stage, puppet.last, "li");
  expect(await stage.answersOf("ann")).toEqual(["interrupted la", "success li"]);
  expect(await stage.runRequests()).toEqual([]);
});

const patience = { graceMs: 2_000, giveBackMs: 1_000 };

test("a stopping worker takes no further runs, lets its runs finish, and then has stopped", async () => {
  const { stage, worker, puppet } = await openSinging();
  let isStopped = false;
  const stopped = worker.worker.stop(patience).then(() => {
    isStopped = true;
  });
  await stage.create("bob");
  await stage.chat("bob");
  await stage.clock.advance(1_000);
  expect([puppet.runs.length, puppet.last.isOver, isStopped]).toEqual([1, false, false]);
  await finish(stage, puppet.last);
  await stopped;
  expect(worker.ended).toEqual(["music done"]);
  expect(await stage.answersOf("ann")).toEqual(["success la"]);
});

test("a stopping worker gives back runs that do not end in time, and another worker continues them", async () => {
  const { stage, worker, puppet } = await openSinging();
  const stopped = worker.worker.stop(patience);
  const other = await stage.startWorker();
  await stage.clock.advance(patience.graceMs - 1);
  expect(puppet.last.isOver).toBe(false);
  await stage.clock.advance(1);
  await stopped;
  expect(worker.ended).toEqual(["music lost"]);
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
  await finish(stage, puppet.last, "li");
  expect(other.ended).toEqual(["music done"]);
  expect(await stage.answersOf("ann")).toEqual(["interrupted la", "success li"]);
});

test("a stopping worker gives back held runs at once: each starts again when it is resumed", async () => {
  const { stage, worker, puppet } = await openSinging({ agent: "once" });
  await stage.ring("ann");
  const stopped = worker.worker.stop(patience);
  await stage.clock.advance(0);
  await stopped;
  expect(worker.ended).toEqual(["once lost"]);
  expect(await stage.stateOf("ann")).toBe("paused/running");
  await stage.startWorker();
  await stage.hangUp("ann");
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
  expect(await stage.eventsOf("ann", "error")).toEqual([]);
});

test("a stopping worker reports runs whose agent is not restartable as lost", async () => {
  const { stage, worker } = await openSinging({ agent: "once" });
  const stopped = worker.worker.stop(patience);
  await stage.clock.advance(patience.graceMs);
  await stopped;
  expect(await stage.eventsOf("ann", "error")).toMatchObject([{ errorCode: "run_lost" }]);
  expect(await stage.answersOf("ann")).toEqual(["interrupted la", "error "]);
});

test("a stopping worker does not wait for an unreachable floor: its run is driven again after a silence", async () => {
  const { stage, worker, puppet } = await openSinging();
  worker.isCutOff = true;
  puppet.last.isStubborn = true;
  let left: unknown;
  const stopped = worker.worker.stop(patience).then(() => {
    left = worker.counts;
  });
  await stage.clock.advance(patience.graceMs + STOP_MS - 1);
  // Its agent still exists.
  expect(left).toBeUndefined();
  await stage.clock.advance(1);
  await stopped;
  expect(left).toEqual({ underWay: 0, held: 0 });
  await stage.startWorker();
  await stage.clock.advance(SWEEP_MS + WHO_DRIVES_MS);
  expect(puppet.last.turn.attempt).toBe(2);
});

test("a stopping worker gives back a run that it has just claimed, without a call of its agent", async () => {
  const stage = await WorkerStage.open();
  const worker = await stage.startWorker();
  await stage.create("ann");
  const puppet = stage.puppet();
  const find = stage.agents.get.bind(stage.agents);
  let stopped: Promise<void> | undefined;
  stage.agents.get = (id) => {
    // The worker no longer waits for runs when this one begins.
    stopped ??= worker.worker.stop({ graceMs: 0, giveBackMs: 0 });
    return find(id);
  };
  await stage.chat("ann");
  expect(puppet.runs).toEqual([]);
  await stopped;
  expect(worker.ended).toEqual(["music lost"]);
  await stage.startWorker();
  await stage.clock.advance(SWEEP_MS);
  expect(puppet.last.turn).toMatchObject({ runId: "run-ann", attempt: 2 });
});

test("a stopping worker without runs stops at once", async () => {
  const stage = await WorkerStage.open();
  const worker = await stage.startWorker();
  const begun = stage.clock.now();
  // No time passes, so a worker that waits for anything never ends.
  await worker.worker.stop(patience);
  expect(stage.clock.now()).toBe(begun);
});
