import type { RunEffect } from "../protocol/internal/effect.ts";
import type { RunOutcome, RunTask } from "../protocol/internal/run.ts";
import { type Tracer, traceIdOf } from "../shared/ports/tracer.ts";

/**
 * Drive an attempt inside a span of its run's trace, as whose children its commands are traced. Without a tracer or a
 * trace, only drive it.
 * @param drive resolves to the outcome as this worker saw it
 */
export async function traceRun(
  tracer: Tracer | undefined,
  effect: RunEffect,
  task: RunTask,
  drive: (effect: RunEffect) => Promise<RunOutcome["kind"]>,
): Promise<void> {
  const { trace, floorId, sessionId, runId } = effect;
  if (!tracer || trace === undefined) return void (await drive(effect));
  const span = tracer.begin("run", task.purpose ?? "run", trace, {
    "interlock.floor.id": floorId,
    "interlock.session.id": sessionId,
    "interlock.run.id": runId,
    "interlock.agent": task.agentId,
    "interlock.attempt": task.attempt,
  });
  let outcome: RunOutcome["kind"] = "lost";
  try {
    outcome = await drive({ ...effect, trace: span.trace });
  } finally {
    span.end({ "interlock.outcome": outcome }, outcome === "failed" || outcome === "lost" ? outcome : undefined);
  }
}

/** The fields of a run in a log line. */
export const runFields = ({ floorId, sessionId, runId, trace }: RunEffect): object => {
  return { floorId, sessionId, runId, ...(trace !== undefined && { traceId: traceIdOf(trace) }) };
};
