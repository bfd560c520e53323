import {
  type Floor,
  type FloorRules,
  heard,
  restrictionOn,
  returnsByItself,
} from "../../../src/actors/floor/arbitration.ts";
import { depth } from "../../../src/actors/floor/arrangement.ts";
import type { Claim } from "../../../src/actors/floor/claim.ts";
import { must } from "../runner/must.ts";

/**
 * The invariants of docs/arbitration.md that hold in every state of a floor. Throws `Broken`, which names the violated
 * invariant.
 */
export function checkArrangement(floor: Floor, rules: FloorRules): void {
  const { holder, ducked, reserved } = floor;
  must(!(holder && reserved), () => "1: the floor is held and reserved");
  must(ducked.length === 0 || holder !== undefined || reserved !== undefined, () => "9′: ducked without a holder");
  for (const { critical, level, sessionId } of ducked) {
    must(!critical || level === 0, () => `11: ${sessionId} is critical and at level ${level}`);
  }
  for (const claim of heard(floor)) {
    const restriction = restrictionOn(claim, rules);
    must(!restriction, () => `13: ${claim.sessionId} is heard, ${restriction?.name} does not allow it`);
  }
  // While the floor is reserved, the ducked sessions do not change.
  if (!holder) return;
  checkLevels(floor);
  checkSilences(floor, holder, rules);
}

/** 9: every session above a ducked session lets it be heard, at the deepest of their levels; the best comes first. */
function checkLevels(floor: Floor): void {
  const all = heard(floor);
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

/** 10: every silent session has a cause. */
function checkSilences(floor: Floor, holder: Claim, rules: FloorRules): void {
  for (const silent of floor.paused) {
    if (!returnsByItself(silent, rules) || restrictionOn(silent, rules)) continue;
    const isAbove = (other: Claim) => other === holder || other.priority >= silent.priority;
    const cause = heard(floor).some((other) => depth(...pair(isAbove(other), other, silent)) === undefined);
    must(cause, () => `10: ${silent.sessionId} is silent without a cause`);
  }
}

const pair = (isAbove: boolean, other: Claim, silent: Claim): [above: Claim, below: Claim] =>
  isAbove ? [other, silent] : [silent, other];
