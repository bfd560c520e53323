/** An attempt of a run: what it is to do, its driver, and its span. */

import type { Summary, Turn } from "../agents/agent.ts";
import type { Bus } from "../bus/bus.ts";
import { AppError } from "../protocol/errors.ts";
import { dataFrame, envelopeJson } from "../protocol/frames.ts";
import type { MessageId, SessionId } from "../protocol/ids.ts";
import { encodeFloorMessage, floorTopic } from "../protocol/internal/floor-message.ts";
import type { RunFailure } from "../protocol/internal/node-report.ts";
import type { RunOutcome, RunTask, TurnTask } from "../protocol/internal/run.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import { inTurnOrder } from "../protocol/turn-order.ts";
import { flow } from "../shared/flow.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { type Logger, withFields } from "../shared/ports/logger.ts";
import { type Tracer, traceIdOf } from "../shared/ports/tracer.ts";
import type { BlobStore, MessageStore, StoreEpoch } from "../store/store.ts";
import { RunDriver, type RunDriverOptions, type RunWork } from "./run-driver.ts";
import { readSummaryWork } from "./summary-reader.ts";

/** Messages of the conversation passed to an agent. */
const HISTORY_MESSAGES = 200;

/**
 * Read what the agent is to do from the store.
 * @param home the name of this worker's disk, if workers have separate disks
 * @returns undefined if there is nothing to do
 */
export async function readWork(
  store: MessageStore,
  sessionId: SessionId,
  task: RunTask,
  home: string | undefined,
): Promise<RunWork | undefined> {
  if (task.purpose) return await readSummaryWork(store, sessionId, task);
  const turn = await readTurn(store, sessionId, task, home);
  return turn && { request: turn };
}

/**
 * Read the turn of a run: the message to answer and the conversation before it, with replies that the store lists after
 * it because they were written while it waited, or by earlier attempts of this run.
 *
 * @param home the name of this worker's disk. A provider's session on another disk is left out, and the agent begins
 *   another
 * @returns undefined if the message to answer is gone
 */
async function readTurn(
  store: MessageStore,
  sessionId: SessionId,
  task: TurnTask,
  home: string | undefined,
): Promise<Turn | undefined> {
  const { runId, attempt, messageId, workspaceId, approvedTools, providerHome, heardUpTo, summaryId, mode } = task;
  const input = await store.findMessage(sessionId, messageId);
  const page = input && (await store.listMessages(sessionId, { before: messageId, limit: HISTORY_MESSAGES }));
  const newest = input && (await store.listMessages(sessionId, { limit: HISTORY_MESSAGES }));
  if (!input || !page || !newest) return undefined;
  // Pages are limited in bytes: after a long conversation the oldest messages are left out.
  const later = newest.messages.slice(newest.messages.findIndex(({ id }) => id === messageId) + 1);
  const said = later.filter(({ role }) => role !== "user");
  const summary = await readSummary(store, sessionId, summaryId);
  const history = inTurnOrder([...page.messages, ...said]);
  flow.onHop?.("turn", `${input.id}, after ${history.length} messages`);
  const isReachable = providerHome === undefined || providerHome === home;
  const providerSessionId = isReachable ? task.providerSessionId : undefined;
  return {
    runId,
    attempt,
    sessionId,
    workspaceId,
    input,
    history,
    mode,
    summary,
    providerSessionId,
    heardUpTo,
    approvedTools,
  };
}

async function readSummary(
  store: MessageStore,
  sessionId: SessionId,
  summaryId: MessageId | undefined,
): Promise<Summary | undefined> {
  const message = summaryId && (await store.findMessage(sessionId, summaryId));
  return message?.summary && { text: message.content, upTo: message.summary.upTo };
}

/** How a run ends that no agent begins, and why, for operators. */
export interface RunRefusal {
  outcome: RunOutcome;
  failure?: Omit<RunFailure, "at" | "agentId">;
}

