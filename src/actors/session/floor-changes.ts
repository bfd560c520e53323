/** How a session requests, gains, loses, waits for and leaves the floor. */

import { ERRORS } from "../../protocol/errors.ts";
import type { TurnInput } from "../../protocol/internal/command.ts";
import type { PausedBy } from "../../protocol/session.ts";
import type { Contender } from "../floor/contender.ts";
import { countHeard } from "./interactions.ts";
import { resumeRun, suspendRun, type TurnFailure } from "./runs.ts";
import { isAudible, keptLengths } from "./session-context.ts";
import { beginLease, endLease } from "./session-lease.ts";
import { agentOf, answerWithSession, type InternalEvent, type SessionStep } from "./session-step.ts";
import { dropSummaryWork } from "./summaries.ts";
import { beginNext, beginWaitingTurn, dropTurns, endWithTurn, endWork, queueTurn } from "./turns.ts";

/** Why a turn failed whose wait for the floor timed out. */
const NOT_HEARD = { errorCode: "rejected", message: ERRORS.rejected.text } as const;

/** Request the floor: a new session waits in the queue if it is blocked, a paused one at its rank. */
export function requestFloor(step: SessionStep, turn?: TurnInput, isScheduled = false): void {
  const { context, given } = step;
  const { id: sessionId, pausedBy } = context;
  const waits = isAudible(context) ? "never" : pausedBy ? "paused" : "queued";
  step.toArbiter.push({ type: "request", sessionId, waits, turn, ...(isScheduled && { isScheduled }), given });
}

/** The session is audible from now on, as the holder or ducked. Its wait and its pause end. */
function becomeAudible(step: SessionStep, contender: Contender, level: number | undefined): void {
  const { context, given } = step;
  context.numbers = contender;
  context.level = level;
  context.queuedAt = undefined;
  context.request = undefined;
  context.pausedBy = undefined;
  context.lastActivityAt = given.now;
  context.pausedSince = undefined;
  context.waitsSince = undefined;
  context.audibleSince ??= given.time;
  keepLengths(step);
  beginLease(step);
}

/** Remember these keys of the agent, in case it leaves the catalogue. */
export function keepLengths(step: SessionStep): void {
  const agent = agentOf(step);
  if (agent) step.context.lengths = keptLengths(agent);
}

/** The session becomes the holder. The run of one that was ducked is unchanged. */
export function winFloor(
  step: SessionStep,
  { contender, turnFollows }: Extract<InternalEvent, { type: "activate" | "resume" }>,
): void {
  const wasAudible = isAudible(step.context);
  becomeAudible(step, contender, undefined);
  if (!step.context.run) {
    if (!turnFollows) beginNext(step);
  } else if (!wasAudible) resumeRun(step);
}

/** The session continues beneath another, at a level. A running run is unchanged; a suspended run continues. */
export function goBeneath(
  step: SessionStep,
  { contender, level, turnFollows }: Extract<InternalEvent, { type: "duck" }>,
): void {
  const wasAudible = isAudible(step.context);
  becomeAudible(step, contender, level);
  step.context.idleSince = undefined;
  if (wasAudible) return;
  if (step.context.run) resumeRun(step);
  else if (!turnFollows) beginWaitingTurn(step);
}

/** The session goes silent, for at most its agent's `max_pause`. Only a preempted session goes on competing. */
export function loseFloor(step: SessionStep, pausedBy: PausedBy): void {
  const { context, given } = step;
  context.pausedBy = pausedBy;
  context.level = undefined;
  context.idleSince = undefined;
  countHeard(step);
  context.audibleSince = undefined;
  context.pausedSince = given.time;
  context.waitsSince = given.time;
  keepLengths(step);
  suspendRun(step);
  if (pausedBy !== "preemption") stopCompeting(step);
}

/** The user pauses a paused session: from now on only the user, or a new turn, resumes it. */
export function pauseAgain(step: SessionStep): void {
  if (step.context.pausedBy === "preemption") stopCompeting(step);
  step.context.pausedBy = "user";
  answerWithSession(step);
}

/**
 * The session waits for the floor, and keeps the turn that requested it. A paused one is from now on paused by
 * preemption, so it comes back by itself, and its limits count from the request.
 */
