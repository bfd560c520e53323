import type { AgentEntry } from "../../config/catalog/catalog.ts";
import type { LoggedData } from "../../protocol/event.ts";
import type { MessageId, RequestId, RunId } from "../../protocol/ids.ts";
import type { MessageStatus, Usage } from "../../protocol/message.ts";
import { effectId } from "../facts.ts";
import { closeExpired, resolveInteractions } from "./interactions.ts";
import { MAX_LOSSES, NO_USAGE, NUDGE_MS, type Run, STOP_GRACE_MS } from "./session-context.ts";
import { dropEffect, editRun, logEvent, type SessionStep, startTimer } from "./session-step.ts";

/** A session's run, from the turn that starts it to the `complete` event that ends it. Rules C7, C11 and C16. */

const agentOfRun = (step: SessionStep, run: Run): AgentEntry | undefined => step.given.catalog.agents.get(run.agentId);

/** Start the run of a turn, and request a worker for it. */
export function startRun(step: SessionStep, turn: { messageId: MessageId; runId: RunId }): void {
  const { context } = step;
  context.run = {
    id: turn.runId,
    agentId: context.claim.agentId,
    ...(context.mode !== undefined && { mode: context.mode }),
    messageId: turn.messageId,
    attempt: 0,
    live: false,
    held: false,
    reported: 0,
    spoke: false,
    losses: 0,
    drafts: [],
    interactions: [],
    answers: [],
    usage: NO_USAGE,
  };
  context.lastActivityAt = step.given.now;
  // Rule C16: the former attempt must confirm its end, or time out, first.
  if (!context.stopping) requestWorker(step, context.run);
}

/** Request a worker, under a new effect id (rule C7). */
function requestWorker(step: SessionStep, run: Run, kind: "run" | "nudge" = "run"): void {
  const { context, given } = step;
  const home = context.agentHomes?.[run.agentId];
  const id = effectId(given, kind, context.id);
  if (kind === "run") {
    dropEffect(step, run.effectId);
    run.effectId = id;
  } else {
    dropEffect(step, run.nudgeId);
    run.nudgeId = id;
  }
  step.facts.push({
    type: "effect.add",
    effect: {
      kind: "run",
      id,
      floorId: context.floorId,
      sessionId: context.id,
      runId: run.id,
      agentId: run.agentId,
      ...(context.ownerId !== undefined && { ownerId: context.ownerId }),
      priority: context.claim.priority,
      dueAt: kind === "run" ? given.now : given.now + NUDGE_MS,
      ...(home !== undefined && { home }),
    },
  });
}

/** Withdraw the requests for a worker, because the run needs none now. */
export function withdrawRequests(step: SessionStep, run: Run): void {
  dropEffect(step, run.effectId);
  dropEffect(step, run.nudgeId);
  run.effectId = undefined;
  run.nudgeId = undefined;
}

/** The session loses the floor: its run is held, or cancelled to be started again. */
export function suspendRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (run.live && agentOfRun(step, run)?.adapter.yields === "hold") {
    run.held = true;
    step.facts.push({ type: "signal", runId: run.id, signal: { signal: "hold", attempt: run.attempt } });
    return;
  }
  endAttempt(step, run, "interrupted");
  withdrawRequests(step, run);
}

/** The session has the floor again: a held run goes on, another starts again. */
export function resumeRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (run.live && run.held) {
    run.held = false;
    step.facts.push({ type: "signal", runId: run.id, signal: { signal: "go", attempt: run.attempt } });
    requestWorker(step, run, "nudge");
  } else if (!step.context.stopping) {
    requestWorker(step, run);
  }
}

/**
 * End the current attempt. Only its reports in flight are still accepted (rule C12). A live attempt gets a stop signal, and
 * the session's next attempt waits for its end (rule C16).
 */
