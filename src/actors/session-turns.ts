import type { AgentEntry } from "../config/catalog.ts";
import type { CommandOf, TurnInput } from "../protocol/command.ts";
import { ERRORS } from "../protocol/errors.ts";
import type { MessageStatus } from "../protocol/message.ts";
import { MAX_TURNS, NO_USAGE } from "./session-context.ts";
import { cancelRun, complete, startRun } from "./session-run.ts";
import { answer, dropEffect, refuse, type SessionStep, type SessionVerb, startTimer } from "./session-step.ts";

/** Turns: when one starts, when it waits, and what a session does between two of them. */

type Turn = Extract<SessionVerb, { type: "turn" }>;

const agentOf = (step: SessionStep): AgentEntry | undefined =>
  step.given.catalog.agents.get(step.context.claim.agentId);

/** A new message of the user, as its row and its event show it. */
function addUserMessage(step: SessionStep, input: TurnInput, status: MessageStatus): void {
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

/** Whether a new turn would be refused because another is under way. */
export function isTooBusy(step: SessionStep): boolean {
  if (!step.context.run) return false;
  const whenBusy = agentOf(step)?.whenBusy ?? "reject";
  return whenBusy === "reject" || (whenBusy === "enqueue" && step.context.turns.length >= MAX_TURNS);
}

/** A turn on an active session that has nothing running. Turns that waited for the floor come before a new one. */
export function beginTurn(step: SessionStep, { turn, input, decision }: Turn): void {
  stopIdling(step);
  const [first] = step.context.turns;
  if (input && first) {
    keepTurn(step, input, decision);
    step.context.turns = step.context.turns.filter((waiting) => waiting !== first);
    return beginTurn(step, { type: "turn", turn: first, given: step.given });
  }
  if (input) {
    addUserMessage(step, input, "success");
    answer(step, { ...about(turn), ...(decision && { decision }) });
  } else {
    const { id: sessionId } = step.context;
    step.facts.push({ type: "message.status", sessionId, messageId: turn.messageId, status: "success" });
  }
  startRun(step, turn);
}

/** A turn on an active session whose run is under way: `when_busy` decides. */
export function overlapTurn(step: SessionStep, { turn, input, decision }: Turn): void {
  const whenBusy = agentOf(step)?.whenBusy ?? "reject";
  if (!input || isTooBusy(step)) return refuse(step, "agent_busy");
  if (whenBusy === "enqueue") return keepTurn(step, input, decision);
  const { run } = step.context;
  const interrupted = run && { runId: run.id, messageId: run.drafts.at(-1) ?? run.messageId };
  addUserMessage(step, input, "success");
  step.context.turns = [turn, ...step.context.turns];
  step.verbs.push({ type: "abort", reason: "interrupted", given: step.given });
  answer(step, { ...about(turn), ...(decision && { decision }), ...(interrupted && { interrupted }) });
}

/** The turn waits: for the run to end, or for the floor. */
export function keepTurn(step: SessionStep, input: TurnInput, decision?: Turn["decision"]): void {
  if (step.context.turns.length >= MAX_TURNS) return refuse(step, "agent_busy");
  addUserMessage(step, input, "queued");
  const { messageId, runId } = input;
  step.context.turns = [...step.context.turns, { messageId, runId }];
  answer(step, { ...about(input), ...(decision && { decision }) });
}

const about = ({ messageId, runId }: Pick<TurnInput, "messageId" | "runId">) => ({ messageId, runId });

/** An active session with nothing running: the next turn, or what its agent does between turns. */
export function settle(step: SessionStep): void {
  const [next, ...rest] = step.context.turns;
  if (next) {
    step.context.turns = rest;
    step.verbs.push({ type: "turn", turn: next, given: step.given });
    return;
  }
  const idleTimeoutMs = agentOf(step)?.idleTimeoutMs;
  if (idleTimeoutMs === undefined) return;
  stopIdling(step);
  step.context.idleTimerId = startTimer(step, "idle", idleTimeoutMs);
}

export function stopIdling(step: SessionStep): void {
  dropEffect(step, step.context.idleTimerId);
  step.context.idleTimerId = undefined;
}

/** A turn has ended as it should: `after_turn` applies, unless another waits. */
export function settleAfterTurn(step: SessionStep): void {
  const afterTurn = agentOf(step)?.afterTurn ?? "keep";
  if (step.context.turns.length > 0 || afterTurn === "keep") return settle(step);
  step.verbs.push({ type: afterTurn, reason: "after_turn", given: step.given });
}

/** `session.withdraw`: only a turn that has not begun can be taken back. */
export function withdrawTurn(step: SessionStep, { messageId }: CommandOf<"session.withdraw">): void {
  const turn = step.context.turns.find((waiting) => waiting.messageId === messageId);
  if (!turn) return refuse(step, "illegal_command", "Only a queued message can be withdrawn.");
  const sessionId = step.context.id;
  step.context.turns = step.context.turns.filter((waiting) => waiting !== turn);
  step.context.messageCount -= 1;
  step.facts.push({ type: "message.remove", sessionId, messageId });
  complete(step, turn.runId, NO_USAGE, true);
  answer(step, { deleted: true });
}

/** Turns that will never begin: their messages stay, their runs end. */
export function dropTurns(step: SessionStep, status: "interrupted" | "error"): void {
  const sessionId = step.context.id;
  for (const { messageId, runId } of step.context.turns) {
    step.facts.push({ type: "message.status", sessionId, messageId, status });
    if (status === "error") {
      const data = { errorCode: "rejected" as const, message: ERRORS.rejected.text, runId };
      step.facts.push({ type: "event", event: { type: "error", sessionId, data } });
    }
    complete(step, runId, NO_USAGE, true);
  }
  step.context.turns = [];
}

/** Whatever runs or waits here ends now. */
export function endWork(step: SessionStep): void {
  cancelRun(step);
  dropTurns(step, "interrupted");
  stopIdling(step);
  for (const timerId of [step.context.pauseTimerId, step.context.stopping?.timerId]) dropEffect(step, timerId);
  step.context.pauseTimerId = undefined;
  step.context.stopping = undefined;
}