export function queueUp(
  step: SessionStep,
  { contender, decision, turn }: Extract<InternalEvent, { type: "queue" }>,
): void {
  const { context, given } = step;
  context.numbers = contender;
  if (context.pausedBy !== undefined) keepRequest(step, turn);
  else {
    context.queuedAt ??= given.now;
    context.waitsSince ??= given.time;
  }
  keepLengths(step);
  beginLease(step);
  if (turn) queueTurn(step, turn, decision);
  else answerWithSession(step, { decision });
}

/** The limits of a paused session count from the first request that waits. */
function keepRequest(step: SessionStep, turn: TurnInput | undefined): void {
  const { context, given } = step;
  if (!context.request) {
    const wasPreempted = context.pausedBy === "preemption";
    context.request = { since: given.time, wasPreempted, messageIds: [] };
    context.pausedBy = "preemption";
    context.waitsSince = given.time;
  }
  const { request, turns } = context;
  if (!turn) return;
  // Those that were withdrawn or interrupted meanwhile are forgotten, so that there are no more than turns that wait.
  const waiting = request.messageIds.filter((id) => turns.some(({ messageId }) => messageId === id));
  context.request = { ...request, messageIds: [...waiting, turn.messageId] };
}

/** A scheduled session is refused at its time: its message is kept, and its turn fails. */
export function missTime(step: SessionStep, turn: TurnInput | undefined, failure: TurnFailure = NOT_HEARD): void {
  if (turn) queueTurn(step, turn);
  dropTurns(step, failure);
  endUnheard(step);
}

/** What a series made for a time that has passed, and was not heard, is of no more use; it would stay for ever. */
function endUnheard(step: SessionStep): boolean {
  if (step.context.series === undefined) return false;
  step.toSelf.push({ type: "archive", reason: "missed", given: step.given });
  return true;
}

/** The wait timed out: its queued turns end. The session stays created, unless a series made it. */
export function leaveQueue(step: SessionStep): void {
  step.context.queuedAt = undefined;
  step.context.waitsSince = undefined;
  endLease(step);
  dropTurns(step, NOT_HEARD);
  if (!endUnheard(step)) endWithTurn(step);
}

/** The request of a paused session timed out: its turns end, and it resumes by itself only if it did before. */
export function endRequest(step: SessionStep): void {
  const { request } = step.context;
  if (!request) return;
  dropRequest(step);
  if (!request.wasPreempted) step.toSelf.push({ type: "yield", reason: "queue_timeout", given: step.given });
}

/** The request of a paused session no longer waits, nor do its turns. */
function dropRequest(step: SessionStep): void {
  const { request } = step.context;
  if (!request) return;
  step.context.request = undefined;
  dropTurns(step, NOT_HEARD, ({ messageId }) => request.messageIds.includes(messageId));
  endWithTurn(step);
}

/** A preempted session no longer resumes by itself: only a resume or a new turn brings it back. */
export function stayPaused(step: SessionStep): void {
  dropRequest(step);
  step.context.pausedBy = "yield";
  stopCompeting(step);
}

/** No turn waits for the floor: the session leaves the queue, and stays created. */
export function stopWaiting(step: SessionStep): void {
  step.context.queuedAt = undefined;
  stopCompeting(step);
}

/** The session is archived or deleted: its work and its place on the floor end. */
export function endLife(step: SessionStep): void {
  endWork(step);
  dropSummaryWork(step);
  step.context.audibleSince = undefined;
  step.context.pausedSince = undefined;
  step.context.archivedAt ??= step.given.now;
  step.context.schedule = undefined;
  step.context.nextId = undefined;
  step.context.queuedAt = undefined;
  step.context.pausedBy = undefined;
  step.context.level = undefined;
  stopCompeting(step);
}

/**
 * The session has no place on the floor any more. It tells the arbiter in a step of its own (`reportLeft`), after this
 * transition: the arbiter may resume another session at once, and no two are active at the same time (invariant 1).
 */
function stopCompeting(step: SessionStep): void {
  step.context.waitsSince = undefined;
  step.context.request = undefined;
  endLease(step);
  step.toSelf.push({ type: "leave", given: step.given });
}

/** The transition with which the session stopped competing is over, so its place may go to another one. */
export function reportLeft(step: SessionStep): void {
  step.toArbiter.push({ type: "left", sessionId: step.context.id, given: step.given });
}
