import type { CommandOf } from "../protocol/command.ts";
import type { RunId } from "../protocol/ids.ts";
import type { Interaction } from "../protocol/interaction.ts";
import type { Standing } from "../protocol/run.ts";
import type { Run } from "./session-context.ts";
import { takePart } from "./session-parts.ts";
import {
  failLost,
  loseAttempt,
  mayRepeat,
  releaseStopped,
  repeatOrFail,
  withdrawWishes,
  yieldAttempt,
} from "./session-run.ts";
import { answer, dropEffect, editRun, type SessionStep } from "./session-step.ts";

/** What workers tell a session, and what it tells them. Rules C10 to C13. */

/** `run.claim`: the floor assigns the attempt (rule C10) and decides what is repeated (rule C11). */
export function claimRun(step: SessionStep, claim: CommandOf<"run.claim">, isActive: boolean): void {
  const drop = () => answer(step, {});
  if (step.context.run?.id !== claim.runId) return drop();
  const run = editRun(step);
  if (!isActive) {
    // Nobody drives it: what was held is gone with its worker. A resume wishes for another.
    if (run.live) loseAttempt(step, run);
    withdrawWishes(step, run);
    return drop();
  }
  if (run.live && run.claimId === claim.claimId) return giveTask(step, run);
  if (step.context.stopping) return drop();
  if (run.live && !claim.asked) return answer(step, { isClaimed: true });
  if (run.live && !mayRepeat(step, run)) {
    failLost(step, run);
    return drop();
  }
  if (run.live) loseAttempt(step, run);
  dropEffect(step, run.nudgeId);
  run.nudgeId = undefined;
  run.attempt += 1;
  run.claimId = claim.claimId;
  run.live = true;
  run.held = false;
  run.reported = 0;
  run.spoke = false;
  run.answers = [];
  giveTask(step, run);
}

function giveTask(step: SessionStep, run: Run): void {
  const { agentSessions, approvedTools, workspaceId } = step.context;
  const providerSessionId = agentSessions[run.agentId];
  answer(step, {
    task: {
      runId: run.id,
      attempt: run.attempt,
      agentId: run.agentId,
      messageId: run.messageId,
      ...(providerSessionId !== undefined && { providerSessionId }),
      ...(workspaceId !== undefined && { workspaceId }),
      approvedTools,
    },
  });
}

/** Whether it is the live attempt that speaks. */
function isCurrent(run: Run | undefined, report: { runId: RunId; attempt: number }): run is Run {
  return run?.live === true && run.id === report.runId && run.attempt === report.attempt;
}

function stoppedBy(step: SessionStep, report: { runId: RunId; attempt: number }, isActive: boolean): void {
  const { stopping } = step.context;
  if (stopping?.runId === report.runId && stopping.attempt === report.attempt) releaseStopped(step, isActive);
}

function standing(run: Run | undefined, expected?: number): Standing {
  if (!run) return { standing: "stop", answers: [] };
  return {
    standing: run.held ? "hold" : "go",
    ...(expected !== undefined && { expected }),
    answers: run.answers,
  };
}

/** `run.still`: a silent worker asks whether it is wanted; that changes nothing (rule C13). */
export function tellStanding(step: SessionStep, still: CommandOf<"run.still">): void {
  const { run } = step.context;
  answer(step, { standing: standing(isCurrent(run, still) ? run : undefined) });
}

/** `run.report`: numbered, taken once and in order (rule C12); of the live attempt only. */
export function takeReport(step: SessionStep, report: CommandOf<"run.report">, isActive: boolean): void {
  const known = step.context.run;
  if (!isCurrent(known, report)) {
    if (report.outcome) stoppedBy(step, report, isActive);
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
  if (asked.length > 0) step.verbs.push({ type: "ask", interactions: asked, given: step.given });

  const { outcome } = report;
  if (outcome?.kind === "done") {
    run.live = false;
    step.verbs.push({ type: "done", summary: outcome.summary, given: step.given });
  } else if (outcome?.kind === "failed") {
    run.live = false;
    const { code, message, retryAfterMs } = outcome;
    step.verbs.push({ type: "fail", code, message, reason: code, retryAfterMs, given: step.given });
  } else if (outcome?.kind === "lost" && outcome.yielded) {
    yieldAttempt(step, run, isActive);
  } else if (outcome) {
    // Given back, or stopped although nobody told it to.
    repeatOrFail(step, run, isActive);
  }
  answer(step, { standing: outcome ? standing(undefined) : standing(run) });
}
