import type { WhatIfAnswer } from "../../../src/client/client-error.ts";
import type { Decision } from "../../../src/protocol/decision.ts";

/** The result of a request for the floor by an agent, without making it. */
export interface WhatIf {
  agentId: string;
  decision: Decision | undefined;
  /** The error that it would get, if not a decision. */
  refused?: WhatIfAnswer["refused"] | undefined;
}

/** Where a session would go: to the front, beneath the holder, to the queue, or nowhere. */
export type Fate = "front" | "beneath" | "queued" | "refused" | "same";

export function fateOf({ outcome, reason }: Decision): Fate {
  if (outcome === "queued") return "queued";
  if (outcome === "rejected") return "refused";
  if (reason === "already_holder") return "same";
  return reason === "beneath" ? "beneath" : "front";
}

export type PredictedEffect = NonNullable<Decision["effects"]>[number];

/** The effect on the other sessions. Decisions of floors without ducked sessions name the holder only. */
export function effectsOf({ reason, holder, effects }: Decision): ReadonlyMap<string, PredictedEffect> {
  if (effects) return new Map(effects.map((effect) => [effect.sessionId, effect]));
  if (reason !== "preempted" || !holder) return new Map();
  return new Map([[holder.sessionId, { ...holder, becomes: "paused" }]]);
}
