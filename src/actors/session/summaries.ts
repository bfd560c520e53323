import { ERRORS } from "../../protocol/errors.ts";
import type { SummaryFailure } from "../../protocol/event.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { SummaryResult } from "../../protocol/internal/run.ts";
import { type Message, masterRef } from "../../protocol/message.ts";
import { backoffMs } from "../../shared/waiting.ts";
import { effectId } from "../facts.ts";
import { addTokens, type SessionContext, type SummaryWork } from "./session-context.ts";
import {
  agentOf,
  answer,
  answerWithSession,
  dropEffect,
  logEvent,
  refuseCommand,
  type SessionStep,
} from "./session-step.ts";

/**
 * Summaries of a session, which models receive in place of its oldest messages (ADR 20). A worker writes them beside the
 * turns: a summary takes no floor, and no turn waits for one.
 */

/** Text that no summary covers yet and that asks for one, in UTF-16 units: any text of this length fits a request. */
const SUMMARY_AT_UNITS = 65_536;
/** A message's weight beside its text, in UTF-16 units: requests have a limit of messages too. */
const MESSAGE_UNITS = 512;
/** Attempts at one summary, lost ones included. Then the next one waits until as much was said again. */
const MAX_ATTEMPTS = 3;
/** The pauses between attempts. A provider may ask for a longer one, up to `maxMs`. */
const RETRIES = { firstMs: 30_000, maxMs: 3_600_000 };

function settingsOf(step: SessionStep) {
  const adapter = agentOf(step)?.adapter;
  return adapter?.kind === "ai-sdk" ? adapter.summary : undefined;
}

/** Whether the session's `summary` comes from its newest summary, and not from the beginning of its newest reply. */
export function isNamedBySummary(step: SessionStep): boolean {
  return step.context.summaryId !== undefined && settingsOf(step) !== undefined;
}

/** Count text that no summary covers. `isMessage`: a message begins with it. */
export function countText(step: SessionStep, text: string, isMessage: boolean): void {
  if (!settingsOf(step)) return;
  const { turns, units } = step.context.uncovered ?? { turns: 0, units: 0 };
  step.context.uncovered = { turns, units: units + text.length + (isMessage ? MESSAGE_UNITS : 0) };
}

/** A turn has ended as it should: request a summary when enough was said. */
export function countTurn(step: SessionStep): void {
  const settings = settingsOf(step);
  if (!settings) return;
  const { context } = step;
  const { turns: before, units } = context.uncovered ?? { turns: 0, units: 0 };
  const turns = before + 1;
  context.uncovered = { turns, units };
  if (!context.summarizing && (turns >= settings.after || units >= SUMMARY_AT_UNITS)) requestSummary(step);
}

/** `session.summarize`. */
export function summarize(step: SessionStep): void {
  const { context } = step;
  if (!settingsOf(step)) {
    return refuseCommand(step, "illegal_command", {
      message: "This agent writes no summaries: its entry has no summary.",
    });
  }
  if (!context.summarizing) requestSummary(step);
  answerWithSession(step);
}

/** Request a worker for a summary, or for the next attempt at it. */
function requestSummary(step: SessionStep, delayMs = 0): void {
  const { context, given } = step;
  const {
    id = given.stamp as RunId,
    attempt = 0,
    agentId = context.claim.agentId,
    effectId: former,
  } = context.summarizing ?? {};
  dropEffect(step, former);
  const next: SummaryWork = { id, agentId, attempt, live: false, effectId: effectId(given, "summary", context.id) };
  context.summarizing = next;
  step.facts.push({
    type: "effect.add",
    effect: {
      kind: "run",
      purpose: "summary",
      id: next.effectId,
      floorId: context.floorId,
      sessionId: context.id,
      runId: id,
      agentId,
      ...(context.ownerId !== undefined && { ownerId: context.ownerId }),
      priority: context.claim.priority,
      dueAt: given.time + delayMs,
    },
  });
}

/** The session's life ends, or the work on a summary does. A worker that still writes it is told to stop. */
export function dropSummary(step: SessionStep): void {
  const { summarizing } = step.context;
  if (!summarizing) return;
  const { id, attempt, live } = summarizing;
  dropEffect(step, summarizing.effectId);
  step.context.summarizing = undefined;
  if (live) step.facts.push({ type: "signal", runId: id, signal: { signal: "stop", attempt } });
}

/** Whether the id names the session's work on a summary, and not a run. */
export const isSummary = ({ summarizing }: SessionContext, runId: RunId): boolean => summarizing?.id === runId;

