import type { Decision } from "../../src/protocol/decision.ts";
import type { Session } from "../../src/protocol/session.ts";
import type { PredictedEffect } from "./agents/what-if.ts";

type ShownState = Pick<Session, "id" | "state" | "pausedBy" | "queuedAt">;

/**
 * The decision that explains a session's state: the one that paused, queued or activated it. Undefined if no decision
 * did, for example after a pause by its user.
 * @param decisions the newest last
 */
export function decisionBehind(decisions: readonly Decision[], session: ShownState): Decision | undefined {
  const last = decisions.findLast((decision) => concerns(decision, session));
  return last && leadsTo(last, session) ? last : undefined;
}

/** A refusal changes nothing for a session that has had the floor before. */
function concerns(decision: Decision, { id, state }: ShownState): boolean {
  const { outcome, reason, challenger } = decision;
  if (reason === "already_holder") return false;
  if (challenger.sessionId === id) return outcome === "granted" || state === "created";
  return outcome === "granted" && becomes(decision, id) !== undefined;
}

function leadsTo(decision: Decision, { id, state, pausedBy, queuedAt }: ShownState): boolean {
  const { challenger, outcome, reason } = decision;
  if (challenger.sessionId !== id) {
    return becomes(decision, id) === state && (state !== "paused" || pausedBy === "preemption");
  }
  if (outcome === "queued") return queuedAt !== undefined;
  if (outcome === "rejected") return state === "created";
  return state === (reason === "beneath" ? "ducked" : "active");
}

/** The effect on a session that did not ask. This runs for many decisions per drawn card, so it allocates nothing. */
function becomes({ reason, holder, effects }: Decision, id: string): PredictedEffect["becomes"] | undefined {
  if (effects) return effects.find(({ sessionId }) => sessionId === id)?.becomes;
  return reason === "preempted" && holder?.sessionId === id ? "paused" : undefined;
}
