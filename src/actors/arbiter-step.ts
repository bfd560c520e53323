import type { AgentEntry } from "../config/catalog.ts";
import type { Decision } from "../protocol/decision.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import { type FloorId, type SessionId, userOf } from "../protocol/ids.ts";
import type { Claim, Floor } from "./arbitration.ts";
import type { Fact, Given } from "./facts.ts";
import { effectivePriority } from "./priority.ts";
import type { SessionInput } from "./session.ts";
import type { SessionContext } from "./session-context.ts";
import type { SessionEvent } from "./session-step.ts";

/** What a floor remembers. */
export interface ArbiterContext {
  floorId: FloorId;
  floor: Floor;
  /** Context flags that `priority_rules` look at. */
  flags: Record<string, boolean>;
}

/** What one event makes of a floor, before any of it is so. Steps edit it; the machine carries it out. */
export interface ArbiterStep {
  readonly given: Given;
  readonly floorId: FloorId;
  floor: Floor;
  flags: Record<string, boolean>;
  /** A session that is among the actors. */
  readonly sessionOf: (sessionId: SessionId) => SessionContext | undefined;
  /** In the order in which they are to happen. */
  readonly deeds: Deed[];
}

export type Deed =
  | { facts: Fact[] }
  | { spawn: SessionInput }
  | { to: SessionId; event: SessionEvent }
  | { stop: SessionId };

/** Facts that follow one another are one deed. */
export function tell(step: ArbiterStep, fact: Fact): void {
  const last = step.deeds.at(-1);
  if (last && "facts" in last) last.facts.push(fact);
  else step.deeds.push({ facts: [fact] });
}

export const send = (step: ArbiterStep, to: SessionId, event: SessionEvent) => step.deeds.push({ to, event });

export function refuse(step: ArbiterStep, code: ErrorCode, facts?: Record<string, unknown>, message?: string): void {
  tell(step, {
    type: "reply",
    reply: { ok: false, code, ...(message !== undefined && { message }), ...(facts && { facts }) },
  });
}

/** The numbers an agent would compete with on this floor now. */
export function numbersOf(step: ArbiterStep, agent: AgentEntry): Omit<Claim, "sessionId"> {
  const { given, flags, floorId } = step;
  const context = { now: given.now, userId: userOf(floorId), flags };
  const { value, explained } = effectivePriority(agent, given.catalog, context);
  const { interruptible, preemptionThreshold } = agent;
  return { agentId: agent.id, priority: value, interruptible, preemptionThreshold, explained };
}

/** Log a decision; `sessionId` only where that session exists afterwards. */
export function log(step: ArbiterStep, decision: Decision, sessionId?: SessionId): void {
  if (decision.reason === "already_holder") return;
  tell(step, { type: "event", event: { type: "arbitration", data: decision, ...(sessionId && { sessionId }) } });
}
