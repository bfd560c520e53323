import type { TurnInput } from "../protocol/command.ts";
import type { Decision } from "../protocol/decision.ts";
import type { EffectId, SessionId } from "../protocol/ids.ts";
import { type ArbiterStep, log, numbersOf, refuse, send, tell } from "./arbiter-step.ts";
import {
  type Challenger,
  type Claim,
  decide,
  type QueuedClaim,
  queueTimeoutDecision,
  type Successor,
  successor,
  wakeDecision,
} from "./arbitration.ts";
import { accept, effectId } from "./facts.ts";
import type { SessionWord } from "./session-step.ts";

/** How a floor changes hands: requests, grants, queues and releases. The rules: docs/arbitration.md. */

/** A session that exists asks for the floor. */
export function takeRequest(step: ArbiterStep, request: Extract<SessionWord, { type: "request" }>, kept: Claim): void {
  const { given } = step;
  const { sessionId, turn } = request;
  const agent = given.catalog.agents.get(kept.agentId);
  const numbers = agent ? numbersOf(step, agent) : kept;
  const challenger: Challenger = { ...numbers, sessionId, agent, mayQueue: request.mayQueue };
  const decision = decide(step.floor, challenger, given.catalog.policy, given.catalog.agents);
  log(step, decision, sessionId);
  if (decision.outcome === "rejected") return refuse(step, "rejected", { decision }, decision.say);
  const claim: Claim = { ...numbers, sessionId };
  if (decision.outcome === "queued") return enqueue(step, claim, decision, turn);
  if (decision.reason === "already_holder") {
    tell(step, accept({ sessionId, decision }, true));
    return;
  }
  grant(step, claim, request.as, decision, turn !== undefined);
  takeTurnOrAnswer(step, sessionId, decision, turn);
}

export function takeTurnOrAnswer(step: ArbiterStep, sessionId: SessionId, decision: Decision, input?: TurnInput): void {
  if (!input) {
    tell(step, accept({ sessionId, decision }, true));
    return;
  }
  const { messageId, runId } = input;
  send(step, sessionId, { type: "turn", turn: { messageId, runId }, input, decision, given: step.given });
}

/** The floor changes hands: the holder is paused first, then the claim is granted (invariant 3). */
export function grant(
  step: ArbiterStep,
  claim: Claim,
  verb: "activate" | "resume",
  decision: Decision,
  bringsTurn = false,
): void {
  const { holder } = step.floor;
  unreserve(step);
  forget(step, claim.sessionId);
  if (holder) {
    step.floor = { ...step.floor, paused: [holder, ...step.floor.paused] };
    const by = { sessionId: claim.sessionId, agentId: claim.agentId };
    send(step, holder.sessionId, { type: "preempt", by, reason: decision.reason, given: step.given });
  }
  step.floor = { ...step.floor, holder: claim };
  send(step, claim.sessionId, { type: verb, claim, reason: decision.reason, bringsTurn, given: step.given });
}

export function enqueue(step: ArbiterStep, claim: Claim, decision: Decision, turn: TurnInput | undefined): void {
  const { given, floorId } = step;
  const timeoutMs = given.catalog.agents.get(claim.agentId)?.queueTimeoutMs;
  const timerId = timeoutMs === undefined ? undefined : effectId(given, "queue", claim.sessionId);
  if (timerId) {
    const effect = { kind: "timer" as const, id: timerId, floorId, dueAt: given.now + timeoutMs! };
    tell(step, { type: "effect.add", effect });
  }
  step.floor = { ...step.floor, queued: [...step.floor.queued, { ...claim, queuedAt: given.now, timerId }] };
  send(step, claim.sessionId, { type: "queue", claim, decision, turn, given });
}

function unreserve(step: ArbiterStep): void {
  if (!step.floor.reserved) return;
  tell(step, { type: "effect.remove", id: step.floor.reserved.timerId });
  step.floor = { ...step.floor, reserved: undefined };
}

