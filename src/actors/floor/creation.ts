/** New sessions: what is checked before one exists, and how it comes into being. */

import {
  type AgentEntry,
  acceptsTurns,
  findAgent,
  findModeFault,
  listAgents,
  suggestAgent,
} from "../../config/catalog/catalog.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import type { AgentId, FloorId, SessionId } from "../../protocol/ids.ts";
import type { CommandOf, History, TurnInput, WantedSchedule, WantedSession } from "../../protocol/internal/command.ts";
import type { Schedule } from "../../protocol/session.ts";
import { acceptWithSession, type RefusalDetails } from "../facts.ts";
import { type carriedBy, newSession, type SessionContext, sessionView } from "../session/session-context.ts";
import { MAX_SCHEDULES, readSchedule, scheduled } from "../session/session-schedule.ts";
import { externalAcceptsNoTurns, userMessage } from "../session/turns.ts";
import { type ArbiterStep, floorLanguageOf, newContender, refuse } from "./arbiter-step.ts";
import { type Contender, numbersOf } from "./contender.ts";
import { leave } from "./rearrangement.ts";

/** How a session is created. */
export interface Creation {
  activate: boolean;
  turn?: TurnInput | undefined;
  schedule?: WantedSchedule | undefined;
  history?: History | undefined;
  /** The session that it replaces, which is archived. */
  replaces?: SessionId | undefined;
  /** The unfinished turns of a session that comes from another floor, and what it brings along. */
  turns?: readonly TurnInput[] | undefined;
  carried?: ReturnType<typeof carriedBy> | undefined;
  /** Whether the first of them began there. */
  hasBegun?: boolean | undefined;
}

/** A session that may be created. Nothing of it exists before `spawn`. */
interface Newcomer {
  contender: Contender;
  agent: AgentEntry;
  spawn: () => void;
}

/** Check what is asked of a new session. @returns undefined if it was refused */
export function checkNewcomer(step: ArbiterStep, wanted: WantedSession, creation: Creation): Newcomer | undefined {
  const { given, floorId } = step;
  const { catalog } = given;
  const { sessionId, workspaceId } = wanted;
  const name = wanted.agentId ?? catalog.defaultAgentId;
  const agent = findAgent(catalog, name, workspaceId);
  if (!agent?.enabled) {
    const availableAgents = listAgents(catalog, workspaceId);
    const message = `Invalid agent ID: ${name}${suggestAgent(name, availableAgents)}`;
    return void refuse(step, "agent_not_found", { message, facts: { availableAgents } });
  }
  const agentId = agent.id;
  if (creation.turn && !acceptsTurns(agent))
    return void refuse(step, "illegal_command", { message: externalAcceptsNoTurns(agent) });
  const contender = newContender(step, { ...numbersOf(step, agent), ...floorLanguageOf(wanted) }, sessionId);
  const { history, replaces, turns = [], carried, hasBegun } = creation;
  const schedule = creation.schedule && findSchedule(step, creation.schedule, wanted, agent);
  if (schedule === "refused") return undefined;
  const obstacle = replaces === undefined ? undefined : whyNotReplaced(step, replaces);
  if (obstacle) return void refuse(step, obstacle);
  const modeFault = wanted.mode === undefined ? undefined : findModeFault(agent, wanted.mode);
  // A copy begins in the first mode if the catalogue has changed since.
  if (modeFault && !history) return void refuse(step, "bad_request", { facts: { issues: [modeFault] } });
  const mode = modeFault ? undefined : wanted.mode;
  const spawn = () => {
    const fresh = newSession({ ...wanted, mode }, floorId, contender, given.now, history);
    const carriedTurns = withTurns(fresh, turns, hasBegun);
    addSession(step, { ...fresh, ...carried, ...carriedTurns, ...(schedule && scheduled(schedule, given)) }, history);
    for (const turn of turns)
      step.facts.push({ type: "message.add", message: userMessage(sessionId, turn, "queued", given.now) });
    if (replaces !== undefined) replace(step, replaces, { sessionId, agentId });
  };
  return { contender, agent, spawn };
}

