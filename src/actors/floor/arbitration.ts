import type { AgentEntry, Policy, Restriction } from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { arrange, type Joined, join } from "./audible-together.ts";
import type { Contender, DuckedContender, Numbers } from "./contender.ts";
import { recorder } from "./decision-record.ts";
import { audible, type Floor, type FloorRules, replaces, reservedContender, restrictionOn } from "./floor-state.ts";

/**
 * Where a session waits when it is blocked: a new session in the queue, a paused one at its rank; an audible one does
 * not wait.
 */
export type Waits = "queued" | "paused" | "never";

/** The session that requests the floor. `sessionId` is absent in a what-if. */
export interface Challenger extends Numbers {
  readonly sessionId?: SessionId | undefined;
  /** The catalogue's entry; absent when the agent has left the catalogue. */
  readonly agent: AgentEntry | undefined;
  readonly waits: Waits;
}

/**
 * Decide a request for the floor. Pure: same floor, same request, same answer.
 * The rules, their numbers and their order: docs/use/arbitration.md.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a table of rules, in the order of the page that documents them
export function decide(floor: Floor, challenger: Challenger, rules: FloorRules): Decision {
  const { agent, priority } = challenger;
  const { policy, agents } = rules;
  const { holder } = floor;
  const decision = recorder(challenger, agents);
  if (!agent) return decision("rejected", "unknown_agent", 1);
  if (!agent.enabled) return decision("rejected", "agent_disabled", 1);
  const reserved = reservedContender(floor);
  const front = reserved ?? holder;
  const stays = (contender: Contender) =>
    contender.sessionId !== challenger.sessionId && !replaces(challenger, contender, rules);

  /** Rule W: the ways of `when_blocked` are tried in order. */
  const blocked = (reason: Reason, rule: number, by?: Contender, restriction?: Restriction): Decision => {
    const full = whyFull(floor, challenger, stays, policy);
    for (const way of agent.whenBlocked) {
      const joined = way === "duck" && front && !restriction && rankBeneath(floor, front, challenger, rules);
      if (joined) return decision("granted", "beneath", 12, front, { level: joined.own.level });
      if (way === "queue" && !full) return decision("queued", reason, rule, by, { restriction });
    }
    const refusal = agent.whenBlocked.includes("queue") && full !== "never" && full ? full : reason;
    return decision("rejected", refusal, rule, by, { restriction });
  };

  const restriction = restrictionOn(challenger, rules);
  if (restriction && !goesOn(floor, challenger, restriction)) return blocked("restricted", 9, undefined, restriction);

  const { kept, silenced } = arrange(challenger, audible(floor).filter(stays));
  const overflows = () => silenced.length > 0 && floor.paused.filter(stays).length + silenced.length > policy.maxPaused;
  if (reserved && (reserved.sessionId === challenger.sessionId || outranks(challenger, reserved, policy))) {
    const obstacle = findObstacle(challenger, silenced, policy);
    if (obstacle) return blocked(...obstacle);
    // The reserved session itself is woken soon in any case, and a critical one is never blocked.
    const isBounded = reserved.sessionId !== challenger.sessionId && !challenger.critical;
    if (isBounded && overflows()) return blocked("stack_full", 7, silenced[0]!);
    return decision("granted", "floor_free", 2, reserved);
  }
  if (holder && holder.sessionId === challenger.sessionId) return decision("granted", "already_holder", 3, holder);
  if (!front) return decision("granted", "floor_free", 4);
  const isHolderDucked = kept.some(({ sessionId }) => sessionId === front.sessionId);
  if (challenger.critical) {
    if (!front.critical || front.priority < priority) {
      return decision("granted", "critical", 10, front, { isHolderDucked });
    }
    return decision("granted", "beneath", 12, front, { level: 0 });
  }
  const isReplaced = replaces(challenger, front, rules);
  if (!isReplaced) {
    if (priority < front.priority || front.critical) return blocked("lower_priority", 5, front);
    if (isTied(challenger, front, policy)) return blocked("equal_priority", 6, front);
  }
  // A reserved session that was paused may return beneath the challenger.
  const returns = reserved && floor.paused.includes(reserved) && returnBeneath(challenger, kept, reserved);
  const staysSilent = reserved && !isReplaced && !audible(floor).includes(reserved) && !returns;
  const obstacle = findObstacle(challenger, staysSilent ? [reserved, ...silenced] : silenced, policy);
  if (obstacle) return blocked(...obstacle);
  if (kept.length > policy.maxPaused) return blocked("stack_full", 7, front);
  if (overflows()) return blocked("stack_full", 7, silenced[0]!);
  if (isReplaced) return decision("granted", "replaced", 11, front);
  return decision("granted", "preempted", 7, front, { isHolderDucked });
}

