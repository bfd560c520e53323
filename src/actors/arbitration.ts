import type { AgentEntry, Policy } from "../config/catalog.ts";
import type { Decision, PriorityStep, Reason } from "../protocol/decision.ts";
import type { AgentId, EffectId, SessionId } from "../protocol/ids.ts";

/** The numbers a session competes with: computed when it asked, kept until it asks again. */
export interface Claim {
  readonly sessionId: SessionId;
  readonly agentId: AgentId;
  readonly priority: number;
  readonly interruptible: boolean;
  readonly preemptionThreshold?: number | undefined;
  readonly explained: readonly PriorityStep[];
}

/** A session that waits for its first grant. */
export interface QueuedClaim extends Claim {
  readonly queuedAt: number;
  readonly timerId?: EffectId | undefined;
}

/** Who competes for one floor. At most one `holder`, and none while the floor is `reserved`. */
export interface Floor {
  readonly holder?: Claim | undefined;
  /** Who is about to be woken, after `resume_delay`; it still stands in `paused` or `queued`. */
  readonly reserved?: { readonly sessionId: SessionId; readonly timerId: EffectId } | undefined;
  /** Those that were preempted; the one paused last comes first. */
  readonly paused: readonly Claim[];
  /** The one that has waited longest comes first. */
  readonly queued: readonly QueuedClaim[];
}

export const EMPTY_FLOOR: Floor = { paused: [], queued: [] };

/** Who asks. `sessionId` is absent in a what-if. */
export interface Challenger extends Omit<Claim, "sessionId"> {
  readonly sessionId?: SessionId | undefined;
  /** The catalogue's entry; absent when the agent has left the catalogue. */
  readonly agent: AgentEntry | undefined;
  /** May it wait when it is blocked? An explicit resume may not. */
  readonly mayQueue: boolean;
}

/**
 * Decide a request for the floor. Pure: same floor, same request, same answer.
 * The rules, their numbers and their order: docs/arbitration.md.
 */
export function decide(
  floor: Floor,
  challenger: Challenger,
  policy: Policy,
  agents: ReadonlyMap<string, AgentEntry>,
): Decision {
  const told = teller(challenger, agents);
  if (!challenger.agent) return told("rejected", "unknown_agent", 1);
  if (!challenger.agent.enabled) return told("rejected", "agent_disabled", 1);

  const blocked = (reason: Reason, rule: number, holder: Claim): Decision => {
    if (!challenger.mayQueue || challenger.agent!.whenBlocked !== "queue")
      return told("rejected", reason, rule, holder);
    if (floor.queued.length >= policy.maxQueued) return told("rejected", "queue_full", rule, holder);
    return told("queued", reason, rule, holder);
  };

  const reserved = floor.reserved && claimOf(floor, floor.reserved.sessionId);
  if (reserved && (reserved.sessionId === challenger.sessionId || outranks(challenger, reserved, policy))) {
    return told("granted", "floor_free", 2, reserved);
  }
  if (floor.holder && floor.holder.sessionId === challenger.sessionId) {
    return told("granted", "already_holder", 3, floor.holder);
  }
  const holder = reserved ?? floor.holder;
  if (!holder) return told("granted", "floor_free", 4);
  if (challenger.priority < holder.priority) return blocked("lower_priority", 5, holder);
  if (challenger.priority === holder.priority && policy.ties === "reject") return blocked("equal_priority", 6, holder);
  if (yieldsTo(holder, challenger)) {
    const pausedAfterwards = floor.paused.filter((claim) => claim.sessionId !== challenger.sessionId).length + 1;
    if (pausedAfterwards > policy.maxPaused) return blocked("stack_full", 7, holder);
    return told("granted", "preempted", 7, holder);
  }
  return blocked("not_interruptible", 8, holder);
}

/** Whether `holder` may be paused by a challenger of this priority (invariant 2). */
function yieldsTo(holder: Claim, challenger: { priority: number }): boolean {
  if (holder.interruptible) return true;
  return holder.preemptionThreshold !== undefined && challenger.priority >= holder.preemptionThreshold;
}

/** Rule 2: what is about to resume is not paused a second time, so only rank counts. */
function outranks(challenger: { priority: number }, reserved: Claim, policy: Policy): boolean {
  if (challenger.priority > reserved.priority) return true;
  return policy.ties === "newest" && challenger.priority === reserved.priority && yieldsTo(reserved, challenger);
}

function claimOf(floor: Floor, sessionId: SessionId): Claim | undefined {
  const isIt = (claim: Claim) => claim.sessionId === sessionId;
  return floor.paused.find(isIt) ?? floor.queued.find(isIt);
}

