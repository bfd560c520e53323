/** What a floor handles without moving a session by a decision: flags, stops, numbers, and what its session gets. */

import { findAgent } from "../../config/catalog/catalog.ts";
import { MAX_FLAGS } from "../../protocol/floor.ts";
import { type AgentId, type SessionId, userOf } from "../../protocol/ids.ts";
import type { Command, CommandOf } from "../../protocol/internal/command.ts";
import { accept, type Given } from "../facts.ts";
import { type ArbiterStep, currentRules, emitFloor, floorLanguageOf, refuse } from "./arbiter-step.ts";
import { decide } from "./arbitration.ts";
import { type Contender, numbersOf, withNumbers } from "./contender.ts";
import { findSchedule, replace } from "./creation.ts";
import { everyone, plainContender } from "./floor-state.ts";
import { renumber } from "./rearrangement.ts";

/** The what-if of an agent that is unknown or disabled. That of any other is found on a copy of the floor. */
export function refuseAgent(step: ArbiterStep, agentId: string, locale: string | undefined): void {
  const agent = step.given.catalog.agents.get(agentId);
  const unknown = { agentId: agentId as AgentId, priority: 0, interruptible: true, explained: [] };
  const numbers = { ...(agent ? numbersOf(step, agent) : unknown), ...floorLanguageOf({ locale }) };
  const decision = decide(step.floor, { ...numbers, agent, waits: "queued" }, currentRules(step));
  step.facts.push(accept({ decision }));
}

/** Archive the sessions, which are the answer. */
export function stopSessions(step: ArbiterStep, contenders: readonly Contender[]): void {
  const archived = contenders.map(({ sessionId }) => sessionId);
  step.facts.push(accept({ archived }));
  for (const to of archived) step.orders.push({ to, event: { type: "archive", reason: "stop", given: step.given } });
}

type CommandToSession = Exclude<
  Extract<Command, { sessionId?: SessionId | undefined }> & { given: Given },
  { type: "session.create" | "session.copy" | "session.move" | "floor.what_if" }
>;

export function pass(step: ArbiterStep, command: CommandToSession): void {
  const sessionId = command.sessionId!;
  const session = step.sessions.sessionOf(sessionId);
  if (!session) {
    // A worker that still drives a run of a deleted session must stop.
    const isRun = command.type.startsWith("run.");
    if (!isRun) return refuse(step, "session_not_found");
    return void step.facts.push(accept({ directive: { verdict: "stop", answers: [] } }));
  }
  if (command.type === "session.replace") {
    step.facts.push(accept({ sessionId }));
    return replace(step, sessionId, command.by, command.movedTo);
  }
  if (command.type === "session.schedule") {
    const agent = step.given.catalog.agents.get(session.numbers.agentId);
    if (findSchedule(step, command.schedule, session, agent) === "refused") return;
  }
  if (command.type === "session.switch_agent") {
    const agent = findAgent(step.given.catalog, command.agentId.trim(), session.workspaceId);
    const contender = agent && withNumbers(session.numbers, numbersOf(step, agent));
    return void step.orders.push({ to: sessionId, event: { ...command, ...(contender && { contender }) } });
  }
  step.orders.push({ to: sessionId, event: command });
  if (command.type !== "session.delete") return;
  step.orders.push({ stop: sessionId });
  // A floor of a single session is deleted with it, so that a later session with the same id inherits nothing.
  if (userOf(step.floorId) !== undefined || Object.keys(step.flags).length === 0) return;
  step.flags = {};
  emitFloor(step);
}

export function setFlags(step: ArbiterStep, flags: Record<string, boolean>): void {
  step.flags = flags;
  emitFloor(step);
  step.facts.push(accept({ flags }));
}

export function patchFlags(step: ArbiterStep, { flags }: CommandOf<"floor.patch_flags">): void {
  const all = { ...step.flags, ...flags };
  if (Object.keys(all).length > MAX_FLAGS) {
    const issues = [{ path: "body", message: `the floor would have more than ${MAX_FLAGS} flags` }];
    return refuse(step, "bad_request", { facts: { issues } });
  }
  setFlags(step, all);
}

/** A session has switched its agent: the floor settles with the new numbers. */
export function switchNumbers(step: ArbiterStep, contender: Contender): void {
  const { sessionId: id, askedAt: _a, finishes: _f, ...numbers } = contender;
  step.floor = renumber(step.floor, ({ sessionId }) => (sessionId === id ? numbers : undefined));
}

/**
 * Rule N: the catalogue was replaced. Every contender gets the numbers that a request would give it now, except if its
 * agent does not answer.
 */
export function renumberAll(step: ArbiterStep): void {
  const { given } = step;
  const before = everyone(step.floor);
  step.floor = renumber(step.floor, ({ agentId }) => {
    const agent = given.catalog.agents.get(agentId);
    return agent?.enabled ? numbersOf(step, agent) : undefined;
  });
  for (const [index, contender] of everyone(step.floor).entries()) {
    if (JSON.stringify(contender) === JSON.stringify(before[index])) continue;
    const event = { type: "renumber", contender: plainContender(contender), given } as const;
    step.orders.push({ to: contender.sessionId, event });
  }
}
