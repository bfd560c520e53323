import { decide } from "../actors/floor/arbitration.ts";
import { type Claim, numbersOfAgent } from "../actors/floor/claim.ts";
import { EMPTY_FLOOR, type FloorRules } from "../actors/floor/floor-claims.ts";
import type { AgentEntry } from "../config/catalog/catalog.ts";
import type { Decision } from "../protocol/decision.ts";
import type { SessionId } from "../protocol/ids.ts";

/** The claim of a session with its agent's own priority, without rules and users' overrides. */
export function loneClaimOf(agent: AgentEntry, sessionId: string, askedAt = 1): Claim {
  return {
    ...numbersOfAgent(agent, { value: agent.priority, explained: [] }),
    sessionId: sessionId as SessionId,
    askedAt,
  };
}

/** The decision if a session of one agent requests the floor while one of another holds it, alone. */
export function decideAlone(holder: Claim, challenger: Claim, agent: AgentEntry, rules: FloorRules): Decision {
  return decide({ ...EMPTY_FLOOR, holder }, { ...challenger, agent, waits: "queued" }, rules);
}
