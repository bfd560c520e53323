// Rules C10, C11, C12 and C13 of docs/inside/correctness.md.
import type { MessageId, RunId } from "../../protocol/ids.ts";
import type { Interaction } from "../../protocol/interaction.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import type { Standing } from "../../protocol/internal/run.ts";
import { takeLateReport } from "./late-reports.ts";
import { takePart } from "./parts.ts";
import { endUnfinished, releaseStopped, withdrawRequests } from "./runs.ts";
import type { Run, SessionContext } from "./session-context.ts";
import { answer, dropEffect, editRun, type SessionStep } from "./session-step.ts";
import { claimSummary, isSummary, isWriting } from "./summaries.ts";

/** The commands of workers, and the session's replies. */

/** `run.claim`: the floor assigns the attempt (rule C10) and decides what is repeated (rule C11). */
export function claimRun(step: SessionStep, claim: CommandOf<"run.claim">, isHeard: boolean): void {
  const drop = () => answer(step, {});
  if (isSummary(step.context, claim.runId)) return claimSummary(step, claim);
  if (step.context.run?.id !== claim.runId) return drop();
  const run = editRun(step);
  if (isHeard && run.live && run.claimId === claim.claimId) return giveTask(step, run);
  if (isHeard && step.context.stopping) return drop();
  if (run.live && !claim.hasNoDriver) return answer(step, { isClaimed: true });
  const goesOn = !run.live || endUnfinished(step, run, "lost", "claim");
  // A resume requests another worker.
  if (!isHeard) withdrawRequests(step, run);
  if (!isHeard || !goesOn) return drop();
  dropEffect(step, run.nudgeId);
  run.nudgeId = undefined;
  run.attempt += 1;
  run.claimId = claim.claimId;
  run.live = true;
  run.held = false;
  run.reported = 0;
  run.did = "nothing";
  run.hasFailed = undefined;
  run.answers = [];
  giveTask(step, run);
}

function giveTask(step: SessionStep, run: Run): void {
  const { agentSessions, agentHomes, agentHeard, approvedTools, workspaceId, summaryId } = step.context;
  const providerSessionId = agentSessions[run.agentId];
  const providerHome = agentHomes?.[run.agentId];
  const heardUpTo = agentHeard?.[run.agentId] as MessageId | undefined;
  answer(step, {
    task: {
      runId: run.id,
      attempt: run.attempt,
      agentId: run.agentId,
      messageId: run.messageId,
      ...(providerSessionId !== undefined && { providerSessionId }),
      ...(providerHome !== undefined && { providerHome }),
      ...(heardUpTo !== undefined && { heardUpTo }),
      ...(workspaceId !== undefined && { workspaceId }),
      ...(run.mode !== undefined && { mode: run.mode }),
      ...(summaryId !== undefined && { summaryId }),
      approvedTools,
    },
  });
}

/** Whether the command is from the live attempt. */
function isCurrent(run: Run | undefined, report: { runId: RunId; attempt: number }): run is Run {
  return run?.live === true && run.id === report.runId && run.attempt === report.attempt;
}

/** Whether the command is from the attempt that is being stopped. */
export function isStopping({ stopping }: SessionContext, report: { runId: RunId; attempt: number }): boolean {
  return stopping?.runId === report.runId && stopping.attempt === report.attempt;
}

function standing(run: Run | undefined, expected?: number): Standing {
  if (!run) return { standing: "stop", answers: [] };
  return {
    standing: run.held ? "hold" : "go",
    ...(expected !== undefined && { expected }),
    answers: run.answers,
  };
}

/** `run.still`: a silent worker asks whether its attempt is still wanted. It changes nothing (rule C13). */
export function tellStanding(step: SessionStep, still: CommandOf<"run.still">): void {
  const { run } = step.context;
  if (isWriting(step.context, still)) return answer(step, { standing: { standing: "go", answers: [] } });
  answer(step, { standing: standing(isCurrent(run, still) ? run : undefined) });
}

/** `run.report`: numbered, applied once and in order (rule C12), of the live attempt only. */
export function takeReport(step: SessionStep, report: CommandOf<"run.report">, isHeard: boolean): void {
  const known = step.context.run;
  if (!isCurrent(known, report)) {
    if (isStopping(step.context, report)) {
      takeLateReport(step, report);
      if (report.outcome) releaseStopped(step, isHeard);
    }
    return answer(step, { standing: standing(undefined) });
  }
  if (report.n <= known.reported) return answer(step, { standing: standing(known) });
  if (report.n > known.reported + 1) return answer(step, { standing: standing(known, known.reported + 1) });

  const run = editRun(step);
  run.reported = report.n;
  dropEffect(step, run.nudgeId);
  run.nudgeId = undefined;
  const asked: Interaction[] = [];
  for (const part of report.parts) takePart(step, run, part, asked);
  for (const requestId of report.withdrawn ?? []) step.toSelf.push({ type: "withdraw", requestId, given: step.given });
  if (asked.length > 0) step.toSelf.push({ type: "ask", interactions: asked, given: step.given });

  const { outcome } = report;
  if (outcome) takeOutcome(step, run, outcome, isHeard);
  answer(step, { standing: outcome ? standing(undefined) : standing(run) });
}

/** Act on how an attempt ended. */
function takeOutcome(
  step: SessionStep,
  run: Run,
  outcome: NonNullable<CommandOf<"run.report">["outcome"]>,
  isHeard: boolean,
): void {
  const { given } = step;
  if (outcome.kind === "done") {
    run.live = false;
    step.toSelf.push({ type: "done", summary: outcome.summary, given });
  } else if (outcome.kind === "failed") {
    run.live = false;
    const { code, message, retryAfterMs } = outcome;
    step.toSelf.push({ type: "fail", code, message, reason: code, retryAfterMs, given });
  } else {
    // Otherwise it was given back by a worker that stops, or stopped without a stop signal.
    endUnfinished(
      step,
      run,
      outcome.kind === "lost" && outcome.yielded ? "given_back" : "lost",
      isHeard ? "request" : "resume",
    );
  }
}
