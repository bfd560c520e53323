import { yieldsTo } from "./arbitration.ts";
import { arrange } from "./audible-together.ts";
import type { Claim } from "./claim.ts";
import { comesBack, type Floor, type FloorRules, isEligible, replaces } from "./floor-claims.ts";

/** The session that gets a free floor. */
export interface Successor {
  readonly claim: Claim;
  readonly reason: "resumed" | "dequeued";
}

/**
 * Choose the session that gets a free floor: the highest priority among the ducked, the preempted that come back by
 * themselves, and the queued. Equals rank in this order, except that of equals of which one replaces the other the one
 * that asked last goes first (rule R). Excludes sessions that may not come up, and sessions that would silence a
 * session that is audible and does not yield.
 */
export function successor(floor: Floor, rules: FloorRules): Successor | undefined {
  const resumed = [...floor.ducked, ...floor.paused.filter((claim) => comesBack(claim, rules))];
  const dequeued = floor.queued.filter((claim) => isEligible(claim, rules));
  const all: Successor[] = [
    ...resumed.map((claim) => ({ claim, reason: "resumed" as const })),
    ...dequeued.map((claim) => ({ claim, reason: "dequeued" as const })),
  ].filter(({ claim }) => mayComeForward(floor, claim, rules));
  const isOutdone = ({ claim }: Successor) =>
    all.some(
      ({ claim: other }) =>
        other.priority === claim.priority &&
        other.askedAt > claim.askedAt &&
        (replaces(other, claim, rules) || replaces(claim, other, rules)),
    );
  return all
    .filter((each) => !isOutdone(each))
    .reduce<Successor | undefined>(
      (best, each) => (best && best.claim.priority >= each.claim.priority ? best : each),
      undefined,
    );
}

/** Whether a wake of the session ends the other one, which asked earlier (rule R). */
export function wakeEnds(claim: Claim, other: Claim, rules: FloorRules): boolean {
  return other.askedAt < claim.askedAt && replaces(claim, other, rules);
}

function mayComeForward(floor: Floor, claim: Claim, rules: FloorRules): boolean {
  const stays = (other: Claim) => other.sessionId !== claim.sessionId && !wakeEnds(claim, other, rules);
  return arrange(claim, floor.ducked.filter(stays)).silenced.every((silenced) => yieldsTo(silenced, claim));
}
