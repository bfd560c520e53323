import { expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { finish, type Puppet, type PuppetRun } from "../../support/agents/puppet.ts";
import { WorkerStage } from "../../support/nodes/worker-stage.ts";

const question = { kind: "question" as const, question: "Which?", options: ["a"] };

/** A worker with `concurrency` places, and its limits for each kind of run. */
async function open(places: { total?: number; perOwner?: number; waiting?: number; waitingPerOwner?: number }) {
  const stage = await WorkerStage.open();
  const worker = await stage.startWorker({ concurrency: 2, places });
  const puppet: Puppet = stage.puppet();
  /** A turn of a new session. */
  const chat = async (floorId: string, sessionId: string, agentId = "music", ownerId?: string): Promise<void> => {
    await stage.floors.create(sessionId, agentId, { floorId, ...(ownerId && { ownerId }) });
    const turn = { messageId: `m-${sessionId}`, runId: `run-${sessionId}`, content: "go" };
    await stage.floors.ask({ type: "session.chat", sessionId, turn }, { floorId });
    await stage.clock.advance(0);
  };
  /** A run of this user in a separate zone. */
  const begin = (user: string, zone = "front", agentId = "music") =>
    chat(`u:${user}/${zone}`, `${user}-${zone}`, agentId);
  const ask = async (run: PuppetRun): Promise<void> => {
    run.control.askUser(question).catch(() => {});
    await stage.clock.advance(0);
  };
  return { stage, worker, puppet, chat, begin, ask, begun: () => puppet.runs.map(({ turn }) => turn.runId) };
}

test("a run that waits for a person occupies no place that another run could use", async () => {
  const { worker, puppet, begin, ask, begun } = await open({ total: 1, perOwner: 1 });
  await begin("ann");
  await begin("bob");
  expect(begun()).toEqual(["run-ann-front"]);
  await ask(puppet.last);
  expect(begun()).toEqual(["run-ann-front", "run-bob-front"]);
  expect(worker.counts).toEqual({ underWay: 1, held: 0, waiting: 1 });
});

test("a run that waited for a person gets a place again once it is answered, and the next run waits for one", async () => {
  const { stage, worker, puppet, begin, ask, begun } = await open({ total: 1, perOwner: 1 });
  await begin("ann");
  await ask(puppet.last);
  const floorId = "u:ann/front";
  const { entries } = await stage.floors.store.store.readFloorLog(floorId as FloorId, 0, 100);
  const { requestId } = entries.find(({ type }) => type === "user_question_request")!;
  const answer = { kind: "question" as const, requestId: requestId!, selected: ["a"] };
  const command = { type: "session.answer" as const, sessionId: "ann-front", requestId: requestId!, answer };
  await stage.floors.ask(command, { floorId });
  await stage.clock.advance(0);
  expect(worker.counts).toEqual({ underWay: 1, held: 0 });
  await begin("bob");
  expect(begun()).toEqual(["run-ann-front"]);
});

test("a run that waits for a person keeps its place if too many runs wait", async () => {
  const { puppet, begin, ask, begun } = await open({ total: 1, perOwner: 1, waiting: 1 });
  for (const user of ["ann", "bob"]) {
    await begin(user);
    await ask(puppet.last);
  }
  await begin("cid");
  expect(begun()).toEqual(["run-ann-front", "run-bob-front"]);
});

test("a run that waits for a person keeps its owner's place if too many runs of the owner wait", async () => {
  const { puppet, begin, ask, begun } = await open({ total: 2, perOwner: 1, waitingPerOwner: 1 });
  for (const zone of ["front", "back"]) {
    await begin("ann", zone);
    await ask(puppet.last);
  }
  await begin("ann", "roof");
  await begin("bob");
  expect(begun()).toEqual(["run-ann-front", "run-ann-back", "run-bob-front"]);
});

test("an owner has no more places than its share, and another owner gets one at once", async () => {
  const { begin, begun } = await open({ total: 3, perOwner: 2 });
  for (const zone of ["front", "back", "roof", "trunk"]) await begin("ann", zone);
  await begin("bob");
  expect(begun()).toEqual(["run-ann-front", "run-ann-back", "run-bob-front"]);
});

test("an owner's next run is taken as soon as one of its runs ends, the most important first", async () => {
  const { stage, puppet, begin, begun } = await open({ total: 3, perOwner: 1 });
  for (const zone of ["front", "back"]) await begin("ann", zone);
  stage.agents.set("phone", puppet);
  await begin("ann", "roof", "phone");
  expect(begun()).toEqual(["run-ann-front"]);
  await finish(stage, puppet.last);
  expect(begun()).toEqual(["run-ann-front", "run-ann-roof"]);
  await finish(stage, puppet.last);
  expect(begun()).toEqual(["run-ann-front", "run-ann-roof", "run-ann-back"]);
});

test("runs are counted for the owner of their sessions when authentication is on, across all floors", async () => {
  const { chat, begun } = await open({ total: 3, perOwner: 1 });
  for (const [id, owner] of Object.entries({ one: "ann", two: "ann", three: "bob" })) {
    await chat(`s:${id}`, id, "music", owner);
  }
  expect(begun()).toEqual(["run-one", "run-three"]);
});
