import type { AgentEntry, Policy, Restriction } from "../../config/catalog/catalog.ts";
import type { Decision, Reason } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import { type Arrangement, arrange, type Joined, join } from "./audible-together.ts";
import type { Contender, DuckedContender, Numbers } from "./contender.ts";
import {
  audible,
  endsOthers,
  everyone,
  type Floor,
  type FloorRules,
  replaces,
  reservedContender,
  restrictionOn,
  startsBeneath,
} from "./floor-state.ts";
import { saying, wouldNeed } from "./sayings.ts";

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

/** A request while it is decided. */
interface Request {
  readonly floor: Floor;
  readonly challenger: Challenger;
  readonly rules: FloorRules;
  readonly record: ReturnType<typeof recorder>;
  /** The holder, or the session for which the floor is reserved. */
  readonly front: Contender | undefined;
  /** Whether a session is another one, and a grant does not end it. */
  readonly stays: (contender: Contender) => boolean;
  /** What the audible sessions become if the challenger comes to the front. */
  readonly beneath: Arrangement;
}

/** Why a challenger is blocked, by which rule, and by which session. */
type Obstacle = [reason: Reason, rule: number, by: Contender];

/**
 * Decide a request for the floor. Pure: same floor, same request, same answer. The first rule that applies decides.
 * The rules, their numbers and their order: docs/use/arbitration.md.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the rules in a row, in the order of the page that documents them
export function decide(floor: Floor, challenger: Challenger, rules: FloorRules): Decision {
  const { agent, sessionId } = challenger;
  const { holder } = floor;
  const record = recorder(challenger, rules.agents);
  if (!agent) return record("rejected", "unknown_agent", 1);
  if (!agent.enabled) return record("rejected", "agent_disabled", 1);

  const reserved = reservedContender(floor);
  const front = reserved ?? holder;
  const stays = (other: Contender) => other.sessionId !== sessionId && !replaces(challenger, other, rules);
  const beneath = arrange(challenger, audible(floor).filter(stays));
  const request: Request = { floor, challenger, rules, record, front, stays, beneath };

  const own = everyone(floor).find((contender) => contender.sessionId === sessionId);
  const restriction = restrictionOn({ ...challenger, finishes: own?.finishes }, rules);
  if (restriction) return block(request, agent, "restricted", 9, undefined, restriction);
  if (reserved && (reserved.sessionId === sessionId || !whyFrontStays(request, reserved))) {
    const obstacle = whyReservationStays(request, reserved);
    return obstacle ? block(request, agent, ...obstacle) : record("granted", "floor_free", 2, reserved);
  }
  if (holder && holder.sessionId === sessionId) return record("granted", "already_holder", 3, holder);
  if (!front) return record("granted", "floor_free", 4);

  const isHolderDucked = beneath.kept.some((kept) => kept.sessionId === front.sessionId);
  if (challenger.critical) {
    return front.critical && front.priority >= challenger.priority
      ? record("granted", "beneath", 12, front, { level: 0 })
      : record("granted", "critical", 10, front, { isHolderDucked });
  }
  const isReplaced = replaces(challenger, front, rules);
  const obstacle = (isReplaced ? undefined : whyFrontStays(request, front)) ?? whyOthersStay(request, front);
  if (obstacle) return block(request, agent, ...obstacle);
  if (isReplaced) return record("granted", "replaced", 11, front);
  return record("granted", "preempted", 7, front, { isHolderDucked });
}

/** The challenger is blocked. Rule W: the ways of `when_blocked` are tried in order. */
function block(
  { floor, challenger, rules, record, front, stays }: Request,
  { whenBlocked }: AgentEntry,
  reason: Reason,
  rule: number,
  by?: Contender,
  restriction?: Restriction,
): Decision {
  const full = whyFull(floor, challenger, stays, rules.policy);
  // It would end at once.
  const mayWait = !restriction || !restrictionOn(challenger, { restrictions: rules.restrictions.filter(endsOthers) });
  for (const way of whenBlocked) {
    const joined = way === "duck" && front && !restriction && rankBeneath(floor, front, challenger, rules);
    if (joined) return record("granted", "beneath", 12, front, { level: joined.own.level });
    if (way === "queue" && mayWait && !full) return record("queued", reason, rule, by, { restriction });
  }
  const refusal = mayWait && whenBlocked.includes("queue") && full !== "never" && full ? full : reason;
  return record("rejected", refusal, rule, by, { restriction });
}

