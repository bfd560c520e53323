/** How the floor changes hands: requests, grants, waits and releases. The rules: docs/use/arbitration.md. */

import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { TurnInput } from "../../protocol/internal/command.ts";
import { acceptWithSession } from "../facts.ts";
import type { EventForArbiter } from "../session/session-step.ts";
import { type ArbiterStep, emit, floorLanguageOf, log, numbersOf, refuse, send } from "./arbiter-step.ts";
import { type Challenger, decide } from "./arbitration.ts";
import { type Claim, type Numbers, type QueuedClaim, withNumbers } from "./claim.ts";
import { endOfWaitDecision, wakeDecision } from "./decision-record.ts";
import { everyone, type FloorRules, reservedClaim, rulesOf, storedClaim, without } from "./floor-claims.ts";
import { giveFront, letBeneath, letWait, type Move, type Rearrangement, settle } from "./rearrangement.ts";

/** The floor's rules, with the restrictions that its flags enable. */
export const currentRules = ({ given, flags }: ArbiterStep): FloorRules => rulesOf(given.catalog, flags);

/** The claim of a request that is made now: it is the floor's latest. */
export function newClaim({ floor }: ArbiterStep, numbers: Numbers, sessionId: SessionId): Claim {
  const askedAt = 1 + Math.max(0, ...everyone(floor).map((claim) => claim.askedAt));
  return { ...numbers, sessionId, askedAt };
}

/** Handle the request of an existing session. */
export function handleRequest(
  step: ArbiterStep,
  request: Extract<EventForArbiter, { type: "request" }>,
  kept: Claim,
): void {
  const { given } = step;
  const { sessionId, turn, waits } = request;
  const agent = given.catalog.agents.get(kept.agentId);
  const numbers = agent ? { ...numbersOf(step, agent), ...floorLanguageOf(kept) } : storedClaim(kept);
  const challenger: Challenger = { ...numbers, sessionId, agent, waits };
  const decision = decide(step.floor, challenger, currentRules(step));
  const claim = newClaim(step, numbers, sessionId);
  if (decision.outcome === "granted") {
    const logged = grant(step, claim, request.as, decision, turn !== undefined);
    return passTurnOrAnswer(step, sessionId, logged, turn);
  }
  if (decision.outcome === "queued")
    return enqueue(step, claim, waits === "paused" ? "paused" : "queued", decision, turn);
  log(step, decision, sessionId);
  // A ducked session takes its turns beneath the holder.
  const isDucked = step.floor.ducked.some((each) => each.sessionId === sessionId);
  if (isDucked && turn) return passTurnOrAnswer(step, sessionId, decision, turn);
  refuse(step, "rejected", { message: decision.say, facts: { decision } });
}

/** The session may take its turn: pass the turn on to it, or answer a request without one. */
export function passTurnOrAnswer(step: ArbiterStep, sessionId: SessionId, decision: Decision, input?: TurnInput): void {
  if (!input) {
    emit(step, acceptWithSession({ sessionId, decision }));
    return;
  }
  const { messageId, runId } = input;
  send(step, sessionId, { type: "turn", turn: { messageId, runId }, input, decision, given: step.given });
}

/**
 * Carry out a granted request.
 * @returns the logged decision, with its effects on other sessions
 */
export function grant(
  step: ArbiterStep,
  claim: Claim,
  verb: "activate" | "resume",
  decision: Decision,
  turnFollows = false,
): Decision {
  if (decision.reason === "already_holder") return decision;
  const arrange = decision.reason === "beneath" ? letBeneath : giveFront;
  return makeAudible(step, claim, verb, decision, arrange(step.floor, claim, currentRules(step)), turnFollows);
}

/**
 * The claim's session comes up. Silence comes before sound: first the replaced and silenced sessions change, then the
 * ducked ones; then this session gets its place, and last the sessions that return beneath it (invariant 3).
 * @returns the logged decision, with its effects on other sessions
 */
function makeAudible(
  step: ArbiterStep,
  claim: Claim,
  verb: "activate" | "resume",
  decision: Decision,
  next: Rearrangement,
  turnFollows = false,
): Decision {
  const { given } = step;
  const { sessionId } = claim;
  const logged = withEffects(decision, next.moves, claim, given.catalog);
  log(step, logged, sessionId);
  const moves = [...next.moves];
  const kept = next.floor.ducked.find((each) => each.sessionId === sessionId);
  // A critical session that is audible beneath another asked again: its rank is the same, its numbers may not be.
  if (kept && !moves.some((move) => move.claim.sessionId === sessionId)) {
    moves.push({ becomes: "ducked", claim, level: kept.level });
  }
  const about = { claim, reason: decision.reason, turnFollows, given };
  step.floor = next.floor;
  for (const move of moves) {
    if (move.claim.sessionId !== sessionId) displace(step, move, decision.reason, claim);
    else if (move.becomes === "ducked") send(step, sessionId, { type: "duck", level: move.level, ...about });
    else send(step, sessionId, { type: verb, ...about });
  }
  return logged;
}

/** Apply a rearrangement without a grant, and notify each affected session. */
function applyMoves(step: ArbiterStep, { floor, moves }: Rearrangement, reason: string, by?: Claim): void {
  step.floor = floor;
  for (const move of moves) displace(step, move, reason, by);
}

