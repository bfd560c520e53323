import { onTestFinished } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import type { AgentId, FloorId, MessageId, RunId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import { Worker, type WorkerOptions } from "../../../src/runs/worker.ts";
import { messageOf } from "../agents/run-stage.ts";
import { VirtualClock } from "../runner/virtual-clock.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

/** A run of ann's session, requested by a commit with a trace. */
export const RUN_REQUEST: RunRequest & { trace: string } = {
  kind: "run",
  id: "e" as RunRequestId,
  floorId: "u:ann" as FloorId,
  sessionId: "song" as SessionId,
  runId: "run" as RunId,
  agentId: "singer" as AgentId,
  priority: 20,
  dueAt: 0,
  trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
};

/** A floor that grants every claim of the run, as its second attempt, and accepts every report. */
export async function giveAway({ command }: Envelope): Promise<Reply> {
  if (command.type !== "run.claim") return { ok: true, directive: { verdict: "go", answers: [] } };
  const task = { runId: RUN_REQUEST.runId, attempt: 2, agentId: RUN_REQUEST.agentId, messageId: "m" as MessageId };
  return { ok: true, task: { ...task, approvedTools: [] } };
}

/** The agent of the run. */
export const singer = (run: Agent["run"]): Agent => ({
  id: "singer" as AgentId,
  yields: "hold",
  restartable: true,
  run,
});

/** A worker with one run. The test controls its clock and the answers of its floor. */
export async function startLoneWorker(
  over: Pick<WorkerOptions, "send"> & Partial<WorkerOptions> & { agent: Agent },
): Promise<VirtualClock> {
  const { agent, ...rest } = over;
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
    agents: { find: () => agent, canRun: () => true },
    clock,
    newId: () => "id",
    sendTimeoutMs: 1_000,
    limits: { total: 1, perOwner: 1, waiting: 1, waitingPerOwner: 1 },
    maxHeld: 1,
    holdTimeoutMs: 1_000,
    log: new KeptLog(),
    metrics: { runEnded() {}, runsUnderWay() {} },
    ...rest,
  });
  await worker.start();
  onTestFinished(async () => {
    const stopped = worker.stop({ graceMs: 0, giveBackMs: 0 });
    await clock.advance(0);
    await stopped;
  });
  await queue.add(RUN_REQUEST);
  return clock;
}