/** Take a session off every list. */
export function forget(step: ArbiterStep, sessionId: SessionId): void {
  const { floor } = step;
  const isOther = (claim: Claim) => claim.sessionId !== sessionId;
  const waited = floor.queued.find((claim) => !isOther(claim));
  if (waited?.timerId) tell(step, { type: "effect.remove", id: waited.timerId });
  if (floor.reserved?.sessionId === sessionId) unreserve(step);
  step.floor = {
    ...step.floor,
    holder: floor.holder && isOther(floor.holder) ? floor.holder : undefined,
    paused: floor.paused.filter(isOther),
    queued: floor.queued.filter(isOther),
  };
}

/** A session no longer competes. If the floor is free by that, exactly one other gets it. */
export function takeLeave(step: ArbiterStep, sessionId: SessionId): void {
  forget(step, sessionId);
  releaseFloor(step);
}

function releaseFloor(step: ArbiterStep): void {
  const { given, floor, floorId } = step;
  if (floor.holder || floor.reserved) return;
  const next = successor(floor, given.catalog.agents);
  if (!next) return;
  const { resumeDelayMs } = given.catalog.policy;
  if (resumeDelayMs === 0) return wake(step, next);
  const timerId = effectId(given, "wake", next.claim.sessionId);
  step.floor = { ...floor, reserved: { sessionId: next.claim.sessionId, timerId } };
  tell(step, {
    type: "effect.add",
    effect: { kind: "timer", id: timerId, floorId, dueAt: given.now + resumeDelayMs },
  });
}

/** With the numbers it was granted or queued with. */
function wake(step: ArbiterStep, next: Successor): void {
  const decision = wakeDecision(next, step.given.catalog.agents);
  log(step, decision, next.claim.sessionId);
  const { sessionId, agentId, priority, interruptible, preemptionThreshold, explained } = next.claim;
  const claim = { sessionId, agentId, priority, interruptible, preemptionThreshold, explained };
  grant(step, claim, next.reason === "resumed" ? "resume" : "activate", decision);
}

/** A timer of the floor itself: the reserved session's wake, or the end of somebody's wait. Stale ones do nothing. */
export function fireTimer(step: ArbiterStep, timerId: EffectId): void {
  const { floor, given } = step;
  tell(step, { type: "effect.remove", id: timerId });
  tell(step, accept({}));
  const waited = floor.queued.find((claim) => claim.timerId === timerId);
  if (floor.reserved?.timerId === timerId) {
    step.floor = { ...floor, reserved: undefined };
    // Since it was reserved the best may be another.
    const next = successor(step.floor, given.catalog.agents);
    if (next) wake(step, next);
  } else if (waited) {
    if (floor.reserved?.sessionId === waited.sessionId) return waitForWake(step, waited);
    const decision = queueTimeoutDecision(waited, floor.holder, given.catalog.agents);
    log(step, decision, waited.sessionId);
    forget(step, waited.sessionId);
    send(step, waited.sessionId, { type: "unqueue", decision, given });
  }
}

/** Its time is up and it is about to be woken: should another outrank it until then, its time is up after all. */
function waitForWake(step: ArbiterStep, waited: QueuedClaim): void {
  const { given, floor, floorId } = step;
  const timerId = effectId(given, "queue", waited.sessionId);
  const dueAt = given.now + given.catalog.policy.resumeDelayMs;
  tell(step, { type: "effect.add", effect: { kind: "timer", id: timerId, floorId, dueAt } });
  step.floor = {
    ...floor,
    queued: floor.queued.map((claim) => (claim === waited ? { ...waited, timerId } : claim)),
  };
}

export function replaceClaim(step: ArbiterStep, claim: Claim): void {
  const replace = <C extends Claim>(old: C): C => (old.sessionId === claim.sessionId ? { ...old, ...claim } : old);
  const { floor } = step;
  step.floor = {
    ...floor,
    holder: floor.holder && replace(floor.holder),
    paused: floor.paused.map(replace),
    queued: floor.queued.map(replace),
  };
}