/** Rules 5 to 8, for a challenger that the floor is reserved for, or that outranks the session it is reserved for. */
function whyReservationStays(request: Request, reserved: Contender): Obstacle | undefined {
  const { challenger, rules, beneath } = request;
  // The reserved session itself is woken soon in any case.
  if (reserved.sessionId === challenger.sessionId) return findObstacle(challenger, beneath.silenced, rules.policy);
  return challenger.critical ? undefined : whyOthersStay(request, reserved);
}

/** Rules 5 and 6, for the front. They do not apply to a front that the challenger replaces (rule 11). */
function whyFrontStays({ challenger, rules }: Request, front: Contender): Obstacle | undefined {
  if (challenger.priority < front.priority || front.critical) return ["lower_priority", 5, front];
  return isTied(challenger, front, rules.policy) ? ["equal_priority", 6, front] : undefined;
}

/** Rules 5 to 8, for the sessions that would go silent. */
function whyOthersStay(request: Request, front: Contender): Obstacle | undefined {
  const { floor, challenger, rules, stays, beneath } = request;
  const { kept, silenced } = beneath;
  const heard = audible(floor);
  // A reserved session that is silent may return beneath the challenger.
  const mayReturn = floor.paused.includes(front) || startsBeneath(front, rules);
  const returns = mayReturn && returnBeneath(challenger, kept, front);
  const isLeftSilent = !heard.includes(front) && stays(front) && !returns;
  const obstacle = findObstacle(challenger, isLeftSilent ? [front, ...silenced] : silenced, rules.policy);
  if (obstacle) return obstacle;
  return kept.length > rules.policy.maxPaused ? ["stack_full", 7, front] : whyStackIsFull(request);
}

/** Rule 7: whether more sessions would be paused than may be. */
function whyStackIsFull({ floor, rules, stays, beneath }: Request): Obstacle | undefined {
  const [first] = beneath.silenced;
  if (!first) return undefined;
  const count = floor.paused.filter(stays).length + beneath.silenced.length;
  return count > rules.policy.maxPaused ? ["stack_full", 7, first] : undefined;
}

/** Check rules 5, 6 and 8 for each session that would go silent. Returns the first one that blocks the challenger. */
function findObstacle(challenger: Numbers, silenced: readonly Contender[], policy: Policy): Obstacle | undefined {
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

type Agents = ReadonlyMap<string, AgentEntry>;

/** What a record says besides its rule. */
interface Circumstances {
  /** At which the challenger starts beneath the holder, in dB. */
  readonly level?: number | undefined;
  readonly restriction?: Restriction | undefined;
  /** The holder goes on beneath the challenger instead of being paused. */
  readonly isHolderDucked?: boolean | undefined;
}

/** Creates the record of a decision about this challenger, as it is logged and answered. */
function recorder(challenger: Numbers & { sessionId?: SessionId | undefined }, agents: Agents) {
  const { agentId, locale } = challenger;
  return (
    outcome: Decision["outcome"],
    reason: Reason,
    rule?: number,
    holder?: Contender,
    { level, restriction, isHolderDucked = false }: Circumstances = {},
  ): Decision => {
    const needed = outcome === "granted" ? undefined : wouldNeed(reason, challenger, holder, restriction);
    return {
      outcome,
      reason,
      ...(rule !== undefined && { rule }),
      challenger: {
        ...(challenger.sessionId !== undefined && { sessionId: challenger.sessionId }),
        agentId,
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
        { outcome, reason, isHolderDucked, locale, challengerId: agentId, holderId: holder?.agentId },
        agents,
      ),
    };
  };
}

/** The record of a wake. The release caused it, and not a rule. */
export function wakeDecision(contender: Contender, reason: "resumed" | "dequeued", agents: Agents): Decision {
  return recorder(contender, agents)("granted", reason);
}

/** The record of a session that is heard beneath the holder although it was to wait; undefined if it is not. */
export function beneathDecision(
  { holder, ducked }: Floor,
  sessionId: SessionId | undefined,
  agents: Agents,
): Decision | undefined {
  const own = ducked.find((contender) => contender.sessionId === sessionId);
  return own && recorder(own, agents)("granted", "beneath", 12, holder, { level: own.level });
}

/** The record of a wait that ended without a grant. */
export function endOfWaitDecision(
  contender: Contender,
  holder: Contender | undefined,
  agents: Agents,
  reason: "queue_timeout" | "lease_expired",
): Decision {
  return recorder(contender, agents)("rejected", reason, undefined, holder);
}
