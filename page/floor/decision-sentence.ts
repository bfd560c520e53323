import type { Decision } from "../../src/protocol/decision.ts";
import type { WordKey } from "../words/en.ts";
import { joined, type Say } from "../words/sentence.ts";

const SIGNS = { granted: "✓", queued: "◔", rejected: "✕" } as const;

/** The inputs of a sentence besides the decision. */
export interface SentenceContext {
  say: Say;
  agentName: (id: string) => string;
}

export const signOfDecision = ({ outcome }: Decision): string => SIGNS[outcome];

/** A decision as a sentence: the sessions and their numbers. */
export function decisionSentence(decision: Decision, { say, agentName }: SentenceContext, isWhatIf = false): string {
  const values = valuesOf(decision, agentName);
  const outcome = decision.reason === "beneath" ? "heard" : decision.outcome;
  return joined(say(`${isWhatIf ? "whatif" : "decided"}.${outcome}`, values), say(reasonOf(decision), values));
}

/** The second half of the sentence: the reason. */
export function reasonSentence(decision: Decision, { say, agentName }: SentenceContext): string {
  return say(reasonOf(decision), valuesOf(decision, agentName));
}

function valuesOf({ challenger, holder }: Decision, agentName: SentenceContext["agentName"]) {
  return {
    who: agentName(challenger.agentId),
    p: challenger.priority,
    holder: holder ? agentName(holder.agentId) : "",
    h: holder?.priority ?? "",
  };
}

/** A preempted holder is paused or ducked. A critical one blocks higher priorities too. */
function reasonOf({ reason, challenger, holder, effects }: Decision): WordKey {
  if (reason === "lower_priority" && holder && holder.priority <= challenger.priority) return "reason.below_critical";
  const fate = effects?.find(({ sessionId }) => sessionId === holder?.sessionId)?.becomes;
  return reason === "preempted" && fate === "ducked" ? "reason.ducked" : `reason.${reason}`;
}
