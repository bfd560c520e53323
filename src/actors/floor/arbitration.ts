import {
  type AgentEntry,
  type Catalog,
  type Policy,
  type Restriction,
  restrictionsBy,
} from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { arrange, joinBeneath } from "./arrangement.ts";
import type { Claim, DuckedClaim, QueuedClaim } from "./claim.ts";
import { saying, wouldNeed } from "./sayings.ts";

/** `since`: when it began, in the floor's time. `until`: when its session is woken, in ms since 1970, for readers. */
export interface ReservedFloor {
  readonly sessionId: SessionId;
  readonly since: number;
  readonly until: number;
}

/** The sessions that compete for one floor. At most one `holder`, and none while the floor is `reserved`. */
export interface Floor {
  readonly holder?: Claim | undefined;
  /** The session that will be woken after `resume_delay`. It is still listed in `paused` or `queued`. */
  readonly reserved?: ReservedFloor | undefined;
  /**
   * The sessions heard beneath the holder, highest priority first. Without a holder, only while the floor is reserved.
   */
  readonly ducked: readonly DuckedClaim[];
  /** The preempted sessions, most recently paused first. */
  readonly paused: readonly Claim[];
  /** The sessions that wait, longest waiting first. */
  readonly queued: readonly QueuedClaim[];
}

export const EMPTY_FLOOR: Floor = { ducked: [], paused: [], queued: [] };

/** The session that requests the floor. `sessionId` is absent in a what-if. */
export interface Challenger extends Omit<Claim, "sessionId"> {
  readonly sessionId?: SessionId | undefined;
  /** The catalogue's entry; absent when the agent has left the catalogue. */
  readonly agent: AgentEntry | undefined;
  /** Whether it is queued when it is blocked. An explicit resume is never queued. */
  readonly mayQueue: boolean;
}

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

/**
 * Decide a request for the floor. Pure: same floor, same request, same answer.
 * The rules, their numbers and their order: docs/arbitration.md.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a table of rules, in the order of the page that documents them
export function decide(floor: Floor, challenger: Challenger, rules: FloorRules): Decision {
  const { agent, priority } = challenger;
  const { policy, agents } = rules;
  const decision = recorder(challenger, agents);
  if (!agent) return decision("rejected", "unknown_agent", 1);
  if (!agent.enabled) return decision("rejected", "agent_disabled", 1);
  const restriction = restrictionOn(challenger, rules);
  if (restriction) return decision("rejected", "restricted", 9, undefined, { restriction });

  const reserved = reservedClaim(floor);
  const front = reserved ?? floor.holder;
  const blocked = (reason: Reason, rule: number, by: Claim): Decision => {
    if (agent.whenBlocked === "duck") {
      const level = startLevel(floor, front!, challenger, policy);
      if (level !== undefined) return decision("granted", "beneath", 12, front, { level });
    }
    if (!challenger.mayQueue || agent.whenBlocked !== "queue") return decision("rejected", reason, rule, by);
    if (floor.queued.length >= policy.maxQueued) return decision("rejected", "queue_full", rule, by);
    return decision("queued", reason, rule, by);
  };

  const others = heard(floor).filter((claim) => claim.sessionId !== challenger.sessionId);
  const isReplaced = (claim: Claim) => replaces(agent, priority, claim);
  const { kept, silenced } = arrange(
    challenger,
    others.filter((claim) => !isReplaced(claim)),
  );
  const overflows = () => {
    const stays = (claim: Claim) => claim.sessionId !== challenger.sessionId && !isReplaced(claim);
    return silenced.length > 0 && floor.paused.filter(stays).length + silenced.length > policy.maxPaused;
  };
  if (reserved && (reserved.sessionId === challenger.sessionId || outranks(challenger, reserved, policy))) {
    const obstacle = findObstacle(challenger, silenced, policy);
    if (obstacle) return blocked(...obstacle);
    // The reserved session itself is woken soon in any case, and a critical one is never blocked.
    const isBounded = reserved.sessionId !== challenger.sessionId && !challenger.critical;
    if (isBounded && overflows()) return blocked("stack_full", 7, silenced[0]!);
    return decision("granted", "floor_free", 2, reserved);
  }
  if (floor.holder && floor.holder.sessionId === challenger.sessionId) {
    return decision("granted", "already_holder", 3, floor.holder);
  }
  if (!front) return decision("granted", "floor_free", 4);
  const isHolderDucked = kept.some(({ sessionId }) => sessionId === front.sessionId);
  if (challenger.critical) {
    if (!front.critical || front.priority < priority) {
      return decision("granted", "critical", 10, front, { isHolderDucked });
    }
    return decision("granted", "beneath", 12, front, { level: 0 });
  }
  if (!isReplaced(front)) {
    if (priority < front.priority || front.critical) return blocked("lower_priority", 5, front);
    if (priority === front.priority && policy.ties === "reject") return blocked("equal_priority", 6, front);
  }
  const staysSilent = reserved && !isReplaced(reserved) && !comesBackBeneath(floor, challenger, kept, reserved);
  const obstacle = findObstacle(challenger, staysSilent ? [reserved, ...silenced] : silenced, policy);
  if (obstacle) return blocked(...obstacle);
  if (kept.length > policy.maxPaused) return blocked("stack_full", 7, front);
  if (overflows()) return blocked("stack_full", 7, silenced[0]!);
  if (isReplaced(front)) return decision("granted", "replaced", 11, front);
  return decision("granted", "preempted", 7, front, { isHolderDucked });
}

/** Check rules 5, 6 and 8 for each session that would go silent. Returns the first one that blocks the challenger. */
function findObstacle(
  challenger: Challenger,
  silenced: readonly Claim[],
  policy: Policy,
): [reason: Reason, rule: number, by: Claim] | undefined {
  for (const claim of silenced) {
    if (challenger.critical) return undefined;
    if (challenger.priority < claim.priority) return ["lower_priority", 5, claim];
    if (challenger.priority === claim.priority && policy.ties === "reject") return ["equal_priority", 6, claim];
    if (!yieldsTo(claim, challenger)) return ["not_interruptible", 8, claim];
  }
  return undefined;
}

