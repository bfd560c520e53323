import type { Decision } from "../../src/protocol/decision.ts";
import type { Session } from "../../src/protocol/session.ts";
import type { Effect } from "./what-if.ts";

type Standing = Pick<Session, "id" | "state" | "pausedBy">;

/**
 * The decision that put a session where it stands: for which other it was paused, what it waits for, how it got the floor.
 * Undefined where none of these decisions did, as after a pause by its user.
 * @param decisions the newest last
 */
export function decisionBehind(decisions: readonly Decision[], session: Standing): Decision | undefined {
  const last = decisions.findLast((decision) => concerns(decision, session));
  return last && leadsTo(last, session) ? last : undefined;
}

/** A refusal changes nothing for a session that has had the floor before. */
function concerns(decision: Decision, { id, state }: Standing): boolean {
  const { outcome, reason, challenger } = decision;
  if (reason === "already_holder") return false;
  if (challenger.sessionId === id) return outcome === "granted" || state === "created";
  return outcome === "granted" && becomes(decision, id) !== undefined;
}

function leadsTo(decision: Decision, { id, state, pausedBy }: Standing): boolean {
  const { challenger, outcome, reason } = decision;
  if (challenger.sessionId !== id) {
    return becomes(decision, id) === state && (state !== "paused" || pausedBy === "preemption");
  }
  if (outcome !== "granted") return state === "created";
  return state === (reason === "beneath" ? "ducked" : "active");
}

/** What became of a session that did not ask. Many decisions are asked for each card that is drawn, so nothing is made for it. */
function becomes({ reason, holder, effects }: Decision, id: string): Effect["becomes"] | undefined {
  if (effects) return effects.find(({ sessionId }) => sessionId === id)?.becomes;
  return reason === "preempted" && holder?.sessionId === id ? "paused" : undefined;
}