/** Check rules 5, 6 and 8 for each session that would go silent. Returns the first one that blocks the challenger. */
function findObstacle(
  challenger: Numbers,
  silenced: readonly Contender[],
  policy: Policy,
): [reason: Reason, rule: number, by: Contender] | undefined {
  for (const contender of silenced) {
    if (challenger.critical) return undefined;
    if (challenger.priority < contender.priority) return ["lower_priority", 5, contender];
    if (isTied(challenger, contender, policy)) return ["equal_priority", 6, contender];
    if (!yieldsTo(contender, challenger)) return ["not_interruptible", 8, contender];
  }
  return undefined;
}

/** Rule 6: between equals the session that is audible stays, unless `ties` or its own `yields_to` says otherwise. */
function isTied(challenger: Numbers, contender: Contender, { ties }: Policy): boolean {
  return challenger.priority === contender.priority && ties === "reject" && !givesWay(contender, challenger);
}

/** Whether the contender's agent names the challenger's in `yields_to`. It gives way to at least its own priority. */
function givesWay(contender: Contender, { agentId, priority }: Numbers): boolean {
  return priority >= contender.priority && contender.yieldsTo?.includes(agentId) === true;
}

/** Rule 8: whether the session may be silenced by this challenger (invariant 2). */
export function yieldsTo(contender: Contender, challenger: Numbers): boolean {
  if (contender.interruptible || challenger.critical || givesWay(contender, challenger)) return true;
  return contender.preemptionThreshold !== undefined && challenger.priority >= contender.preemptionThreshold;
}

/** Rule 2: a session that is about to resume is not paused again, so only the priority counts. */
function outranks(challenger: Numbers, reserved: Contender, policy: Policy): boolean {
  if (challenger.priority > reserved.priority) return true;
  return (
    challenger.priority === reserved.priority && !isTied(challenger, reserved, policy) && yieldsTo(reserved, challenger)
  );
}

/** With `others: finish`, a session that is audible goes on, and may come to the front. */
function goesOn(floor: Floor, { sessionId }: Challenger, { others }: Restriction): boolean {
  return others === "finish" && audible(floor).some((contender) => contender.sessionId === sessionId);
}

/** Why a blocked challenger cannot wait; undefined if it can. A session that waits already stays in its list. */
function whyFull(
  { paused, queued }: Floor,
  { sessionId, waits }: Challenger,
  stays: (contender: Contender) => boolean,
  { maxPaused, maxQueued }: Policy,
): "never" | "stack_full" | "queue_full" | undefined {
  if (waits === "never") return waits;
  const [list, most, full] =
    waits === "paused" ? ([paused, maxPaused, "stack_full"] as const) : ([queued, maxQueued, "queue_full"] as const);
  const isWaiting = list.some((contender) => contender.sessionId === sessionId);
  return isWaiting || list.filter(stays).length < most ? undefined : full;
}

/**
 * Rules B and 12: the rank at which a session starts beneath the front, if all above allow it, and the sessions
 * below that go silent are outranked and yield. `sessionId` is absent in a what-if.
 */
export function rankBeneath(
  floor: Floor,
  front: Contender,
  challenger: Numbers & { readonly sessionId?: SessionId | undefined },
  rules: FloorRules,
): Joined | undefined {
  const { policy } = rules;
  const { sessionId = "" as SessionId, critical } = challenger;
  if (!critical && audible(floor).some((contender) => contender.sessionId === sessionId)) return undefined;
  const stays = (contender: Contender) => contender.sessionId !== sessionId && !replaces(challenger, contender, rules);
  const below = floor.ducked.filter((contender) => contender.sessionId !== front.sessionId && stays(contender));
  const isFree = (silenced: Contender) => !findObstacle(challenger, [silenced], policy);
  const start = (rank: "after" | "before") =>
    join(front, below, { askedAt: 0, ...challenger, sessionId }, isFree, rank);
  const joined = start("after") ?? (policy.ties === "newest" ? start("before") : undefined);
  if (!joined || critical) return joined;
  const { silenced } = joined;
  const overflows = silenced.length > 0 && floor.paused.filter(stays).length + silenced.length > policy.maxPaused;
  return overflows || below.length >= policy.maxPaused ? undefined : joined;
}

/** Rule B: the rank at which a silent session returns beneath the front. It silences only lower ones that yield. */
export function returnBeneath(
  front: Numbers,
  ducked: readonly DuckedContender[],
  contender: Contender,
): Joined | undefined {
  if (!contender.ducks && !contender.critical) return undefined;
  return join(front, ducked, contender, (silenced) => yieldsTo(silenced, contender));
}
