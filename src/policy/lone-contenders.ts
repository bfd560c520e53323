import { decide } from "../actors/floor/arbitration.ts";
import { type Contender, numbersOfAgent } from "../actors/floor/contender.ts";
import { EMPTY_FLOOR, type FloorRules } from "../actors/floor/floor-state.ts";
import type { AgentEntry } from "../config/catalog/catalog.ts";
import type { Decision } from "../protocol/decision.ts";
import type { SessionId } from "../protocol/ids.ts";

/** A session as it competes with its agent's own priority, without rules and users' overrides. */
export function loneContenderOf(agent: AgentEntry, sessionId: string, askedAt = 1): Contender {
  return {
    ...numbersOfAgent(agent, { value: agent.priority, explained: [] }),
    sessionId: sessionId as SessionId,
    askedAt,
  };
}

/** The decision if a session of one agent requests the floor while one of another holds it, alone. */
export function decideAlone(holder: Contender, challenger: Contender, agent: AgentEntry, rules: FloorRules): Decision {
  return decide({ ...EMPTY_FLOOR, holder }, { ...challenger, agent, waits: "queued" }, rules);
}