/** The schedule of a new session, or of one that gets another one. */
export function findSchedule(
  step: ArbiterStep,
  wanted: WantedSchedule,
  { userId, schedule: former }: { userId?: string | undefined; schedule?: Schedule | undefined },
  agent: AgentEntry | undefined,
): Schedule | "refused" {
  const refused = (code: ErrorCode, details?: RefusalDetails) => {
    refuse(step, code, details);
    return "refused" as const;
  };
  if (agent && wanted.content !== undefined && !acceptsTurns(agent))
    return refused("illegal_command", { message: externalAcceptsNoTurns(agent) });
  const schedule = readSchedule(wanted, step.given);
  if ("message" in schedule) return refused("bad_request", { facts: { issues: [schedule] } });
  // The sessions of a series are on its floor, and a session without a user has a floor to itself.
  if (schedule.every !== undefined && userId === undefined)
    return refused("bad_request", { facts: { issues: [{ path: "body.userId", message: "is needed with every" }] } });
  if (!former && step.sessions.scheduledCount() >= MAX_SCHEDULES) return refused("too_many_schedules");
  return schedule;
}

export function addSession(step: ArbiterStep, context: SessionContext, history?: History): void {
  const { id: sessionId } = context;
  const data = sessionView(context, { lifecycle: "created", activity: "idle" });
  step.orders.push({ spawn: { context, lifecycle: "created", activity: "idle" } });
  if (history?.stagedAs) step.facts.push({ type: "history.staged", sessionId, stagedAs: history.stagedAs });
  step.facts.push({ type: "event", event: { type: "session_created", sessionId, data } });
}

/** The turns that wait in a session from its beginning. */
const withTurns = ({ messageCount }: SessionContext, turns: readonly TurnInput[], hasBegun = false) => ({
  turns: turns.map(({ messageId, runId }, index) => ({
    messageId,
    runId,
    ...(hasBegun && index === 0 && { hasBegun: true as const }),
  })),
  messageCount: messageCount + turns.length,
});

/** Only one of several copies that are made at once can replace a session. */
function whyNotReplaced(step: ArbiterStep, id: SessionId): "session_not_found" | "session_archived" | undefined {
  const replaced = step.sessions.sessionOf(id);
  if (!replaced) return "session_not_found";
  return replaced.replacedBy === undefined ? undefined : "session_archived";
}

/**
 * Archive a session in favour of another one. It leaves the floor first, so that its end wakes no other session. One
 * that goes on on another floor leaves this one like any session that ends.
 */
export function replace(
  step: ArbiterStep,
  to: SessionId,
  by: { sessionId: SessionId; agentId: AgentId },
  movedTo?: FloorId,
): void {
  const { given } = step;
  if (step.sessions.sessionOf(to)?.archivedAt !== undefined) return;
  if (movedTo === undefined) step.floor = leave(step.floor, to);
  const why = movedTo === undefined ? { reason: "superseded" } : { reason: "moved", movedTo };
  step.orders.push({ to, event: { type: "archive", ...why, by, given } });
}

/** Whether the existing session is the requested one, so that the command is a repeat. */
function isSame(step: ArbiterStep, wanted: WantedSession, session: SessionContext): boolean {
  const { numbers, userId, zone, ownerId, workspaceId } = session;
  const named = wanted.agentId && (findAgent(step.given.catalog, wanted.agentId, workspaceId)?.id ?? wanted.agentId);
  return (
    (named === undefined || named === numbers.agentId) &&
    wanted.userId === userId &&
    wanted.zone === zone &&
    wanted.ownerId === ownerId &&
    wanted.workspaceId === workspaceId
  );
}

/** The creation of a session that exists: a repeat is accepted, a request for another session is refused. */
export function acceptRepeat(
  step: ArbiterStep,
  command: CommandOf<"session.create" | "session.copy">,
  session: SessionContext,
): void {
  const { sessionId } = command;
  const hasSameOrigin =
    command.type === "session.create" || JSON.stringify(session.origin) === JSON.stringify(command.history.origin);
  if (!hasSameOrigin || !isSame(step, command.session, session)) return refuse(step, "idempotency_mismatch");
  step.facts.push(acceptWithSession({ sessionId }));
}
