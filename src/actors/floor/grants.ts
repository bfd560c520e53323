import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { TurnInput } from "../../protocol/internal/command.ts";
import { omit } from "../../protocol/omit.ts";
import { acceptWithSession } from "../facts.ts";
import type { EventForArbiter } from "../session/session-step.ts";
import { type ArbiterStep, languageOf, log, numbersOf, refuse, send, tell } from "./arbiter-step.ts";
import {
  type Challenger,
  decide,
  endOfWaitDecision,
  type Floor,
  type FloorRules,
  reservedClaim,
  restrictionOn,
  rulesOf,
  type Successor,
  successor,
  wakeDecision,
} from "./arbitration.ts";
import type { Claim, QueuedClaim } from "./claim.ts";
import {
  closeRanks,
  giveFront,
  letBeneath,
  type Move,
  partReserved,
  type Rearrangement,
  restrict,
  without,
  withoutLevel,
} from "./rearrangement.ts";

/** How the floor changes hands: requests, grants, queues and releases. The rules: docs/arbitration.md. */

/** The floor's rules, with the restrictions that its flags enable. */
export const rulesFor = ({ given, flags }: ArbiterStep): FloorRules => rulesOf(given.catalog, flags);

/** Handle the request of an existing session. */
export function takeRequest(
  step: ArbiterStep,
  request: Extract<EventForArbiter, { type: "request" }>,
  kept: Claim,
): void {
  const { given } = step;
  const { sessionId, turn } = request;
  const agent = given.catalog.agents.get(kept.agentId);
  const numbers = agent ? { ...numbersOf(step, agent), ...languageOf(kept) } : kept;
  const challenger: Challenger = { ...numbers, sessionId, agent, mayQueue: request.mayQueue };
  const decision = decide(step.floor, challenger, rulesFor(step));
  const claim: Claim = { ...numbers, sessionId };
  if (decision.outcome === "granted") {
    const told = grant(step, claim, request.as, decision, turn !== undefined);
    return takeTurnOrAnswer(step, sessionId, told, turn);
  }
  log(step, decision, sessionId);
  if (decision.outcome === "queued") return enqueue(step, claim, decision, turn);
  // A ducked session takes its turns beneath the holder.
  const isDucked = step.floor.ducked.some((each) => each.sessionId === sessionId);
  if (isDucked && turn) return takeTurnOrAnswer(step, sessionId, decision, turn);
  refuse(step, "rejected", { message: decision.say, facts: { decision } });
}

/** The session may take its turn: pass the turn on to it, or answer a request without one. */
export function takeTurnOrAnswer(step: ArbiterStep, sessionId: SessionId, decision: Decision, input?: TurnInput): void {
  if (!input) {
    tell(step, acceptWithSession({ sessionId, decision }));
    return;
  }
  const { messageId, runId } = input;
  send(step, sessionId, { type: "turn", turn: { messageId, runId }, input, decision, given: step.given });
}

/**
 * Carry out a grant. Silence comes before sound: first the replaced and silenced sessions change, then the ducked ones;
 * then the challenger gets the floor, and last the sessions that return beneath it (invariant 3).
 * @returns the logged decision, with its effects on other sessions
 */
export function grant(
  step: ArbiterStep,
  claim: Claim,
  verb: "activate" | "resume",
  decision: Decision,
  bringsTurn = false,
): Decision {
  if (decision.reason === "already_holder") return decision;
  const { given } = step;
  const rules = rulesFor(step);
  const arrange = decision.reason === "beneath" ? letBeneath : giveFront;
  const next = arrange(step.floor, claim, rules);
  const told = withEffects(decision, next.moves, claim, given.catalog);
  log(step, told, claim.sessionId);
  if (decision.reason !== "beneath") unreserve(step);
  forget(step, claim.sessionId);
  const own = (move: Move) => {
    const about = { claim, reason: decision.reason, bringsTurn, given };
    if (move.becomes === "ducked") send(step, claim.sessionId, { type: "duck", level: move.level, ...about });
    else send(step, claim.sessionId, { type: verb, ...about });
  };
  carryOut(step, next, decision.reason, { claim, move: own });
  const kept = next.floor.ducked.find(({ sessionId }) => sessionId === claim.sessionId);
  // A critical session that is heard beneath another asked again: its place is the same, its numbers may not be.
  if (kept && !next.moves.some((move) => move.claim.sessionId === claim.sessionId)) {
    own({ becomes: "ducked", claim, level: kept.level });
  }
  return told;
}

