import type { AgentEntry } from "../config/catalog.ts";
import type { CommandOf, TurnInput } from "../protocol/command.ts";
import type { LoggedData } from "../protocol/event.ts";
import type { MessageId, RunId } from "../protocol/ids.ts";
import { CONFIRMATION_OPTIONS, type Interaction } from "../protocol/interaction.ts";
import type { Message, MessageStatus, Usage } from "../protocol/message.ts";
import type { ReportPart, Standing } from "../protocol/run.ts";
import type { TokenUsage } from "../protocol/session.ts";
import { effectId } from "./facts.ts";
import { MAX_APPROVED_TOOLS, MAX_LOSSES, NO_USAGE, NUDGE_MS, type Run, STOP_GRACE_MS } from "./session-context.ts";
import { answer, dropEffect, editRun, refuse, type SessionStep, startTimer } from "./session-step.ts";

/** The work of a session: a run from the turn that starts it to the `complete` that ends it. Rules C7 and C10 to C16. */

const agentOf = (step: SessionStep, run: Run): AgentEntry | undefined => step.given.catalog.agents.get(run.agentId);

/** A new message of the user, as its row and its event show it. */
export function addUserMessage(step: SessionStep, input: TurnInput, status: MessageStatus): void {
  const { context, given } = step;
  step.facts.push({
    type: "message.add",
    message: {
      id: input.messageId,
      sessionId: context.id,
      role: "user",
      content: input.content,
      ...(input.images && { images: input.images }),
      status,
      runId: input.runId,
      createdAt: given.now,
    },
  });
  context.messageCount += 1;
  context.lastActivityAt = given.now;
}

export function startRun(step: SessionStep, turn: { messageId: MessageId; runId: RunId }): void {
  const { context } = step;
  context.run = {
    id: turn.runId,
    agentId: context.claim.agentId,
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
  // Rule C16: the former attempt speaks or is given up first.
  if (!context.stopping) wishForWorker(step, context.run);
}

/** Ask for a worker, under a new id (rule C7). */
function wishForWorker(step: SessionStep, run: Run, kind: "run" | "nudge" = "run"): void {
  const { context, given } = step;
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
      priority: context.claim.priority,
      dueAt: kind === "run" ? given.now : given.now + NUDGE_MS,
    },
  });
}

function withdrawWishes(step: SessionStep, run: Run): void {
  dropEffect(step, run.effectId);
  dropEffect(step, run.nudgeId);
  run.effectId = undefined;
  run.nudgeId = undefined;
}

/** The session loses the floor: its run is held, or cancelled to be started again. */
export function suspendRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (run.live && agentOf(step, run)?.adapter.yields === "hold") {
    run.held = true;
    step.facts.push({ type: "signal", runId: run.id, signal: { signal: "hold", attempt: run.attempt } });
    return;
  }
  endAttempt(step, run, "interrupted");
  withdrawWishes(step, run);
}

/** The session has the floor again: its run goes on where it is held, or starts again. */
export function resumeRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  if (run.live && run.held) {
    run.held = false;
    step.facts.push({ type: "signal", runId: run.id, signal: { signal: "go", attempt: run.attempt } });
    wishForWorker(step, run, "nudge");
  } else if (!step.context.stopping) {
    wishForWorker(step, run);
  }
}

/**
 * Nothing the current attempt says counts any more. A live one is told to stop, and the session's next attempt waits
 * until it has (rule C16).
 */
function endAttempt(step: SessionStep, run: Run, status: MessageStatus, errorMessage?: string): void {
  closeDrafts(step, run, status, errorMessage);
  resolveInteractions(step, run, "abort");
  if (!run.live) return;
  run.live = false;
  run.held = false;
  step.facts.push({ type: "signal", runId: run.id, signal: { signal: "stop", attempt: run.attempt } });
  dropEffect(step, step.context.stopping?.timerId);
  const timerId = startTimer(step, "stop", STOP_GRACE_MS);
  step.context.stopping = { runId: run.id, attempt: run.attempt, timerId };
}

/** The stopped attempt said so, or its time ran out: whoever waited for that may start. */
export function releaseStopped(step: SessionStep, mayRun: boolean): void {
  dropEffect(step, step.context.stopping?.timerId);
  step.context.stopping = undefined;
  if (mayRun && step.context.run && !step.context.run.live) {
    const run = editRun(step);
    if (run.effectId === undefined) wishForWorker(step, run);
  }
}

/** The run is not wanted any more: what it said is kept as interrupted. */
export function cancelRun(step: SessionStep): void {
  if (!step.context.run) return;
  const run = editRun(step);
  endAttempt(step, run, "interrupted");
  finishRun(step, run, true);
}

/** The run failed: what it said is kept, and so is the user's message. */
export function failRun(step: SessionStep, failure: Omit<LoggedData<"error">, "availableAgents">): void {
  if (!step.context.run) return;
  const run = editRun(step);
  endAttempt(step, run, "error", failure.message);
  step.facts.push({
    type: "event",
    event: { type: "error", sessionId: step.context.id, data: { ...failure, runId: run.id } },
  });
  finishRun(step, run, false);
}