/** Notify a session that another one, if any, takes its place. */
function displace(step: ArbiterStep, move: Move, reason: string, winner: Claim | undefined): void {
  const { sessionId } = move.claim;
  const by = winner && { by: { sessionId: winner.sessionId, agentId: winner.agentId } };
  const about = { reason, ...by, given: step.given };
  if (move.becomes === "archived") send(step, sessionId, { type: "archive", ...about });
  else if (move.becomes === "paused") send(step, sessionId, { type: "preempt", ...about });
  else if (move.becomes === "ducked") {
    send(step, sessionId, { type: "duck", claim: storedClaim(move.claim), level: move.level, ...about });
  }
}

/** The decision, with its effects on other sessions if the catalogue lets sessions be audible together. */
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

/** The session waits: a new one in the queue, for at most its agent's `queue_timeout`; a paused one where it is. */
export function enqueue(
  step: ArbiterStep,
  claim: Claim,
  as: "queued" | "paused",
  decision: Decision,
  turn: TurnInput | undefined,
): void {
  const { given } = step;
  const next = letWait(step.floor, claim, as, given.now, currentRules(step));
  const logged = withEffects(decision, next.moves, claim, given.catalog);
  const waits = [...step.floor.queued, ...step.floor.paused].some(({ sessionId }) => sessionId === claim.sessionId);
  // Nothing changes when a waiting session asks again and must still wait.
  if (!waits || next.moves.length > 0) log(step, logged, claim.sessionId);
  applyMoves(step, next, "replaced", claim);
  send(step, claim.sessionId, { type: "queue", claim, decision: logged, turn, given });
}

/** Remove a session from all lists. */
export function forget(step: ArbiterStep, sessionId: SessionId): void {
  const { floor } = step;
  const reserved = floor.reserved?.sessionId === sessionId ? undefined : floor.reserved;
  step.floor = { ...without(floor, [sessionId]), reserved };
}

/**
 * Rule S, after every event: the sessions go silent and come up as the rules say.
 * @param reason of the transitions, unless the floor goes to another session
 * @param delayMs 0 if `resume_delay` is over; absent: it applies
 */
export function settleAndNotify(step: ArbiterStep, reason = "resumed", delayMs?: number): void {
  const { given } = step;
  const { restricted, woken, ...next } = settle(step.floor, currentRules(step), given, delayMs);
  for (const move of restricted) displace(step, move, "restricted", undefined);
  if (!woken) return next.floor === step.floor ? undefined : applyMoves(step, next, reason);
  const decision = wakeDecision(woken.claim, woken.reason, given.catalog.agents);
  makeAudible(step, storedClaim(woken.claim), woken.reason === "resumed" ? "resume" : "activate", decision, next);
}

/** `resume_delay` has passed: the reserved session is woken, or a session that has become the better one. */
export function handleDue(step: ArbiterStep): void {
  step.floor = { ...step.floor, reserved: undefined };
  settleAndNotify(step, undefined, 0);
}

/** A queued session has waited for too long, or its lease ran out: it leaves the queue, and remains `created`. */
export function handleLapse(step: ArbiterStep, sessionId: SessionId, reason: "queue_timeout" | "lease_expired"): void {
  const waited = step.floor.queued.find((claim) => claim.sessionId === sessionId);
  if (waited) endWait(step, waited, reason);
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

/** A session's claim has changed: the floor settles with it. */
export function replaceClaim(step: ArbiterStep, claim: Claim): void {
  putNumbers(step, ({ sessionId }) => (sessionId === claim.sessionId ? claim : undefined));
}

/**
 * Rule N: the catalogue was replaced. Every claim gets the numbers that a request would give it now; one whose agent
 * does not answer keeps its own.
 */
export function renumber(step: ArbiterStep): void {
  const { given } = step;
  const before = everyone(step.floor);
  putNumbers(step, ({ agentId }) => {
    const agent = given.catalog.agents.get(agentId);
    return agent?.enabled ? numbersOf(step, agent) : undefined;
  });
  for (const [index, claim] of everyone(step.floor).entries()) {
    if (JSON.stringify(claim) === JSON.stringify(before[index])) continue;
    send(step, claim.sessionId, { type: "renumber", claim: storedClaim(claim), given });
  }
}

/** Give claims other numbers; undefined: they keep their own. */
function putNumbers(step: ArbiterStep, numbersFor: (claim: Claim) => Numbers | undefined): void {
  const put = <C extends Claim>(claim: C): C => {
    const numbers = numbersFor(claim);
    return numbers ? withNumbers(claim, numbers) : claim;
  };
  const { floor } = step;
  step.floor = {
    ...floor,
    holder: floor.holder && put(floor.holder),
    ducked: floor.ducked.map(put),
    paused: floor.paused.map(put),
    queued: floor.queued.map(put),
  };
}

/** What `stop` archives: the session that is audible in front, or is about to be. */
export function stoppable({ floor }: ArbiterStep): SessionId[] {
  const claim = floor.holder ?? reservedClaim(floor);
  return claim ? [claim.sessionId] : [];
}