/** Apply a rearrangement, and notify each affected session. */
function carryOut(
  step: ArbiterStep,
  { floor, moves }: Rearrangement,
  reason: string,
  granted?: { claim: Claim; move: (move: Move) => void },
): void {
  for (const { becomes, claim } of moves) {
    const waited = becomes === "archived" && step.floor.queued.find(({ sessionId }) => sessionId === claim.sessionId);
    if (waited) forget(step, claim.sessionId);
  }
  step.floor = floor;
  for (const move of moves) {
    if (move.claim.sessionId === granted?.claim.sessionId) granted.move(move);
    else displace(step, move, reason, granted?.claim);
  }
}

/** Notify a session that another one, if any, takes its place. */
function displace(step: ArbiterStep, move: Move, reason: string, winner: Claim | undefined): void {
  const { sessionId } = move.claim;
  const by = winner && { by: { sessionId: winner.sessionId, agentId: winner.agentId } };
  const about = { reason, ...by, given: step.given };
  if (move.becomes === "archived") send(step, sessionId, { type: "archive", ...about });
  else if (move.becomes === "paused") send(step, sessionId, { type: "preempt", ...about });
  else if (move.becomes === "ducked") {
    send(step, sessionId, { type: "duck", claim: withoutLevel(move.claim), level: move.level, ...about });
  }
}

/** The decision, with its effects on other sessions if the catalogue lets sessions be heard together. */
export function withEffects(decision: Decision, moves: readonly Move[], claim: Claim, catalog: Catalog): Decision {
  const others = moves.filter((move) => move.claim.sessionId !== claim.sessionId);
  if (!catalog.isShared || others.length === 0) return decision;
  const effects = others.map((move) => ({
    sessionId: move.claim.sessionId,
    agentId: move.claim.agentId,
    becomes: move.becomes,
    ...(move.becomes === "ducked" && { level: move.level }),
  }));
  return { ...decision, effects };
}

/** Queue a session, for at most its agent's `queue_timeout`. */
export function enqueue(step: ArbiterStep, claim: Claim, decision: Decision, turn: TurnInput | undefined): void {
  const { given } = step;
  step.floor = { ...step.floor, queued: [...step.floor.queued, { ...claim, queuedAt: given.now }] };
  send(step, claim.sessionId, { type: "queue", claim, decision, turn, given });
}

function unreserve(step: ArbiterStep): void {
  if (step.floor.reserved) step.floor = { ...step.floor, reserved: undefined };
}

/** Remove a session from all lists. */
export function forget(step: ArbiterStep, sessionId: SessionId): void {
  if (step.floor.reserved?.sessionId === sessionId) unreserve(step);
  step.floor = without(step.floor, [sessionId]);
}

/** A session no longer competes. If that frees the floor, exactly one other session gets it. */
export function takeLeave(step: ArbiterStep, sessionId: SessionId): void {
  const before = without(step.floor, [sessionId]);
  forget(step, sessionId);
  settle(step, before);
}

/**
 * Settle the floor after a session left or the restrictions changed: a free floor gets its next holder; beneath a
 * holder, levels rise and paused sessions return if they may be heard.
 */
export function settle(step: ArbiterStep, before: Floor, reason = "resumed"): void {
  if (!step.floor.holder) return releaseFloor(step);
  if (step.floor.reserved || !isShared(step)) return;
  carryOut(step, closeRanks(before, step.floor, rulesFor(step)), reason);
}

/** Whether sessions may be heard together: now, or since a former catalogue. */
const isShared = ({ given, floor }: ArbiterStep): boolean => given.catalog.isShared || floor.ducked.length > 0;

/** Handle changed flags: sessions that are restricted now go silent or end, and the floor settles. */
export function applyRestrictions(step: ArbiterStep, reason?: string): void {
  silenceRestricted(step);
  settle(step, step.floor, reason);
}

function silenceRestricted(step: ArbiterStep): void {
  const { given } = step;
  const rules = rulesFor(step);
  if (rules.restrictions.length === 0) return;
  const { floor, paused, ended } = restrict(step.floor, rules);
  const reserved = reservedClaim(step.floor);
  if (reserved && restrictionOn(reserved, rules)) unreserve(step);
  for (const { sessionId } of ended) forget(step, sessionId);
  step.floor = { ...floor, reserved: step.floor.reserved };
  for (const { sessionId } of ended) send(step, sessionId, { type: "archive", reason: "restricted", given });
  for (const { sessionId } of paused) send(step, sessionId, { type: "preempt", reason: "restricted", given });
}