function endAttempt(step: SessionStep, run: Run, status: MessageStatus, errorMessage?: string): void {
  const { id: runId, attempt, reported, drafts: messages } = run;
  closeDrafts(step, run, status, errorMessage);
  resolveInteractions(step, run, "abort");
  if (!run.live) return;
  run.live = false;
  run.held = false;
  step.facts.push({ type: "signal", runId: run.id, signal: { signal: "stop", attempt: run.attempt } });
  dropEffect(step, step.context.stopping?.timerId);
  const timerId = startTimer(step, "stop", STOP_GRACE_MS);
  step.context.stopping = { runId, attempt, timerId, reported, messages };
}

/** The stopped attempt has confirmed its end, or its time is over: the next attempt may start. */
export function releaseStopped(step: SessionStep, mayRun: boolean): void {
  dropEffect(step, step.context.stopping?.timerId);
  step.context.stopping = undefined;
  if (mayRun && step.context.run && !step.context.run.live) {
    const run = editRun(step);
    if (run.effectId === undefined) requestWorker(step, run);
  }
}

/** Cancel the run. Its messages are kept as interrupted. */
export function cancelRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  endAttempt(step, run, "interrupted");
  finishRun(step, run, true);
}

/** Fail the run. Its messages and the user message are kept. */
export function failRun(
  step: SessionStep,
  failure: Omit<LoggedData<"error">, "availableAgents">,
  expired?: RequestId,
): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (expired) closeExpired(step, run, expired);
  endAttempt(step, run, "error", failure.message);
  logEvent(step, "error", { ...failure, runId: run.id });
  finishRun(step, run, false);
}

/** End the run with its `complete` event. */
export function finishRun(step: SessionStep, run: Run, cancelled: boolean): void {
  const { context } = step;
  closeDrafts(step, run, "success");
  resolveInteractions(step, run, "abort");
  withdrawRequests(step, run);
  complete(step, run.id, run.usage, cancelled);
  context.run = undefined;
  context.lastActivityAt = step.given.now;
}

/** Emit the `complete` event: exactly one per run id. */
export function complete(step: SessionStep, runId: RunId, usage: Usage, cancelled: boolean): void {
  const { id } = step.context;
  logEvent(step, "complete", {
    sessionId: id,
    runId,
    usage,
    tokenCount: usage.total_tokens,
    ...(cancelled && { cancelled: true }),
  });
}

function closeDrafts(step: SessionStep, run: Run, status: MessageStatus, errorMessage?: string): void {
  for (const messageId of run.drafts) {
    step.facts.push({
      type: "draft.close",
      sessionId: step.context.id,
      messageId,
      close: { status, finishedAt: step.given.now, errorMessage },
    });
  }
  run.drafts = [];
}

/** Whether another attempt may follow if the present one is lost (rule C11). */
export function mayRepeat(step: SessionStep, run: Run): boolean {
  if (run.losses + 1 >= MAX_LOSSES) return false;
  return !run.spoke || agentOfRun(step, run)?.adapter.restartable === true;
}

/** A live attempt was lost with its worker. Its messages are kept. */
export function loseAttempt(step: SessionStep, run: Run): void {
  dropAttempt(step, run);
  run.losses += 1;
}

/** A held attempt gave its place back. The resume requests another worker, or has already happened (rule C14). */
export function yieldAttempt(step: SessionStep, run: Run, isHeard: boolean): void {
  dropAttempt(step, run);
  withdrawRequests(step, run);
  if (isHeard) requestWorker(step, run);
}

function dropAttempt(step: SessionStep, run: Run): void {
  closeDrafts(step, run, "interrupted");
  resolveInteractions(step, run, "abort");
  run.live = false;
  run.held = false;
}

/** The attempt was lost and is not repeated: the run fails with `run_lost`. */
export function failLost(step: SessionStep, run: Run): void {
  loseAttempt(step, run);
  step.toSelf.push({
    type: "fail",
    code: "run_lost",
    message: "The worker that drove this run is gone.",
    reason: "run_lost",
    given: step.given,
  });
}

/** The attempt was lost: start another one, if rule C11 allows it and the session is heard, or fail the run. */
export function repeatOrFail(step: SessionStep, run: Run, isHeard: boolean): void {
  if (!mayRepeat(step, run)) return failLost(step, run);
  loseAttempt(step, run);
  withdrawRequests(step, run);
  if (isHeard) requestWorker(step, run);
}
