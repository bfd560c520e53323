import {
  type AgentEntry,
  type Catalog,
  type Policy,
  type Restriction,
  restrictionsBy,
} from "../../config/catalog/catalog.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { Claim, DuckedClaim, Numbers, QueuedClaim } from "./claim.ts";

/** `since`: when it began, in the floor's time. `until`: when its session is woken, in ms since 1970, for readers. */
export interface ReservedFloor {
  readonly sessionId: SessionId;
  readonly since: number;
  readonly until: number;
}

/** The sessions that compete for one floor. At most one `holder`, and none while the floor is `reserved`. */
export interface Floor {
  readonly holder?: Claim | undefined;
  /** The session that will be woken after `resume_delay`. It is still listed in `ducked`, `paused` or `queued`. */
  readonly reserved?: ReservedFloor | undefined;
  /**
   * The sessions audible beneath the holder, highest priority first. Without a holder, only while the floor is
   * reserved.
   */
  readonly ducked: readonly DuckedClaim[];
  /** The preempted sessions, most recently paused first. */
  readonly paused: readonly Claim[];
  /** The sessions that wait, longest waiting first. */
  readonly queued: readonly QueuedClaim[];
}

export const EMPTY_FLOOR: Floor = { ducked: [], paused: [], queued: [] };

/** The rules of a floor: the catalogue, and the restrictions that are in force. */
export interface FloorRules {
  readonly policy: Policy;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly restrictions: readonly Restriction[];
}

/** The rules of a floor with these flags. */
export function rulesOf(catalog: Catalog, flags: Readonly<Record<string, boolean>>): FloorRules {
  const { policy, agents } = catalog;
  return { policy, agents, restrictions: restrictionsBy(catalog, flags) };
}

/** The sessions that are audible, the holder first. */
export function audible({ holder, ducked }: Floor): Claim[] {
  return holder ? [holder, ...ducked] : [...ducked];
}

/** All competing sessions: the holder, then ducked, paused and queued sessions. */
export function everyone(floor: Floor): Claim[] {
  return [...audible(floor), ...floor.paused, ...floor.queued];
}

/** The claim as `holder` and `paused` store it: without what the other lists add. */
export function storedClaim(claim: Claim): Claim {
  const { level: _l, queuedAt: _q, wants: _w, ...rest } = claim as DuckedClaim & QueuedClaim;
  return rest;
}

/** The floor without these sessions. */
export function without(floor: Floor, sessionIds: readonly SessionId[]): Floor {
  const gone = new Set(sessionIds);
  const stays = (claim: Claim) => !gone.has(claim.sessionId);
  return {
    ...floor,
    holder: floor.holder && stays(floor.holder) ? floor.holder : undefined,
    ducked: floor.ducked.filter(stays),
    paused: floor.paused.filter(stays),
    queued: floor.queued.filter(stays),
  };
}

/** The claim of the session for which the floor is reserved. */
export function reservedClaim({ reserved, ducked, paused, queued }: Floor): Claim | undefined {
  return reserved && [...ducked, ...paused, ...queued].find((claim) => claim.sessionId === reserved.sessionId);
}

/** Whether a session with these numbers ends the other one when it gets a place that excludes it (rule R). */
export function replaces(
  { agentId, priority }: Numbers,
  other: Claim,
  { agents }: Pick<FloorRules, "agents">,
): boolean {
  return other.priority <= priority && agents.get(agentId)?.replaces.includes(other.agentId) === true;
}

/** The restriction that keeps a session from coming up; none for critical sessions. */
export function restrictionOn(
  { agentId, critical }: Pick<Claim, "agentId" | "critical">,
  { restrictions }: Pick<FloorRules, "restrictions">,
): Restriction | undefined {
  return critical ? undefined : restrictions.find(({ allow }) => !allow.includes(agentId));
}

/** Rule E: whether a silent session may come up: its agent answers, and no restriction forbids it. */
export function isEligible(claim: Claim, rules: FloorRules): boolean {
  return rules.agents.get(claim.agentId)?.enabled === true && !restrictionOn(claim, rules);
}

/** Whether a preempted session resumes by itself. */
export function comesBack(claim: Claim, rules: FloorRules): boolean {
  const isWanted = claim.critical || claim.wants || rules.agents.get(claim.agentId)?.resume !== "manual";
  return isWanted && isEligible(claim, rules);
}
