// Rules C7, C11 and C16 of docs/inside/correctness.md.
/** A session's run, from the turn that starts it to the `complete` event that ends it. */

import type { AgentEntry } from "../../config/catalog/catalog.ts";
import type { LoggedData } from "../../protocol/event.ts";
import type { AgentId, MessageId, RequestId, RunId } from "../../protocol/ids.ts";
import { type MessageStatus, masterRef, type Usage } from "../../protocol/message.ts";
import { runRequestId } from "../facts.ts";
import { cutCalls } from "./calls.ts";
import { closeExpired, resolveInteractions } from "./interactions.ts";
import {
  type AttemptEnd,
  addTokens,
  isAudible,
  MAX_LOSSES,
  NO_USAGE,
  NUDGE_MS,
  payerOf,
  type QueuedTurn,
  type Run,
  type SessionWork,
} from "./session-context.ts";
import { dropRunRequest, editRun, logEvent, type SessionStep } from "./session-step.ts";

const agentOfRun = (step: SessionStep, run: Run): AgentEntry | undefined => step.given.catalog.agents.get(run.agentId);

/** Start the run of a turn, and request a worker for it. */
export function startRun(step: SessionStep, turn: QueuedTurn): void {
  const { context } = step;
  const { agentId, locale } = context.numbers;
  if (!turn.hasBegun) {
    const begun = { runId: turn.runId, agentId, ownerId: payerOf(context), locale };
    step.facts.push({ type: "turn.begun", turn: begun });
  }
  context.run = {
    id: turn.runId,
    agentId,
    at: turn.at ?? step.given.now,
    ...(context.mode !== undefined && { mode: context.mode }),
    messageId: turn.messageId,
    attempt: 0,
    live: false,
    held: false,
    reported: 0,
    did: "nothing",
    losses: 0,
    drafts: [],
    interactions: [],
    answers: [],
    usage: NO_USAGE,
  };
  context.newest = { runId: turn.runId };
  context.played = undefined;
  context.pastFailure = context.failure ?? context.pastFailure;
  context.failure = undefined;
  context.lastActivityAt = step.given.now;
  // Rule C16: the former attempt must confirm its end, or time out, first.
  if (!context.stopping) requestWorker(step, context.run);
}

/** Request a worker, by a new run request (rule C7). The work is edited. */
export function requestWorker(
  step: SessionStep,
  work: SessionWork,
  kind: "run" | "nudge" | "summary" = "run",
  delayMs = 0,
): void {
  const { context, given } = step;
  const home = kind === "summary" ? undefined : context.agentHomes?.[work.agentId];
  const id = runRequestId(given, kind, context.id);
  const key = kind === "nudge" ? "nudgeId" : "effectId";
  dropRunRequest(step, work[key]);
  work[key] = id;
  step.facts.push({
    type: "run_request.add",
    request: {
      kind: "run",
      ...(kind === "summary" && { purpose: kind }),
      id,
      floorId: context.floorId,
      sessionId: context.id,
      runId: work.id,
      agentId: work.agentId,
      ...(context.ownerId !== undefined && { ownerId: context.ownerId }),
      priority: context.numbers.priority,
      dueAt: given.time + delayMs,
      ...(home !== undefined && { home }),
    },
  });
}

/** Withdraw the requests for a worker, because the run needs none now. */
export function withdrawRequests(step: SessionStep, run: Run): void {
  dropRunRequest(step, run.effectId);
  dropRunRequest(step, run.nudgeId);
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
  if (run.live) endUnfinished(step, run, "paused", "resume");
  else withdrawRequests(step, run);
}

/** The session has the floor again: a held run goes on, another starts again. */
export function resumeRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (run.live && run.held) {
    run.held = false;
    step.facts.push({ type: "signal", runId: run.id, signal: { signal: "go", attempt: run.attempt } });
    requestWorker(step, run, "nudge", NUDGE_MS);
  } else if (!step.context.stopping) {
    requestWorker(step, run);
  }
}

/**
 * End the current attempt. Only its reports in flight are still accepted (rule C12). A live attempt gets a stop signal,
 * and the session's next attempt waits for its end (rule C16).
 */
function endAttempt(step: SessionStep, run: Run, failure?: TurnFailure): void {
  const { id: runId, attempt, reported, drafts: messages, agentId } = run;
  closeAll(step, run, "interrupted", failure);
  if (!run.live) return;
  run.live = false;
  run.held = false;
  step.facts.push({ type: "signal", runId: run.id, signal: { signal: "stop", attempt: run.attempt } });
  step.context.stopping = { runId, attempt, since: step.given.time, reported, messages, agentId };
}

/** The stopped attempt has confirmed its end, or its time is over: the next attempt may start. */
export function releaseStopped(step: SessionStep): void {
  const { context } = step;
  context.stopping = undefined;
  if (isAudible(context) && context.run && !context.run.live) {
    const run = editRun(step);
    if (run.effectId === undefined) requestWorker(step, run);
  }
}

/** Cancel the run. Its messages are kept as interrupted. */
export function cancelRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  endAttempt(step, run);
  finishRun(step, run, true);
}

export type TurnFailure = Omit<LoggedData<"error">, "availableAgents" | "runId">;

/** Fail the run. Its messages and the user message are kept, and one message of the agent has the reason. */
export function failRun(step: SessionStep, failure: TurnFailure, expired?: RequestId): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (expired) closeExpired(step, run, expired);
  endAttempt(step, run, failure);
  if (!run.hasFailed) addFailedMessage(step, run, failure);
  noteFailure(step, run.id, failure);
  finishRun(step, run, false);
}

