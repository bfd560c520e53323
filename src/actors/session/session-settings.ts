import { acceptsTurns, findAgent, findModeFault, listAgents, suggestAgent } from "../../config/catalog/catalog.ts";
import { findAgentIdFault } from "../../protocol/client-message.ts";
import { ERRORS, type ErrorCode } from "../../protocol/errors.ts";
import type { CommandOf } from "../../protocol/internal/command.ts";
import { changedSettings } from "../../protocol/session-settings.ts";
import { keepLengths } from "./floor-changes.ts";
import { isAudible } from "./session-context.ts";
import { beginLease, endLease } from "./session-lease.ts";
import {
  agentOf,
  answer,
  answerWithSession,
  logEvent,
  refuseCommand,
  type SessionCommand,
  type SessionStep,
} from "./session-step.ts";

/** `session.update`: a title is logged, and other settings if they differ. The turn under way keeps its mode. */
export function update(step: SessionStep, { settings }: CommandOf<"session.update">): void {
  const { context } = step;
  const { mode, title } = settings;
  const fault = mode === undefined ? undefined : findModeFault(agentOf(step), mode);
  if (fault) return refuseCommand(step, "bad_request", { facts: { issues: [fault] } });
  if (title !== undefined) context.untitled = undefined;
  const changed = changedSettings(settings, { ...context, title: undefined });
  if (Object.keys(changed).length > 0) {
    Object.assign(context, changed);
    logEvent(step, "session_updated", changed);
  }
  answerWithSession(step);
}

/**
 * `session.switch_agent`: every outcome is a successful answer, also a failure. The checks follow the contract's order.
 */
export function switchAgent(
  step: SessionStep,
  command: Extract<SessionCommand, { type: "session.switch_agent" }>,
): void {
  const { context, given } = step;
  const available = () => listAgents(given.catalog, context.workspaceId);
  const fail = (errorCode: ErrorCode, message: string = ERRORS[errorCode].text) =>
    answer(step, { outcome: { errorCode, message, availableAgents: available() } });

  const fault = findAgentIdFault(command.agentId);
  if (fault) return fail(fault);
  if (context.archivedAt !== undefined) return fail("session_archived");
  if (context.run) return fail("agent_busy");
  const agentId = command.agentId.trim();
  const agent = findAgent(given.catalog, agentId, context.workspaceId);
  if (!agent?.enabled || !command.contender)
    return fail("agent_not_found", `Invalid agent ID: ${agentId}${suggestAgent(agentId, available())}`);
  const hasTurns = context.turns.length > 0 || context.schedule?.content !== undefined;
  if (!acceptsTurns(agent) && hasTurns) return fail("agent_busy");

  const outcome = { previousAgentId: context.numbers.agentId, currentAgentId: agent.id, agentName: agent.label };
  logEvent(step, "agent_switched", outcome);
  context.numbers = command.contender;
  context.mode = undefined;
  keepLengths(step);
  // Another agent's lease begins now, even if it is as long as the former's.
  endLease(step);
  if (isAudible(context) || context.queuedAt !== undefined || context.pausedBy === "preemption") beginLease(step);
  step.toArbiter.push({ type: "switched", contender: command.contender, given });
  answer(step, { outcome });
}
