import { expect, onTestFinished, test } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { MemoryQueue } from "../../../src/bus/memory-queue.ts";
import { createLog } from "../../../src/log.ts";
import type { Envelope } from "../../../src/protocol/command.ts";
import type { RunEffect } from "../../../src/protocol/effect.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { AgentId, EffectId, FloorId, MessageId, RunId, SessionId } from "../../../src/protocol/ids.ts";
import type { Reply } from "../../../src/protocol/reply.ts";
import { Worker } from "../../../src/runs/worker.ts";
import { messageOf } from "../../support/run-stage.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const EFFECT: RunEffect = {
  kind: "run",
  id: "e" as EffectId,
  floorId: "u:ann" as FloorId,
  sessionId: "song" as SessionId,
  runId: "run" as RunId,
  agentId: "singer" as AgentId,
  priority: 20,
  dueAt: 0,
  trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
};
/** Whatever is said of this run says so. */
const ABOUT = { floorId: "u:ann", sessionId: "song", runId: "run", traceId: "4bf92f3577b34da6a3ce929d0e0e4736" };

/** The first line that is logged once a worker has this run to do. */
async function firstLine(agent: Agent, ask: (envelope: Envelope) => Promise<Reply>): Promise<object> {
  const line = Promise.withResolvers<object>();
  const clock = new VirtualClock();
  const queue = new MemoryQueue(clock);
  const worker = new Worker({
    queue,
    bus: new MemoryBus(),
    store: {
      epoch: "e",
      findMessage: async () => messageOf("user", "sing"),
      listMessages: async () => ({ messages: [], hasMore: false, head: 0 }),
      getBlob: async () => undefined,
    },
    ask,
    agents: { find: () => agent },
    clock,
    newId: () => "id",
    askTimeoutMs: 1_000,
    concurrency: 1,
    maxHeld: 1,
    holdTimeoutMs: 1_000,
    log: createLog("warn", { write: (text) => line.resolve(JSON.parse(text)) }),
    metrics: { runEnded() {}, runsUnderWay() {} },
  });
  await worker.start();
  onTestFinished(() => worker.stop({ graceMs: 0, giveBackMs: 0 }));
  await queue.add(EFFECT);
  return await line.promise;
}

const singer = (fault: Error): Agent => ({
  id: "singer" as AgentId,
  yields: "hold",
  restartable: true,
  // biome-ignore lint/correctness/useYield: it fails before it says anything
  async *run() {
    throw fault;
  },
});

/** A floor that gives its run to whoever claims it, and takes every report. */
async function take({ command }: Envelope): Promise<Reply> {
  if (command.type !== "run.claim") return { ok: true, standing: { standing: "stop", answers: [] } };
  const task = { runId: EFFECT.runId, attempt: 2, agentId: EFFECT.agentId, messageId: "m" as MessageId };
  return { ok: true, task: { ...task, approvedTools: [] } };
}

test("an agent that failed is logged with its floor, its session, its run, the attempt and the trace", async () => {
  expect(await firstLine(singer(new Error("out of tune")), take)).toMatchObject({
    msg: "an agent failed",
    ...ABOUT,
    attempt: 2,
    agentId: "singer",
    err: { message: "out of tune" },
  });
});

test("a run that could not be taken is logged with the same", async () => {
  const refuse = () => Promise.reject(new AppError("unavailable"));
  expect(await firstLine(singer(new Error("never asked")), refuse)).toMatchObject({
    msg: "a run could not be taken; it is tried again",
    ...ABOUT,
  });
});
