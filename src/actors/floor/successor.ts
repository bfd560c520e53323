import { yieldsTo } from "./arbitration.ts";
import { arrange } from "./audible-together.ts";
import type { Contender } from "./contender.ts";
import { comesBack, type Floor, type FloorRules, isEligible, replaces } from "./floor-state.ts";

/** The session that gets a free floor. */
export interface Successor {
  readonly contender: Contender;
  readonly reason: "resumed" | "dequeued";
}

/**
 * Choose the session that gets a free floor: the highest priority among the ducked, the preempted that come back by
 * themselves, and the queued. Equals rank in this order, except that of equals of which one replaces the other the one
 * that asked last goes first (rule R). Excludes sessions that may not come up, and sessions that would silence a
 * session that is audible and does not yield.
 */
export function successor(floor: Floor, rules: FloorRules): Successor | undefined {
  const resumed = [...floor.ducked, ...floor.paused.filter((contender) => comesBack(contender, rules))];
  const dequeued = floor.queued.filter((contender) => isEligible(contender, rules));
  const all: Successor[] = [
    ...resumed.map((contender) => ({ contender, reason: "resumed" as const })),
    ...dequeued.map((contender) => ({ contender, reason: "dequeued" as const })),
  ].filter(({ contender }) => mayComeForward(floor, contender, rules));
  const isOutdone = ({ contender }: Successor) =>
    all.some(
      ({ contender: other }) =>
        other.priority === contender.priority &&
        other.askedAt > contender.askedAt &&
        (replaces(other, contender, rules) || replaces(contender, other, rules)),
    );
  return all
    .filter((each) => !isOutdone(each))
    .reduce<Successor | undefined>(
      (best, each) => (best && best.contender.priority >= each.contender.priority ? best : each),
      undefined,
    );
}

/** Whether a wake of the session ends the other one, which asked earlier (rule R). */
export function wakeEnds(contender: Contender, other: Contender, rules: FloorRules): boolean {
  return other.askedAt < contender.askedAt && replaces(contender, other, rules);
}

function mayComeForward(floor: Floor, contender: Contender, rules: FloorRules): boolean {
  const stays = (other: Contender) => other.sessionId !== contender.sessionId && !wakeEnds(contender, other, rules);
  return arrange(contender, floor.ducked.filter(stays)).silenced.every((silenced) => yieldsTo(silenced, contender));
}