/** The end of every run, with its `complete`. */
export function finishRun(step: SessionStep, run: Run, cancelled: boolean): void {
  const { context } = step;
  closeDrafts(step, run, "success");
  resolveInteractions(step, run, "abort");
  withdrawWishes(step, run);
  complete(step, run.id, run.usage, cancelled);
  context.run = undefined;
  context.lastActivityAt = step.given.now;
}

/** Exactly one for every run id that was ever handed out. */
export function complete(step: SessionStep, runId: RunId, usage: Usage, cancelled: boolean): void {
  const { id } = step.context;
  step.facts.push({
    type: "event",
    event: {
      type: "complete",
      sessionId: id,
      data: { sessionId: id, runId, usage, tokenCount: usage.total_tokens, ...(cancelled && { cancelled: true }) },
    },
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

function resolveInteractions(step: SessionStep, run: Run, by: "abort" | "timeout"): void {
  for (const { interaction, timerId } of run.interactions) {
    dropEffect(step, timerId);
    step.facts.push({
      type: "event",
      event: {
        type: "interaction_resolved",
        sessionId: step.context.id,
        requestId: interaction.requestId,
        data: { by },
      },
    });
  }
  run.interactions = [];
}

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

function mayRepeat(step: SessionStep, run: Run): boolean {
  if (run.losses + 1 >= MAX_LOSSES) return false;
  return !run.spoke || agentOf(step, run)?.adapter.restartable === true;
}

/** A live attempt is gone with its worker; what it said is kept. */
function loseAttempt(step: SessionStep, run: Run): void {
  closeDrafts(step, run, "interrupted");
  resolveInteractions(step, run, "abort");
  run.live = false;
  run.held = false;
  run.losses += 1;
}

function failLost(step: SessionStep, run: Run): void {
  loseAttempt(step, run);
  step.verbs.push({
    type: "fail",
    code: "run_lost",
    message: "The worker that drove this run is gone.",
    reason: "run_lost",
    given: step.given,
  });
}

/** `run.lost`: a worker gives its attempt back. */
export function giveBackRun(step: SessionStep, lost: CommandOf<"run.lost">, isActive: boolean): void {
  const run = currentAttempt(step, lost);
  if (run) repeatOrFail(step, run, isActive);
  else stoppedBy(step, lost, isActive);
  answer(step, { standing: { standing: "stop", answers: [] } });
}

function repeatOrFail(step: SessionStep, run: Run, isActive: boolean): void {
  if (!mayRepeat(step, run)) return failLost(step, run);
  loseAttempt(step, run);
  withdrawWishes(step, run);
  if (isActive) wishForWorker(step, run);
}

/** The run to edit, if `report` comes from its live attempt. */
function currentAttempt(step: SessionStep, report: { runId: RunId; attempt: number }): Run | undefined {
  const { run } = step.context;
  if (!run?.live || run.id !== report.runId || run.attempt !== report.attempt) return undefined;
  return editRun(step);
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

/** `run.still`: a silent worker asks whether it is wanted (rule C13). */
export function tellStanding(step: SessionStep, still: CommandOf<"run.still">): void {
  answer(step, { standing: standing(currentAttempt(step, still)) });
}

/** `run.report`: numbered, taken once and in order (rule C12); of the live attempt only. */
export function takeReport(step: SessionStep, report: CommandOf<"run.report">, isActive: boolean): void {
  const run = currentAttempt(step, report);
  if (!run) {
    if (report.outcome) stoppedBy(step, report, isActive);
    return answer(step, { standing: standing(undefined) });
  }
  if (report.n <= run.reported) return answer(step, { standing: standing(run) });
  if (report.n > run.reported + 1) return answer(step, { standing: standing(run, run.reported + 1) });

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
  } else if (outcome) {
    // It stopped although nobody told it to.
    repeatOrFail(step, run, isActive);
  }
  answer(step, { standing: outcome ? standing(undefined) : standing(run) });
}

function takePart(step: SessionStep, run: Run, part: ReportPart, asked: Interaction[]): void {
  const { context, facts, given } = step;
  const sessionId = context.id;
  switch (part.kind) {
    case "open": {
      if (run.drafts.includes(part.messageId)) return;
      run.drafts.push(part.messageId);
      context.messageCount += 1;
      const message: Message = {
        id: part.messageId,
        sessionId,
        role: "assistant",
        content: "",
        status: "running",
        agent: part.agent,
        runId: run.id,
        createdAt: given.now,
        startedAt: given.now,
      };
      facts.push({ type: "draft.open", message });
      return;
    }
    case "append":
      if (!run.drafts.includes(part.messageId)) return;
      run.spoke = true;
      facts.push({ type: "draft.append", sessionId, ...part });
      return;
    case "close": {
      if (!run.drafts.includes(part.messageId)) return;
      const { kind: _, messageId, ...rest } = part;
      run.drafts = run.drafts.filter((id) => id !== messageId);
      facts.push({ type: "draft.close", sessionId, messageId, close: { ...rest, finishedAt: given.now } });
      return;
    }
    case "tool_call":
      run.spoke = true;
      facts.push({ type: "event", event: { type: "tool_call", sessionId, data: { ...part.call, agent: part.agent } } });
      return;
    case "tool_result": {
      const { kind: _, ...data } = part;
      facts.push({ type: "event", event: { type: "tool_result", sessionId, data } });
      return;
    }
    case "ask":
      run.spoke = true;
      asked.push(part.interaction);
      return;
    case "usage":
      run.usage = addUsage(run.usage, part.usage);
      context.tokenUsage = addTokens(context.tokenUsage, part.usage);
      facts.push({ type: "event", event: { type: "usage", sessionId, data: part.usage } });
      return;
    case "provider_session":
      if (context.agentSessions[run.agentId] === part.id) return;
      context.agentSessions = { ...context.agentSessions, [run.agentId]: part.id };
      facts.push({
        type: "event",
        event: { type: "session_updated", sessionId, data: { agentSessions: context.agentSessions } },
      });
      return;
    case "log":
      facts.push({ type: "log", sessionId, messageId: part.messageId, runId: run.id, line: part.line });
      return;
    case "data":
      facts.push({
        type: "event",
        event: { type: "data", sessionId, data: { name: part.name, data: part.data, agent: part.agent } },
      });
  }
}

/** The agent waits for a person: each question has an id, an event and a timeout. */
export function openInteractions(step: SessionStep, interactions: readonly Interaction[]): void {
  const run = editRun(step);
  const sessionId = step.context.id;
  for (const interaction of interactions) {
    if (run.interactions.some((pending) => pending.interaction.requestId === interaction.requestId)) continue;
    const { requestId } = interaction;
    const timerId = startTimer(step, `ask-${run.interactions.length}`, step.given.interactionTimeoutMs);
    run.interactions.push({ interaction, timerId });
    if (interaction.kind === "confirmation") {
      const { toolCall, isSensitive } = interaction;
      const data = { toolCall, isSensitive, availableOptions: [...CONFIRMATION_OPTIONS] };
      step.facts.push({ type: "event", event: { type: "tool_confirmation_request", sessionId, requestId, data } });
    } else {
      const { question, options, multiSelect } = interaction;
      const data = { question, options, ...(multiSelect !== undefined && { multiSelect }) };
      step.facts.push({ type: "event", event: { type: "user_question_request", sessionId, requestId, data } });
    }
  }
}

/** `session.answer`: settles one interaction; whoever is second hears that nobody waits. */
export function settleInteraction(step: SessionStep, { requestId, answer: given }: CommandOf<"session.answer">): void {
  const pending = step.context.run?.interactions.find(({ interaction }) => interaction.requestId === requestId);
  if (!pending || pending.interaction.kind !== given.kind) return refuse(step, "interaction_not_found");
  const run = editRun(step);
  run.interactions = run.interactions.filter(({ interaction }) => interaction.requestId !== requestId);
  run.answers.push(given);
  dropEffect(step, pending.timerId);
  if (
    given.kind === "confirmation" &&
    given.verdict === "approve_always" &&
    pending.interaction.kind === "confirmation"
  ) {
    const tool = pending.interaction.toolCall.function.name;
    step.context.approvedTools = [...new Set([...step.context.approvedTools, tool])].slice(-MAX_APPROVED_TOOLS);
  }
  step.facts.push({
    type: "event",
    event: { type: "interaction_resolved", sessionId: step.context.id, requestId, data: { by: "client" } },
  });
  step.facts.push({
    type: "signal",
    runId: run.id,
    signal: { signal: "answer", attempt: run.attempt, answer: given },
  });
  answer(step, { runId: run.id });
}

/** An interaction ran out: the run fails, and says so. */
export function expireInteraction(step: SessionStep, requestId: string): void {
  const run = editRun(step);
  const expired = run.interactions.find(({ interaction }) => interaction.requestId === requestId)!;
  resolveInteractions(step, { ...run, interactions: [expired] }, "timeout");
  run.interactions = run.interactions.filter((pending) => pending !== expired);
  step.verbs.push({
    type: "fail",
    code: "interaction_timeout",
    message: "Nobody answered in time.",
    reason: "interaction_timeout",
    given: step.given,
  });
}

function addUsage(sum: Usage, more: Usage): Usage {
  const add = (key: keyof Usage) => (sum[key] ?? 0) + (more[key] ?? 0);
  const created = add("cache_creation_input_tokens");
  const read = add("cache_read_input_tokens");
  return {
    prompt_tokens: add("prompt_tokens"),
    completion_tokens: add("completion_tokens"),
    total_tokens: add("total_tokens"),
    ...(created > 0 && { cache_creation_input_tokens: created }),
    ...(read > 0 && { cache_read_input_tokens: read }),
  };
}

function addTokens({ used, breakdown }: TokenUsage, more: Usage): TokenUsage {
  return {
    used: used + more.total_tokens,
    breakdown: {
      input: breakdown.input + more.prompt_tokens,
      output: breakdown.output + more.completion_tokens,
      cacheRead: breakdown.cacheRead + (more.cache_read_input_tokens ?? 0),
      cacheCreation: breakdown.cacheCreation + (more.cache_creation_input_tokens ?? 0),
    },
  };
}
