// Rules C10, C11, C12 and C13 of docs/inside/correctness.md.
/** The commands of workers, and the session's replies. */

import type { MessageId, RunId } from "../../protocol/ids.ts";
import type { Interaction } from "../../protocol/interaction.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { Directive } from "../../protocol/internal/run.ts";
import { applyLateReport } from "./late-reports.ts";
import { applyPart } from "./parts.ts";
import { endUnfinished, releaseStopped, withdrawRequests } from "./runs.ts";
import { isAudible, type Run, type SessionContext, type SessionWork } from "./session-context.ts";
import { answer, dropRunRequest, editRun, type SessionStep } from "./session-step.ts";
import { applySummary, beginSummary } from "./summaries.ts";

/** `run.claim`: the floor assigns the attempt (rule C10) and decides what is repeated (rule C11). */
export function claimRun(step: SessionStep, command: CommandOf<"run.claim">): void {
  const drop = () => answer(step, {});
  const { run, summarizing, stopping } = step.context;
  const isSummary = summarizing?.id === command.runId;
  const known = isSummary ? summarizing : run;
  if (known?.id !== command.runId) return drop();
  // A summary needs no floor, and waits for no attempt of a turn.
  const mayRun = isSummary || isAudible(step.context);
  if (mayRun && known.live && known.claimId === command.claimId) return giveTask(step, known);
  if (!isSummary && mayRun && stopping) return drop();
  if (known.live && !command.hasNoDriver) return answer(step, { isClaimed: true });
  const work = isSummary ? beginSummary(step) : beginAttempt(step);
  if (!work) return drop();
  work.attempt += 1;
  work.claimId = command.claimId;
  work.claimed = { worker: command.worker, at: step.given.now };
  work.live = true;
  giveTask(step, work);
}

/** @returns the run, ready for its next attempt; undefined if there may be none now */
function beginAttempt(step: SessionStep): Run | undefined {
  const run = editRun(step);
  const goesOn = !run.live || endUnfinished(step, run, "lost", "claim");
  const mayRun = isAudible(step.context);
  // A resume requests another worker.
  if (!mayRun) withdrawRequests(step, run);
  if (!mayRun || !goesOn) return undefined;
  dropRunRequest(step, run.nudgeId);
  run.nudgeId = undefined;
  run.held = false;
  run.reported = 0;
  run.did = "nothing";
  run.hasFailed = undefined;
  run.answers = [];
  return run;
}

function giveTask(step: SessionStep, work: Run | SessionWork): void {
  const { agentSessions, agentHomes, agentHeard, approvedTools, workspaceId, summaryId, run } = step.context;
  const { id: runId, attempt, agentId } = work;
  const summary = summaryId === undefined ? {} : { summaryId };
  if (!("messageId" in work)) {
    const before = run && { before: run.messageId };
    return answer(step, { task: { purpose: "summary", runId, attempt, agentId, ...summary, ...before } });
  }
  const providerSessionId = agentSessions[agentId];
  const providerHome = agentHomes?.[agentId];
  const heardUpTo = agentHeard?.[agentId] as MessageId | undefined;
  answer(step, {
    task: {
      runId,
      attempt,
      agentId,
      messageId: work.messageId,
      ...(providerSessionId !== undefined && { providerSessionId }),
      ...(providerHome !== undefined && { providerHome }),
      ...(heardUpTo !== undefined && { heardUpTo }),
      ...(workspaceId !== undefined && { workspaceId }),
      ...(work.mode !== undefined && { mode: work.mode }),
      ...summary,
      approvedTools,
    },
  });
}

/** Whether the command is from the live attempt. */
function isCurrent<W extends SessionWork>(work: W | undefined, report: { runId: RunId; attempt: number }): work is W {
  return work?.live === true && work.id === report.runId && work.attempt === report.attempt;
}

/** Whether the command is from the attempt that is being stopped. */
export function isStopping({ stopping }: SessionContext, report: { runId: RunId; attempt: number }): boolean {
  return stopping?.runId === report.runId && stopping.attempt === report.attempt;
}

function directiveFor(work: Run | SessionWork | undefined, expected?: number): Directive {
  if (!work) return { verdict: "stop", answers: [] };
  const { held = false, answers = [] }: Partial<Run> = work;
  return { verdict: held ? "hold" : "go", ...(expected !== undefined && { expected }), answers };
}

/** `run.still`: a silent worker asks whether its attempt is still wanted. It changes nothing (rule C13). */
export function answerStill(step: SessionStep, still: CommandOf<"run.still">): void {
  const { run, summarizing } = step.context;
  answer(step, { directive: directiveFor([run, summarizing].find((work) => isCurrent(work, still))) });
}

/** `run.report`: numbered, applied once and in order (rule C12), of the live attempt only. */
export function applyReport(step: SessionStep, report: CommandOf<"run.report">): void {
  const known = step.context.run;
  if (!isCurrent(known, report)) return answer(step, { directive: applyOtherReport(step, report) });
  if (report.n <= known.reported) return answer(step, { directive: directiveFor(known) });
  if (report.n > known.reported + 1) return answer(step, { directive: directiveFor(known, known.reported + 1) });

  const run = editRun(step);
  run.reported = report.n;
  dropRunRequest(step, run.nudgeId);
  run.nudgeId = undefined;
  const { retry } = report;
  if (retry) run.again = { after: retry.after, nextAt: step.given.now + retry.delayMs };
  const opened: Interaction[] = [];
  for (const part of report.parts) applyPart(step, run, part, opened);
  for (const requestId of report.withdrawn ?? []) step.toSelf.push({ type: "withdraw", requestId, given: step.given });
  if (opened.length > 0) step.toSelf.push({ type: "ask", interactions: opened, given: step.given });

  const { outcome } = report;
  if (outcome) handleOutcome(step, run, outcome);
  answer(step, { directive: outcome ? directiveFor(undefined) : directiveFor(run) });
}

/** The report of a summary, of an attempt that stops, or of a former one, which changes nothing. */
function applyOtherReport(step: SessionStep, report: CommandOf<"run.report">): Directive {
  const { summarizing } = step.context;
  if (isCurrent(summarizing, report)) {
    applySummary(step, report);
    return directiveFor(report.outcome ? undefined : summarizing);
  }
  if (isStopping(step.context, report)) {
    applyLateReport(step, report);
    if (report.outcome) releaseStopped(step);
  }
  return directiveFor(undefined);
}

/** Act on how an attempt ended. */
function handleOutcome(step: SessionStep, run: Run, outcome: NonNullable<CommandOf<"run.report">["outcome"]>): void {
  const { given } = step;
  if (outcome.kind === "done") {
    run.live = false;
    step.toSelf.push({ type: "done", summary: outcome.summary, given });
  } else if (outcome.kind === "failed") {
    run.live = false;
    const { code, message, retryAfterMs } = outcome;
    step.toSelf.push({ type: "fail", code, message, reason: code, retryAfterMs, given });
  } else {
    // Neither done nor failed: the worker gave the run back while shutting down, or its agent stopped by itself.
    endUnfinished(
      step,
      run,
      outcome.kind === "lost" && outcome.yielded ? "given_back" : "lost",
      isAudible(step.context) ? "request" : "resume",
    );
  }
}
