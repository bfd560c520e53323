import type { Challenger } from "../../../src/actors/floor/arbitration.ts";
import type { Claim } from "../../../src/actors/floor/claim.ts";
import type { Floor, FloorRules } from "../../../src/actors/floor/floor-claims.ts";

/**
 * The rules from before several sessions could be heard together. A catalogue without the keys for ducking, critical
 * agents, restrictions and replacement must still follow them (invariant 12).
 */
export function decideAlone(
  floor: Floor,
  challenger: Challenger,
  { policy }: FloorRules,
): { outcome: string; reason: string; rule: number; by?: Claim } {
  const { agent, priority, sessionId } = challenger;
  if (!agent) return { outcome: "rejected", reason: "unknown_agent", rule: 1 };
  if (!agent.enabled) return { outcome: "rejected", reason: "agent_disabled", rule: 1 };
  const blocked = (reason: string, rule: number, by: Claim) => {
    if (challenger.waits !== "queued" || !agent.whenBlocked.includes("queue"))
      return { outcome: "rejected", reason, rule, by };
    if (floor.queued.length >= policy.maxQueued) return { outcome: "rejected", reason: "queue_full", rule, by };
    return { outcome: "queued", reason, rule, by };
  };
  const yields = (claim: Claim) =>
    claim.interruptible || (claim.preemptionThreshold !== undefined && priority >= claim.preemptionThreshold);
  const reserved =
    floor.reserved && [...floor.paused, ...floor.queued].find((claim) => claim.sessionId === floor.reserved?.sessionId);
  if (reserved) {
    const outranks =
      priority > reserved.priority || (policy.ties === "newest" && priority === reserved.priority && yields(reserved));
    if (reserved.sessionId === sessionId || outranks)
      return { outcome: "granted", reason: "floor_free", rule: 2, by: reserved };
  }
  if (floor.holder?.sessionId === sessionId && floor.holder)
    return { outcome: "granted", reason: "already_holder", rule: 3, by: floor.holder };
  const holder = reserved ?? floor.holder;
  if (!holder) return { outcome: "granted", reason: "floor_free", rule: 4 };
  if (priority < holder.priority) return blocked("lower_priority", 5, holder);
  if (priority === holder.priority && policy.ties === "reject") return blocked("equal_priority", 6, holder);
  if (!yields(holder)) return blocked("not_interruptible", 8, holder);
  const paused = floor.paused.filter((claim) => claim.sessionId !== sessionId).length + 1;
  return paused > policy.maxPaused
    ? blocked("stack_full", 7, holder)
    : { outcome: "granted", reason: "preempted", rule: 7, by: holder };
}