function releaseFloor(step: ArbiterStep): void {
  if (step.floor.holder || step.floor.reserved) return;
  const next = findSuccessor(step);
  if (!next) return;
  const { given } = step;
  const { resumeDelayMs } = given.catalog.policy;
  if (resumeDelayMs === 0) return wake(step, next);
  const { sessionId } = next.claim;
  step.floor = { ...step.floor, reserved: { sessionId, since: given.time, until: given.now + resumeDelayMs } };
}

/** The session that gets the free floor. Sessions that a new catalogue restricts go silent first. */
function findSuccessor(step: ArbiterStep): Successor | undefined {
  const rules = rulesFor(step);
  if (step.floor.ducked.some((claim) => restrictionOn(claim, rules))) silenceRestricted(step);
  return successor(step.floor, rules);
}

/** With the claim it was granted or queued with. */
function wake(step: ArbiterStep, next: Successor): void {
  const decision = wakeDecision(next, step.given.catalog.agents);
  const claim: Claim = omit(next.claim, "queuedAt", "level");
  grant(step, claim, next.reason === "resumed" ? "resume" : "activate", decision);
}

/** `resume_delay` has passed: the reserved session is woken, or a session that has become the better one. */
export function takeDue(step: ArbiterStep): void {
  unreserve(step);
  const next = findSuccessor(step);
  if (next) wake(step, next);
}

/** A queued session has waited for too long, or its lease ran out: it leaves the queue, and remains `created`. */
export function takeLapse(step: ArbiterStep, sessionId: SessionId, reason: "queue_timeout" | "lease_expired"): void {
  const waited = step.floor.queued.find((claim) => claim.sessionId === sessionId);
  if (!waited) return;
  endWait(step, waited, reason);
  releaseFloor(step);
}

/** A session leaves the queue without a grant. */
function endWait(step: ArbiterStep, waited: QueuedClaim, reason: "queue_timeout" | "lease_expired"): void {
  const { floor, given } = step;
  const { sessionId } = waited;
  const decision = endOfWaitDecision(waited, floor.holder, given.catalog.agents, reason);
  log(step, decision, sessionId);
  forget(step, sessionId);
  send(step, sessionId, { type: "unqueue", decision, given });
}

/** The reason of transitions that a switch of another session's agent causes. */
const SWITCHED = "agent_switched";

/** A session's claim has changed. If it is heard, the other sessions are arranged again. */
export function replaceClaim(step: ArbiterStep, claim: Claim): void {
  const replace = <C extends Claim>(old: C): C => {
    if (old.sessionId !== claim.sessionId) return old;
    // Fields that the new agent does not set are not kept from the old one.
    return { ...omit(old, "beneath", "ducks", "critical"), ...claim } as unknown as C;
  };
  const { floor } = step;
  step.floor = {
    ...floor,
    holder: floor.holder && replace(floor.holder),
    ducked: floor.ducked.map(replace),
    paused: floor.paused.map(replace),
    queued: floor.queued.map(replace),
  };
  if (!isShared(step)) return;
  applyRestrictions(step, SWITCHED);
  if (step.floor.reserved) carryOut(step, partReserved(step.floor), SWITCHED);
  if (claim.critical) comeForward(step, claim);
}

/** A session became critical: it does not wait, and other sessions neither silence nor duck it (invariant 11). */
function comeForward(step: ArbiterStep, claim: Claim): void {
  const { floor, given } = step;
  const isOwn = ({ sessionId }: Claim) => sessionId === claim.sessionId;
  // While the floor is reserved, sessions are not rearranged.
  if (floor.ducked.some((each) => isOwn(each) && each.level < 0)) {
    const ducked = floor.ducked.map((each) => (isOwn(each) ? { ...each, level: 0 } : each));
    return carryOut(step, { floor: { ...floor, ducked }, moves: [{ becomes: "ducked", claim, level: 0 }] }, "resumed");
  }
  const isPaused = floor.paused.some(isOwn);
  if (!isPaused && !floor.queued.some(isOwn)) return;
  const agent = given.catalog.agents.get(claim.agentId);
  const decision = decide(floor, { ...claim, agent, mayQueue: false }, rulesFor(step));
  if (decision.outcome === "granted") grant(step, claim, isPaused ? "resume" : "activate", decision);
}