/** The workers of all attempts were lost. */
const LOST: SummaryFailure = { errorCode: "run_lost", message: ERRORS.run_lost.text };

/** `run.claim` of a summary. A worker that lost its attempt is fenced by the next one's number. */
export function claimSummary(step: SessionStep, claim: CommandOf<"run.claim">): void {
  const work = step.context.summarizing!;
  if (work.live && work.claimId === claim.claimId) return giveSummaryTask(step, work);
  if (work.live && !claim.hasNoDriver) return answer(step, { isClaimed: true });
  if (work.attempt >= MAX_ATTEMPTS) {
    giveUp(step, LOST);
    return answer(step, {});
  }
  const next = { ...work, attempt: work.attempt + 1, claimId: claim.claimId, live: true };
  step.context.summarizing = next;
  // What is said from now on counts towards the next summary.
  step.context.uncovered = undefined;
  giveSummaryTask(step, next);
}

function giveSummaryTask(step: SessionStep, { id, attempt, agentId }: SummaryWork): void {
  const { summaryId, run } = step.context;
  answer(step, {
    summaryTask: {
      runId: id,
      attempt,
      agentId,
      ...(summaryId !== undefined && { previousId: summaryId }),
      ...(run && { before: run.messageId }),
    },
  });
}

/** Whether the command is from the attempt that writes the session's summary. */
export function isWriting({ summarizing }: SessionContext, still: { runId: RunId; attempt: number }): boolean {
  return summarizing?.live === true && summarizing.id === still.runId && summarizing.attempt === still.attempt;
}

/** `run.summary`: applied once, and of the live attempt only. */
export function takeSummary(step: SessionStep, command: CommandOf<"run.summary">): void {
  answer(step, { standing: { standing: "stop", answers: [] } });
  const { context } = step;
  if (!isWriting(context, command)) return;
  const work = { ...context.summarizing!, live: false };
  context.summarizing = work;
  const { result } = command;
  if ("usage" in result && result.usage) context.tokenUsage = addTokens(context.tokenUsage, result.usage);
  if (result.kind === "written") {
    keepSummary(step, work, result);
    dropSummary(step);
    if (result.hasMore) requestSummary(step);
  } else if (result.kind === "unneeded") {
    giveUp(step, { message: "There are no messages since the last summary." });
  } else if (result.kind === "lost") {
    if (work.attempt < MAX_ATTEMPTS) return requestSummary(step);
    giveUp(step, LOST);
  } else {
    repeatOrGiveUp(step, work, result);
  }
}

/** Request the summary again after a failure that may pass, later with each attempt. */
function repeatOrGiveUp(
  step: SessionStep,
  { attempt }: SummaryWork,
  { code = "internal", message = ERRORS[code].text, ...failure }: Extract<SummaryResult, { kind: "failed" }>,
): void {
  if (!failure.mayRepeat || attempt >= MAX_ATTEMPTS) return giveUp(step, { errorCode: code, message });
  const askedMs = Math.min(failure.retryAfterMs ?? 0, RETRIES.maxMs);
  const delayMs = Math.max(askedMs, backoffMs(attempt, RETRIES));
  requestSummary(step, delayMs);
  tellFailure(step, { errorCode: code, message, retryAt: step.given.now + delayMs });
}

/** End the work on a summary without one. */
function giveUp(step: SessionStep, failure: SummaryFailure): void {
  dropSummary(step);
  tellFailure(step, failure);
}

/** Log why an attempt wrote no summary, for clients that requested one. */
function tellFailure(step: SessionStep, summaryFailure: SummaryFailure): void {
  logEvent(step, "session_updated", { summaryFailure });
}

function keepSummary(
  step: SessionStep,
  { id, agentId }: SummaryWork,
  { text, headline, upTo, usage }: Extract<SummaryResult, { kind: "written" }>,
): void {
  const { context, facts, given } = step;
  const message: Message = {
    id: id as string as Message["id"],
    sessionId: context.id,
    role: "system",
    content: text,
    status: "success",
    agent: masterRef(agentId),
    summary: { upTo },
    ...(usage && { usage }),
    createdAt: given.now,
    finishedAt: given.now,
  };
  context.messageCount += 1;
  context.summaryId = message.id;
  context.summary = headline;
  facts.push({ type: "message.add", message });
  const data = { summary: headline, summaryId: message.id, tokenUsage: context.tokenUsage };
  logEvent(step, "session_updated", data);
}
