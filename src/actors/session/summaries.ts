/**
 * Summaries of a session, which models receive in place of its oldest messages (ADR 20). Workers claim, write and
 * report them as they do turns. A summary needs no floor, and no turn waits for one.
 */

import { summaryKeysOf } from "../../config/catalog/catalog.ts";
import { ERRORS, type ErrorCode } from "../../protocol/errors.ts";
import type { SummaryFailure } from "../../protocol/event.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { RunOutcome } from "../../protocol/internal/run.ts";
import { addUsage, headlineOf, type Message, masterRef, type Usage } from "../../protocol/message.ts";
import { backoffMs } from "../../shared/waiting.ts";
import { countTokens, requestWorker } from "./runs.ts";
import type { SessionWork } from "./session-context.ts";
import {
  agentOf,
  answerWithSession,
  dropRunRequest,
  logEvent,
  refuseCommand,
  type SessionStep,
} from "./session-step.ts";

type OutcomeOf<K extends RunOutcome["kind"]> = Extract<RunOutcome, { kind: K }>;

/** Text that no summary covers yet and that asks for one, in UTF-16 units: any text of this length fits a request. */
const SUMMARY_AT_UNITS = 65_536;
/** A message's weight beside its text, in UTF-16 units: requests have a limit of messages too. */
const MESSAGE_UNITS = 512;
/** Attempts at one summary, lost ones included. Then the next one waits until as much was said again. */
const MAX_ATTEMPTS = 3;
/** Failures that another attempt would meet too. */
const PERMANENT: ReadonlySet<ErrorCode> = new Set(["provider_refused", "agent_not_found"]);
/** The workers of all attempts were lost. */
const LOST: SummaryFailure = { errorCode: "run_lost", message: ERRORS.run_lost.text };
/** The pauses between attempts. A provider may ask for a longer one, up to `maxMs`. */
const RETRIES = { firstMs: 30_000, maxMs: 3_600_000 };

function settingsOf(step: SessionStep) {
  const agent = agentOf(step);
  return agent && summaryKeysOf(agent);
}

/** Whether the session's `summary` is from its newest summary, and not the beginning of its newest reply. */
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
function requestSummary(step: SessionStep, delayMs = 0, again?: SessionWork["again"]): void {
  const { context, given } = step;
  const first = { id: given.stamp as RunId, agentId: context.numbers.agentId, at: given.now, attempt: 0 };
  context.summarizing = { ...(context.summarizing ?? first), again, live: false };
  requestWorker(step, context.summarizing, "summary", delayMs);
}

/** The session ends, or the work on a summary does. A worker that still writes it gets a stop signal. */
export function dropSummaryWork(step: SessionStep): void {
  const { summarizing } = step.context;
  if (!summarizing) return;
  const { id, attempt, live } = summarizing;
  dropRunRequest(step, summarizing.effectId);
  step.context.summarizing = undefined;
  if (live) step.facts.push({ type: "signal", runId: id, signal: { signal: "stop", attempt } });
}

/** @returns the work, ready for its next attempt; undefined if there were as many as there may be */
export function beginSummary(step: SessionStep): SessionWork | undefined {
  const work = { ...step.context.summarizing! };
  if (work.attempt >= MAX_ATTEMPTS) return giveUp(step, LOST);
  step.context.summarizing = work;
  // What is said from now on counts towards the next summary.
  step.context.uncovered = undefined;
  return work;
}

/** The report of a live attempt: its tokens, and how it ended. */
export function applySummary(step: SessionStep, { parts, outcome }: CommandOf<"run.report">): void {
  const { context } = step;
  const counts = parts.flatMap((part) => (part.kind === "usage" ? [part.usage] : []));
  for (const usage of counts) countTokens(step, context.summarizing!.agentId, usage);
  if (!outcome) return;
  const work = { ...context.summarizing!, live: false };
  context.summarizing = work;
  if (outcome.kind === "written") {
    keepSummary(step, work, outcome, counts.length > 0 ? counts.reduce(addUsage) : undefined);
    dropSummaryWork(step);
    if (outcome.hasMore) requestSummary(step);
  } else if (outcome.kind === "unneeded") {
    giveUp(step, { message: "There are no messages since the last summary." });
  } else if (outcome.kind === "failed") {
    repeatOrGiveUp(step, work, outcome);
  } else if (work.attempt < MAX_ATTEMPTS) {
    // Its worker shuts down.
    requestSummary(step, 0, { after: "lost" });
  } else {
    giveUp(step, LOST);
  }
}

/** Request the summary again after a failure that may pass, later with each attempt. */
function repeatOrGiveUp(
  step: SessionStep,
  { attempt }: SessionWork,
  { code: errorCode, message, retryAfterMs = 0 }: OutcomeOf<"failed">,
): void {
  if (PERMANENT.has(errorCode) || attempt >= MAX_ATTEMPTS) return giveUp(step, { errorCode, message });
  const delayMs = Math.max(Math.min(retryAfterMs, RETRIES.maxMs), backoffMs(attempt, RETRIES));
  const retryAt = step.given.now + delayMs;
  requestSummary(step, delayMs, { after: errorCode, nextAt: retryAt });
  logFailure(step, { errorCode, message, retryAt });
}

export function cancelSummary(step: SessionStep): void {
  giveUp(step, { message: "The summary was cancelled." });
}

/** End the work on a summary without one. */
function giveUp(step: SessionStep, failure: SummaryFailure): undefined {
  dropSummaryWork(step);
  logFailure(step, failure);
}

/** Log why an attempt wrote no summary, for clients that requested one. */
function logFailure(step: SessionStep, summaryFailure: SummaryFailure): void {
  logEvent(step, "session_updated", { summaryFailure });
}

function keepSummary(
  step: SessionStep,
  { id, agentId }: SessionWork,
  { text, upTo, hasMore }: OutcomeOf<"written">,
  usage: Usage | undefined,
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
  context.summary = headlineOf(text);
  facts.push({ type: "message.add", message });
  const data = { summary: context.summary, summaryId: message.id, tokenUsage: context.tokenUsage };
  logEvent(step, "session_updated", { ...data, ...(hasMore && { summaryContinues: true as const }) });
}
