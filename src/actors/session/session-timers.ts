import type { EffectId } from "../../protocol/ids.ts";
import { expireInteraction } from "./interactions.ts";
import { releaseStopped } from "./runs.ts";
import { fireLease } from "./session-lease.ts";
import { answer, dropEffect, type SessionStep } from "./session-step.ts";

/** The session's lease ran out: it loses its place as the holder, as a ducked session or in the queue. */
function lapse(step: SessionStep, isHeard: boolean): void {
  const { context, given } = step;
  if (!isHeard && context.queuedAt !== undefined) step.toArbiter.push({ type: "lapse", sessionId: context.id, given });
  else step.toSelf.push({ type: "yield", reason: "lease_expired", given });
}

/** A timer fired. It has an effect only if the session still refers to it (rule C9). */
export function fireTimer(step: SessionStep, { timerId }: { timerId: EffectId }, isHeard: boolean): void {
  const { context, given } = step;
  dropEffect(step, timerId);
  answer(step, {});
  const expired = context.run?.interactions.find((pending) => pending.timerId === timerId);
  if (timerId === context.idleTimerId) {
    context.idleTimerId = undefined;
    if (isHeard && !context.run) step.toSelf.push({ type: "yield", reason: "idle_timeout", given });
  } else if (timerId === context.pauseTimerId) {
    context.pauseTimerId = undefined;
    step.toSelf.push({ type: "expire", reason: "max_pause", given });
  } else if (timerId === context.holdTimerId) {
    context.holdTimerId = undefined;
    step.toSelf.push({ type: "yield", reason: "max_hold", given });
  } else if (timerId === context.lease?.timerId) {
    if (fireLease(step)) lapse(step, isHeard);
  } else if (timerId === context.stopping?.timerId) {
    releaseStopped(step, isHeard);
  } else if (expired) {
    expireInteraction(step, expired.interaction.requestId);
  }
}