export interface Successor {
  readonly claim: Claim;
  readonly reason: "resumed" | "dequeued";
}

/**
 * Who gets a floor that became free: the highest priority among those paused by preemption whose agent resumes by
 * itself and those queued. Between equals a paused one before a queued one; among paused the one paused last, among
 * queued the one that has waited longest.
 */
export function successor(floor: Floor, agents: ReadonlyMap<string, AgentEntry>): Successor | undefined {
  let best: Successor | undefined;
  for (const claim of floor.paused) {
    if (agents.get(claim.agentId)?.resume === "manual") continue;
    if (!best || claim.priority > best.claim.priority) best = { claim, reason: "resumed" };
  }
  for (const claim of floor.queued) {
    if (!best || claim.priority > best.claim.priority) best = { claim, reason: "dequeued" };
  }
  return best;
}

/** The record of a wake: no rule decides it, the release does. */
export function wakeDecision({ claim, reason }: Successor, agents: ReadonlyMap<string, AgentEntry>): Decision {
  return teller(claim, agents)("granted", reason);
}

/** The record of a wait that ran out. */
export function queueTimeoutDecision(
  claim: Claim,
  holder: Claim | undefined,
  agents: ReadonlyMap<string, AgentEntry>,
): Decision {
  return teller(claim, agents)("rejected", "queue_timeout", undefined, holder);
}

type Agents = ReadonlyMap<string, AgentEntry>;

function teller(challenger: Omit<Claim, "sessionId"> & { sessionId?: SessionId | undefined }, agents: Agents) {
  return (outcome: Decision["outcome"], reason: Reason, rule?: number, holder?: Claim): Decision => {
    const wouldNeed = holder && outcome !== "granted" ? needed(reason, holder) : undefined;
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
      ...(wouldNeed !== undefined && { wouldNeed }),
      say: sentence(outcome, reason, challenger.agentId, holder?.agentId, agents),
    };
  };
}

function needed(reason: Reason, holder: Claim): string | undefined {
  const rank = `priority > ${holder.priority}`;
  const threshold = `priority ≥ ${holder.agentId}'s preemption_threshold (${holder.preemptionThreshold ?? "none is set"})`;
  switch (reason) {
    case "lower_priority":
    case "equal_priority":
      return holder.interruptible ? rank : `${rank} and ${threshold}`;
    case "not_interruptible":
      return threshold;
    case "stack_full":
      return "fewer paused sessions than max_paused";
    case "queue_full":
      return "fewer queued sessions than max_queued";
    default:
      return undefined;
  }
}

type Saying = keyof AgentEntry["messages"];

/** Which agent's own template is asked first, and what is said when it has none. */
function sentence(
  outcome: Decision["outcome"],
  reason: Reason,
  challengerId: AgentId,
  holderId: AgentId | undefined,
  agents: Agents,
): string {
  const challenger = agents.get(challengerId);
  const holder = holderId === undefined ? undefined : agents.get(holderId);
  const [speaker, saying, fallback] = ((): [AgentEntry | undefined, Saying, string] => {
    if (reason === "unknown_agent") return [undefined, "rejected", "{challenger} is not available any more."];
    if (reason === "agent_disabled") return [undefined, "rejected", "{challenger} is switched off."];
    if (reason === "queue_timeout") return [undefined, "rejected", "{challenger} has waited too long."];
    if (reason === "stack_full")
      return [undefined, "rejected", "Too much is paused already; {challenger} has to wait."];
    if (reason === "queue_full") return [undefined, "rejected", "Too many are waiting already for {holder} to end."];
    if (outcome === "rejected") return [holder, "rejected", "{holder} is running; {challenger} has to wait."];
    if (outcome === "queued") return [holder, "queued", "{challenger} will start when {holder} is done."];
    if (reason === "preempted") return [holder, "preempted", "{holder} is paused for {challenger}."];
    if (reason === "resumed") return [challenger, "resumed", "{challenger} goes on."];
    if (reason === "already_holder") return [challenger, "granted", "{challenger} is running already."];
    return [challenger, "granted", "{challenger} starts."];
  })();
  const words: Record<string, string> = {
    challenger: challenger?.label ?? challengerId,
    "challenger.description": challenger?.description || (challenger?.label ?? challengerId),
    holder: holder?.label ?? holderId ?? "",
    "holder.description": holder?.description || (holder?.label ?? holderId ?? ""),
  };
  const template = speaker?.messages[saying] ?? fallback;
  return template.replace(/\{([a-z.]+)\}/g, (whole, name: string) => words[name] ?? whole);
}
