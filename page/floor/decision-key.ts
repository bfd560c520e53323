import type { Decision } from "../../src/protocol/decision.ts";

const KEYS = new WeakMap<Decision, number>();
let lastKey = 0;

/**
 * A React key that a decision keeps as long as the page has it. Decisions have no id, and two may be equal in every
 * field. An index does not work either: when the list is full, each new decision shifts all others.
 */
export function keyOfDecision(decision: Decision): number {
  let key = KEYS.get(decision);
  if (key === undefined) {
    lastKey += 1;
    key = lastKey;
    KEYS.set(decision, key);
  }
  return key;
}
