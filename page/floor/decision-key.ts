import type { Decision } from "../../src/protocol/decision.ts";

const KEYS = new WeakMap<Decision, number>();
let given = 0;

/**
 * A key that a decision keeps for as long as the page has it. Decisions have no id, two can be alike in every field, and
 * a place in the list does not do: when the list is full, each new decision moves all others by one place.
 */
export function keyOfDecision(decision: Decision): number {
  let key = KEYS.get(decision);
  if (key === undefined) {
    given += 1;
    key = given;
    KEYS.set(decision, key);
  }
  return key;
}
