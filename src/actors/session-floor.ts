import type { TurnInput } from "../protocol/command.ts";
import type { PausedBy } from "../protocol/session.ts";
import { resumeRun, suspendRun } from "./session-run.ts";
import { answer, dropEffect, type SessionStep, type SessionVerb, startTimer } from "./session-step.ts";
import { dropTurns, endWork, keepTurn, settle, stopIdling } from "./session-turns.ts";

/** A session and the floor: how it asks, wins, loses, waits and leaves. */

/** `as`: the verb it gets the floor by, if it does. */
export function requestFloor(
  step: SessionStep,
  request: { as: "activate" | "resume"; mayQueue: boolean; turn?: TurnInput },
): void {
  step.words.push({ type: "request", sessionId: step.context.id, ...request, given: step.given });
}

export function winFloor(
  step: SessionStep,
  { claim, bringsTurn }: Extract<SessionVerb, { type: "activate" | "resume" }>,
): void {
  const { context, given } = step;
  context.claim = claim;
  context.queuedAt = undefined;
  context.pausedBy = undefined;
  context.lastActivityAt = given.now;
  dropEffect(step, context.pauseTimerId);
  context.pauseTimerId = undefined;
  if (context.run) resumeRun(step);
  else if (!bringsTurn) settle(step);
}

export function loseFloor(step: SessionStep, pausedBy: PausedBy): void {
  const { context, given } = step;
  context.pausedBy = pausedBy;
  suspendRun(step);
  stopIdling(step);
  const maxPauseMs = given.catalog.agents.get(context.claim.agentId)?.maxPauseMs;
  if (maxPauseMs !== undefined) context.pauseTimerId = startTimer(step, "pause", maxPauseMs);
  if (pausedBy !== "preemption") leave(step);
}

/** The user pauses what is paused already: from now on only the user, or a new turn, resumes it. */
export function pauseAgain(step: SessionStep): void {
  if (step.context.pausedBy === "preemption") leave(step);
  step.context.pausedBy = "user";
  answer(step, {}, true);
}

export function queueUp(step: SessionStep, { claim, decision, turn }: Extract<SessionVerb, { type: "queue" }>): void {
  step.context.claim = claim;
  step.context.queuedAt = step.given.now;
  if (turn) keepTurn(step, turn, decision);
  else answer(step, { decision }, true);
}

/** The wait ran out: the session stays created, and what waited with it ends. */
export function leaveQueue(step: SessionStep): void {
  step.context.queuedAt = undefined;
  dropTurns(step, "error");
}

/** Its run was held and ended all the same: `after_turn` applies although the session is paused. */
export function settlePaused(step: SessionStep): void {
  const { context, given } = step;
  const afterTurn = given.catalog.agents.get(context.claim.agentId)?.afterTurn ?? "keep";
  if (context.turns.length > 0 || afterTurn === "keep") return;
  if (afterTurn === "archive") {
    step.verbs.push({ type: "archive", reason: "after_turn", given });
  } else if (context.pausedBy === "preemption") {
    context.pausedBy = "yield";
    leave(step);
  }
}

export function endLife(step: SessionStep): void {
  endWork(step);
  step.context.archivedAt ??= step.given.now;
  step.context.queuedAt = undefined;
  step.context.pausedBy = undefined;
  leave(step);
}

/**
 * The arbiter hears of it when the session's own transition is over, and not before: it may wake another at once, and
 * no two are ever active (invariant 1).
 */
function leave(step: SessionStep): void {
  step.verbs.push({ type: "leave", given: step.given });
}

export function tellArbiter(step: SessionStep): void {
  step.words.push({ type: "left", sessionId: step.context.id, given: step.given });
}