/** Whether `holder` may be paused by a challenger of this priority (invariant 2). */
function yieldsTo(holder: Claim, challenger: { priority: number }): boolean {
  if (holder.interruptible) return true;
  return holder.preemptionThreshold !== undefined && challenger.priority >= holder.preemptionThreshold;
}

/** Rule 2: a session that is about to resume is not paused again, so only the priority counts. */
function outranks(challenger: { priority: number }, reserved: Claim, policy: Policy): boolean {
  if (challenger.priority > reserved.priority) return true;
  return policy.ties === "newest" && challenger.priority === reserved.priority && yieldsTo(reserved, challenger);
}

/** Whether a session of this agent ends the other one when it becomes the holder (rule 11). */
export function replaces(agent: AgentEntry | undefined, priority: number, other: Claim): boolean {
  if (!agent) return false;
  return agent.replaces.includes(other.agentId) && other.priority <= priority;
}

/** The restriction that keeps a session from being heard; critical sessions are always heard. */
export function restrictionOn(
  { agentId, critical }: Pick<Claim, "agentId" | "critical">,
  { restrictions }: FloorRules,
): Restriction | undefined {
  return critical ? undefined : restrictions.find(({ allow }) => !allow.includes(agentId));
}

/** The sessions that are heard, the holder first. */
export function heard({ holder, ducked }: Floor): Claim[] {
  return holder ? [holder, ...ducked] : [...ducked];
}

/** Rule 12: the level at which a blocked challenger can start beneath the holder without silencing any session. */
function startLevel(floor: Floor, front: Claim, challenger: Challenger, policy: Policy): number | undefined {
  if (floor.ducked.length >= policy.maxPaused) return undefined;
  if (floor.ducked.some(({ sessionId }) => sessionId === challenger.sessionId)) return undefined;
  // A placeholder id for the session of a what-if, which does not exist.
  const claim: Claim = { ...challenger, sessionId: challenger.sessionId ?? ("" as SessionId) };
  const below = floor.ducked.filter(({ sessionId }) => sessionId !== front.sessionId);
  return joinBeneath(front, below, claim)?.find(({ sessionId }) => sessionId === claim.sessionId)?.level;
}

/**
 * Whether the reserved session is heard after the challenger is granted: it is ducked already, or it was paused and can
 * return beneath the challenger.
 */
