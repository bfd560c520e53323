import { listAgents } from "../config/catalog.ts";
import { findAgentIdFault } from "../protocol/client-message.ts";
import type { CommandOf } from "../protocol/command.ts";
import { ERRORS, type ErrorCode } from "../protocol/errors.ts";
import type { EffectId } from "../protocol/ids.ts";
import { expireInteraction } from "./session-interactions.ts";
import { releaseStopped } from "./session-run.ts";
import { answer, dropEffect, type SessionCommand, type SessionStep } from "./session-step.ts";

export function rename(step: SessionStep, { title }: CommandOf<"session.rename">): void {
  step.context.title = title;
  step.facts.push({ type: "event", event: { type: "session_updated", sessionId: step.context.id, data: { title } } });
  answer(step, {}, true);
}

/** `session.switch_agent`: understood in any case, so every outcome is an answer; the checks stand in the contract's order. */
export function switchAgent(
  step: SessionStep,
  command: Extract<SessionCommand, { type: "session.switch_agent" }>,
  isArchived = false,
): void {
  const { context, given } = step;
  const fail = (errorCode: ErrorCode, message: string = ERRORS[errorCode].text) =>
    answer(step, { outcome: { errorCode, message, availableAgents: listAgents(given.catalog) } });

  const fault = findAgentIdFault(command.agentId);
  if (fault) return fail(fault);
  if (isArchived) return fail("session_archived");
  if (context.run) return fail("agent_busy");
  const agentId = command.agentId.trim();
  const agent = given.catalog.agents.get(agentId);
  if (!agent?.enabled || !command.claim) return fail("agent_not_found", `Invalid agent ID: ${agentId}`);

  const outcome = { previousAgentId: context.claim.agentId, currentAgentId: agent.id, agentName: agent.label };
  step.facts.push({ type: "event", event: { type: "agent_switched", sessionId: context.id, data: outcome } });
  context.claim = command.claim;
  step.words.push({ type: "claim", claim: command.claim, given });
  answer(step, { outcome });
}

/** A timer fired. It counts only if the session still names it (rule C9). */
export function fireTimer(step: SessionStep, { timerId }: { timerId: EffectId }, isActive: boolean): void {
  const { context, given } = step;
  dropEffect(step, timerId);
  answer(step, {});
  const expired = context.run?.interactions.find((pending) => pending.timerId === timerId);
  if (timerId === context.idleTimerId) {
    context.idleTimerId = undefined;
    if (isActive && !context.run) step.verbs.push({ type: "yield", reason: "idle_timeout", given });
  } else if (timerId === context.pauseTimerId) {
    context.pauseTimerId = undefined;
    step.verbs.push({ type: "expire", reason: "max_pause", given });
  } else if (timerId === context.stopping?.timerId) {
    releaseStopped(step, isActive);
  } else if (expired) {
    expireInteraction(step, expired.interaction.requestId);
  }
}