/** @param hasAgent whether the catalogue has its agent; then there is nothing to do, such as a deleted message */
export function runRefusalOf({ purpose, agentId }: RunTask, hasAgent: boolean): RunRefusal {
  if (purpose && hasAgent) return { outcome: { kind: "unneeded" } };
  const refuse = (errorCode: "agent_not_found" | "internal", message: string, reason: string): RunRefusal => {
    return { outcome: { kind: "failed", code: errorCode, message }, failure: { errorCode, reason } };
  };
  if (hasAgent) return refuse("internal", "The message of this run is gone.", "the message to answer is gone");
  const message = "The catalogue has no such agent, or it writes no summaries.";
  if (purpose) return refuse("agent_not_found", message, message);
  return refuse("agent_not_found", `Invalid agent ID: ${agentId}`, "the catalogue has no such agent");
}

/** What a worker gives the drivers of all its runs. */
interface DriverWiring {
  bus: Bus;
  store: StoreEpoch & Pick<BlobStore, "getBlob">;
  clock: Clock;
  newId: () => string;
  /** The name of this worker's disk, if workers have separate disks. */
  home?: string | undefined;
  log: Logger;
}

/** The driver of an attempt: it reads images from the store, and streams deltas to the readers of the run's floor. */
export function makeDriver(
  runRequest: RunRequest,
  { bus, store, clock, newId, home, log }: DriverWiring,
  attempt: Pick<RunDriverOptions, "agent" | "work" | "send" | "onHold" | "onWait">,
): RunDriver {
  const { sessionId, floorId } = runRequest;
  const topic = floorTopic(store.epoch, floorId);
  return new RunDriver({
    ...attempt,
    sessionId,
    clock,
    newId,
    home,
    log: withFields(log, { ...runFields(runRequest), attempt: attempt.work.request.attempt }),
    loadImage: async ({ hash }) => {
      const blob = await store.getBlob(sessionId, hash);
      if (!blob) throw new AppError("not_found", "The image was deleted.");
      return blob.bytes;
    },
    stream: (delta) => {
      // Later readers get the text from the store.
      if (!bus.hasSubscribers(topic)) return;
      flow.onHop?.("delta", `${delta.text.length} characters at ${delta.offset}`);
      const json = JSON.stringify(delta);
      const frame = dataFrame(envelopeJson({ type: "delta", json, at: clock.now(), sessionId }));
      void bus.publish(topic, encodeFloorMessage({ kind: "delta", floorId, sessionId, frame }, bus.isLocal));
    },
  });
}

/**
 * Drive an attempt inside a span of its run's trace, as whose children its commands are traced. Without a tracer or a
 * trace, only drive it.
 * @param drive resolves to the outcome as this worker saw it
 */
export async function traceRun(
  tracer: Tracer | undefined,
  runRequest: RunRequest,
  task: RunTask,
  drive: (runRequest: RunRequest) => Promise<RunOutcome["kind"]>,
): Promise<void> {
  const { trace, floorId, sessionId, runId } = runRequest;
  if (!tracer || trace === undefined) return void (await drive(runRequest));
  const span = tracer.begin("run", task.purpose ?? "run", trace, {
    "interlock.floor.id": floorId,
    "interlock.session.id": sessionId,
    "interlock.run.id": runId,
    "interlock.agent": task.agentId,
    "interlock.attempt": task.attempt,
  });
  let outcome: RunOutcome["kind"] = "lost";
  try {
    outcome = await drive({ ...runRequest, trace: span.trace });
  } finally {
    span.end({ "interlock.outcome": outcome }, outcome === "failed" || outcome === "lost" ? outcome : undefined);
  }
}

/** The fields of a run in a log line. */
export const runFields = ({ floorId, sessionId, runId, trace }: RunRequest): object => {
  return { floorId, sessionId, runId, ...(trace !== undefined && { traceId: traceIdOf(trace) }) };
};