function comesBackBeneath(
  { ducked, paused }: Floor,
  challenger: Challenger,
  kept: readonly DuckedClaim[],
  reserved: Claim,
): boolean {
  if (ducked.some(({ sessionId }) => sessionId === reserved.sessionId)) return true;
  return paused.includes(reserved) && joinBeneath(challenger, kept, reserved) !== undefined;
}

/** The claim of the session for which the floor is reserved. */
export function reservedClaim({ reserved, ducked, paused, queued }: Floor): Claim | undefined {
  return reserved && [...ducked, ...paused, ...queued].find((claim) => claim.sessionId === reserved.sessionId);
}

export interface Successor {
  readonly claim: Claim;
  readonly reason: "resumed" | "dequeued";
}

/**
 * Choose the session that gets a free floor: the highest priority among ducked sessions, preempted sessions whose agent
 * resumes by itself, and queued sessions. Equals rank in this order; among paused sessions the most recently paused
 * comes first, among queued sessions the longest waiting. Excludes sessions that a restriction forbids, and sessions
 * that would silence a session that is heard and does not yield.
 */
export function successor(floor: Floor, rules: FloorRules): Successor | undefined {
  let best: Successor | undefined;
  const consider = (claim: Claim, reason: Successor["reason"]) => {
    if (best && claim.priority <= best.claim.priority) return;
    if (restrictionOn(claim, rules) || !mayComeForward(floor, claim)) return;
    best = { claim, reason };
  };
  for (const claim of floor.ducked) consider(claim, "resumed");
  for (const claim of floor.paused) if (returnsByItself(claim, rules)) consider(claim, "resumed");
  for (const claim of floor.queued) consider(claim, "dequeued");
  return best;
}

/** Whether a preempted session resumes by itself. */
export function returnsByItself({ agentId }: Claim, { agents }: FloorRules): boolean {
  return agents.get(agentId)?.resume !== "manual";
}

function mayComeForward(floor: Floor, claim: Claim): boolean {
  if (floor.ducked.length === 0) return true;
  const others = floor.ducked.filter(({ sessionId }) => sessionId !== claim.sessionId);
  return arrange(claim, others).silenced.every((silenced) => yieldsTo(silenced, claim));
}

/** The record of a wake. The release caused it, and not a rule. */
export function wakeDecision({ claim, reason }: Successor, agents: ReadonlyMap<string, AgentEntry>): Decision {
  return recorder(claim, agents)("granted", reason);
}

/** The record of a wait that ended without a grant. */
export function endOfWaitDecision(
  claim: Claim,
  holder: Claim | undefined,
  agents: ReadonlyMap<string, AgentEntry>,
  reason: "queue_timeout" | "lease_expired",
): Decision {
  return recorder(claim, agents)("rejected", reason, undefined, holder);
}

type Agents = ReadonlyMap<string, AgentEntry>;

/** What a record says besides its rule. */
interface Circumstances {
  /** At which the challenger starts beneath the holder, in dB. */
  readonly level?: number;
  readonly restriction?: Restriction;
  /** The holder goes on beneath the challenger instead of being paused. */
  readonly isHolderDucked?: boolean;
}

/** Creates the record of a decision about this challenger. */
function recorder(challenger: Omit<Claim, "sessionId"> & { sessionId?: SessionId | undefined }, agents: Agents) {
  return (
    outcome: Decision["outcome"],
    reason: Reason,
    rule?: number,
    holder?: Claim,
    { level, restriction, isHolderDucked = false }: Circumstances = {},
  ): Decision => {
    const needed = outcome === "granted" ? undefined : wouldNeed(reason, challenger.agentId, holder, restriction);
    return {
      outcome,
      reason,
      ...(rule !== undefined && { rule }),
      challenger: {
        ...(challenger.sessionId !== undefined && { sessionId: challenger.sessionId }),
        agentId: challenger.agentId,
        priority: challenger.priority,
        explained: [...challenger.explained],
      },
      ...(holder && {
        holder: {
          sessionId: holder.sessionId,
          agentId: holder.agentId,
          priority: holder.priority,
          interruptible: holder.interruptible,
        },
      }),
      ...(needed !== undefined && { wouldNeed: needed }),
      ...(level !== undefined && { level }),
      say: saying(
        {
          ...{ outcome, reason, isHolderDucked, locale: challenger.locale },
          ...{ challengerId: challenger.agentId, holderId: holder?.agentId },
        },
        agents,
      ),
    };
  };
}