/** Log why a run failed or did not begin, and keep it until the next turn begins. */
export function noteFailure(step: SessionStep, runId: RunId, failure: TurnFailure): void {
  const { errorCode, message, retryAfterMs } = failure;
  const retryAt = retryAfterMs === undefined ? {} : { retryAt: step.given.now + retryAfterMs };
  step.context.failure = { errorCode, message, runId, ...retryAt, at: step.given.now };
  logEvent(step, "error", { ...failure, runId });
}

/** An empty message with the reason, for a run that failed while its agent wrote none. */
function addFailedMessage(step: SessionStep, run: Run, { errorCode, message }: TurnFailure): void {
  const { context, facts, given } = step;
  context.messageCount += 1;
  facts.push({
    type: "message.add",
    message: {
      id: `${run.id}-${run.attempt}-failed` as MessageId,
      sessionId: context.id,
      role: "assistant",
      content: "",
      status: "error",
      agent: masterRef(run.agentId),
      runId: run.id,
      errorCode,
      errorMessage: message,
      createdAt: given.now,
      finishedAt: given.now,
    },
  });
}

/** End the run with its `complete` event. */
export function finishRun(step: SessionStep, run: Run, cancelled: boolean): void {
  const { context } = step;
  closeAll(step, run, "success");
  withdrawRequests(step, run);
  complete(step, run.id, run.usage, cancelled ? { cancelled } : {});
  context.run = undefined;
  context.lastActivityAt = step.given.now;
}

/** Count tokens that a provider reported for this agent's work: in the session, and in its owner's usage. */
export function countTokens(step: SessionStep, agentId: AgentId, usage: Usage): void {
  const { context, facts } = step;
  context.tokenUsage = addTokens(context.tokenUsage, usage);
  facts.push({ type: "tokens.used", used: { ownerId: payerOf(context), agentId, usage } });
}

/** Emit the `complete` event: exactly one per run id. */
export function complete(
  step: SessionStep,
  runId: RunId,
  usage: Usage,
  end: Pick<LoggedData<"complete">, "cancelled" | "withdrawn">,
): void {
  const { id } = step.context;
  logEvent(step, "complete", { sessionId: id, runId, usage, tokenCount: usage.total_tokens, ...end });
}

/**
 * Close what the attempt left open: its messages, its questions, and its calls, so that each call of a log has a
 * result.
 * @param failure goes into the message that the session's own agent writes, if it writes one
 */
function closeAll(step: SessionStep, run: Run, status: MessageStatus, failure?: TurnFailure): void {
  closeDrafts(step, run, status, failure);
  resolveInteractions(step, run, run.interactions, "abort");
  cutCalls(step, run);
}

function closeDrafts(step: SessionStep, run: Run, status: MessageStatus, failure?: TurnFailure): void {
  const { id: sessionId } = step.context;
  const finishedAt = step.given.now;
  for (const messageId of run.drafts) {
    const isFailed = failure !== undefined && messageId === run.replyId;
    if (isFailed) run.hasFailed = true;
    const reason = isFailed ? { errorCode: failure.errorCode, errorMessage: failure.message } : {};
    const close = { status: isFailed ? ("error" as const) : status, finishedAt, ...reason };
    step.facts.push({ type: "draft.close", sessionId, messageId, close });
  }
  run.drafts = [];
  run.replyId = undefined;
}

/** What readers learn if the run cannot go on after that. */
const WHY_LOST: Record<AttemptEnd, string> = {
  lost: "The worker that drove this run is gone.",
  given_back:
    "This run was paused for longer than its worker holds it, and its agent may not do again what it has done.",
  paused: "This run ended with a pause, and its agent may not do again what it has done.",
};

/**
 * Whether another attempt may follow the present one. Everything that takes a run up again asks this first, by way of
 * `endUnfinished` (rule C11). An attempt that only wrote text may be followed if all of its text is known: the next one
 * receives it.
 */
function mayRepeat(run: Run, end: AttemptEnd): boolean {
  if (end === "lost") return run.did === "nothing" && run.losses + 1 < MAX_LOSSES;
  return run.did !== "acted";
}

/** Note that the attempt acted, unless `author` may act again. For a sub-agent, its own entry says so. */
export function noteAct(step: SessionStep, run: Run, author: string): void {
  if (step.given.catalog.agents.get(author as AgentId)?.adapter.restartable !== true) run.did = "acted";
}

/** Note a sign that the program of `author` runs, if it is a program: what a program has done is not known. */
export function noteProgram(step: SessionStep, run: Run, author: string): void {
  const kind = step.given.catalog.agents.get(author as AgentId)?.adapter.kind;
  if (kind === "command" || kind === "acp") noteAct(step, run, author);
}

/** Note that the attempt wrote text. */
export function noteText(step: SessionStep, run: Run): void {
  if (run.did === "nothing" && agentOfRun(step, run)?.adapter.restartable !== true) run.did = "spoke";
}

/**
 * An attempt ended and its run did not. The next attempt begins with a worker that is requested now, with the present
 * claim, or with the resume. If there may be none, the run fails with `run_lost`. The messages are kept.
 * @returns whether another attempt may follow
 */
export function endUnfinished(
  step: SessionStep,
  run: Run,
  end: AttemptEnd,
  next: "request" | "claim" | "resume",
): boolean {
  const isRepeated = mayRepeat(run, end);
  if (end === "paused") {
    endAttempt(step, run);
  } else {
    closeAll(step, run, "interrupted");
    run.live = false;
    run.held = false;
  }
  run.again = { after: end };
  if (end === "lost") run.losses += 1;
  if (next !== "claim") withdrawRequests(step, run);
  if (!isRepeated) {
    const { given } = step;
    step.toSelf.push({ type: "fail", code: "run_lost", message: WHY_LOST[end], reason: "run_lost", given });
  } else if (next === "request") {
    requestWorker(step, run);
  }
  return isRepeated;
}
