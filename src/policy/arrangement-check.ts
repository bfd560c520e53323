import { arrange, depth } from "../actors/floor/audible-together.ts";
import type { Contender } from "../actors/floor/contender.ts";
import {
  audible,
  comesBack,
  type Floor,
  type FloorRules,
  isEligible,
  restrictionOn,
} from "../actors/floor/floor-state.ts";

/** An invariant of docs/use/arbitration.md does not hold. The message begins with its number. */
export class Broken extends Error {}

export function must(isMet: boolean, otherwise: () => string): asserts isMet {
  if (!isMet) throw new Broken(otherwise());
}

/**
 * The invariants of docs/use/arbitration.md that hold in every state of a floor.
 * @throws Broken
 */
export function checkArrangement(floor: Floor, rules: FloorRules): void {
  const { holder, ducked, reserved } = floor;
  must(!(holder && reserved), () => "1: the floor is held and reserved");
  must(ducked.length === 0 || holder !== undefined || reserved !== undefined, () => "9: ducked without a holder");
  for (const { critical, level, sessionId } of ducked) {
    must(!critical || level === 0, () => `11: ${sessionId} is critical and at level ${level}`);
  }
  for (const contender of audible(floor)) {
    const restriction = restrictionOn(contender, silencing(rules));
    must(!restriction, () => `13: ${contender.sessionId} is heard, ${restriction?.name} does not allow it`);
  }
  const waiting = [
    ...floor.paused.filter((each) => comesBack(each, rules)),
    ...floor.queued.filter((each) => isEligible(each, rules)),
  ];
  // While the floor is reserved, the ducked sessions do not change.
  if (!holder)
    return must(
      reserved !== undefined || waiting.length === 0,
      () => `0: ${waiting[0]!.sessionId} waits for a free floor`,
    );
  checkLevels(floor);
  for (const silent of waiting) {
    if (floor.paused.includes(silent) || rules.agents.get(silent.agentId)!.whenBlocked.includes("duck")) {
      must(hasCause(floor, holder, silent), () => `10: ${silent.sessionId} is silent without a cause`);
    }
  }
}

/** The restrictions that silence audible sessions: with `others: finish` they go on. */
export const silencing = ({ restrictions }: FloorRules) => ({
  restrictions: restrictions.filter(({ others }) => others !== "finish"),
});

/** 9: every session above a ducked session lets it be audible, at the deepest of their levels; the best comes first. */
function checkLevels(floor: Floor): void {
  const all = audible(floor);
  for (const [index, below] of floor.ducked.entries()) {
    const above = all.slice(0, index + 1);
    const depths = above.map((each) => depth(each, below));
    const silent = above[depths.indexOf(undefined)];
    must(
      silent === undefined,
      () => `9: ${below.sessionId} is heard beneath ${silent?.sessionId}, which does not let it`,
    );
    const level = Math.min(0, ...depths.map((each) => each!));
    must(below.level === level, () => `9: the level of ${below.sessionId} is ${below.level}, not ${level}`);
    const isBest = index === 0 || floor.ducked[index - 1]!.priority >= below.priority;
    must(isBest, () => `9: ${below.sessionId} stands behind a lesser one`);
  }
}

/** 10: one above does not let the silent session be audible, or one below does not yield to it. */
export function hasCause(floor: Floor, holder: Contender, silent: Contender): boolean {
  const above = [holder, ...floor.ducked.filter(({ priority }) => priority >= silent.priority)];
  const below = floor.ducked.filter(({ priority }) => priority < silent.priority);
  if (above.some((each) => depth(each, silent) === undefined)) return true;
  const cut = arrange(holder, [...above.slice(1), silent, ...below]).silenced;
  const { agentId, priority, critical } = silent;
  return cut.some(
    (each) =>
      !each.interruptible &&
      !critical &&
      !(each.preemptionThreshold !== undefined && priority >= each.preemptionThreshold) &&
      !each.yieldsTo?.includes(agentId),
  );
}
