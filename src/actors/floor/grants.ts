/** How the floor changes hands: requests, grants, waits and releases. The rules: docs/use/arbitration.md. */

import type { Catalog } from "../../config/catalog/catalog.ts";
import type { Decision } from "../../protocol/decision.ts";
import type { SessionId } from "../../protocol/ids.ts";
import type { TurnInput } from "../../protocol/internal/command.ts";
import { acceptWithSession } from "../facts.ts";
import { lengthsOf } from "../session/session-context.ts";
import type { EventForArbiter } from "../session/session-step.ts";
import { type ArbiterStep, emit, floorLanguageOf, logDecision, numbersOf, refuse, send } from "./arbiter-step.ts";
import { type Challenger, decide } from "./arbitration.ts";
import { type Contender, type Numbers, withNumbers } from "./contender.ts";
import { endOfWaitDecision, wakeDecision } from "./decision-record.ts";
import { everyone, type FloorRules, plainContender, reservedContender, rulesOf, without } from "./floor-state.ts";
import { giveFront, letBeneath, letWait, type Move, type Rearrangement, settle } from "./rearrangement.ts";

/** The floor's rules, with the restrictions that its flags and the time enable. */
export const currentRules = ({ given, flags }: ArbiterStep): FloorRules => rulesOf(given.catalog, flags, given.now);

/** A session that requests the floor now: its request is the floor's latest. */
export function newContender(step: ArbiterStep, numbers: Numbers, sessionId: SessionId): Contender {
  // Sessions that no longer compete have asked before it too.
  const askedAt = 1 + Math.max(step.asked ?? 0, ...everyone(step.floor).map((contender) => contender.askedAt));
  step.asked = askedAt;
  return { ...numbers, sessionId, askedAt };
}

/** Handle the request of an existing session. */
export function handleRequest(step: ArbiterStep, request: Extract<EventForArbiter, { type: "request" }>): void {
  const { given } = step;
  const { sessionId, turn, waits, isScheduled } = request;
  const kept = step.sessionOf(sessionId)!.numbers;
  const agent = given.catalog.agents.get(kept.agentId);
  const numbers = agent ? { ...numbersOf(step, agent), ...floorLanguageOf(kept) } : plainContender(kept);
  const challenger: Challenger = { ...numbers, sessionId, agent, waits };
  const decision = decide(step.floor, challenger, currentRules(step));
  const contender = newContender(step, numbers, sessionId);
  if (decision.outcome === "granted") {
    const verb = waits === "queued" ? "activate" : "resume";
    const logged = grant(step, contender, verb, decision, turn !== undefined);
    return passTurnOrAnswer(step, sessionId, logged, turn);
  }
  if (decision.outcome === "queued")
    return makeWait(step, contender, waits === "paused" ? "paused" : "queued", decision, turn);
  logDecision(step, decision, sessionId);
  if (agent?.enabled) renewRefused(step, sessionId, numbers);
  // A ducked session takes its turns beneath the holder.
  const isDucked = step.floor.ducked.some((each) => each.sessionId === sessionId);
  if (isDucked && turn) return passTurnOrAnswer(step, sessionId, decision, turn);
  if (isScheduled) return void send(step, sessionId, { type: "miss", turn, given });
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
  contender: Contender,
  verb: "activate" | "resume",
  decision: Decision,
  turnFollows = false,
): Decision {
  if (decision.reason === "already_holder") return renewHolder(step, contender, decision);
  const arrange = decision.reason === "beneath" ? letBeneath : giveFront;
  return makeAudible(step, contender, verb, decision, arrange(step.floor, contender, currentRules(step)), turnFollows);
}

/**
 * Rule 3: a holder that asks again goes on with the numbers of this request, and ends what it replaces (rule R).
 * @returns the decision, with its effects on other sessions; logged if it has any, changes the priority, or postpones
 *   its `idle_timeout`
 */
function renewHolder(step: ArbiterStep, contender: Contender, decision: Decision): Decision {
  const { given, floor } = step;
  const { sessionId } = contender;
  const next = giveFront(floor, contender, currentRules(step));
  const logged = withEffects(decision, next.moves, contender, given.catalog);
  const session = step.sessionOf(sessionId);
  const isPostponed = session?.idleSince !== undefined && lengthsOf(session, given.catalog).idleTimeoutMs !== undefined;
  if (isPostponed || next.moves.length > 0 || floor.holder?.priority !== contender.priority)
    logDecision(step, logged, sessionId);
  applyMoves(step, next, "replaced", contender);
  send(step, sessionId, { type: "renumber", contender: plainContender(contender), isRequest: true, given });
  return logged;
}

/** A refused session goes on with the numbers of this request, unless they change who is heard (invariant 6). */
function renewRefused(step: ArbiterStep, sessionId: SessionId, numbers: Numbers): void {
  const { floor: before, given } = step;
  const kept = step.sessionOf(sessionId)!.numbers;
  if (kept.priority === numbers.priority) return;
  putNumbers(step, (contender) => (contender.sessionId === sessionId ? numbers : undefined));
  const { restricted, moves } = settle(step.floor, currentRules(step), given);
  if (restricted.length + moves.length > 0) step.floor = before;
  else send(step, sessionId, { type: "renumber", contender: withNumbers(kept, numbers), given });
}

/**
 * A session comes up. Silence comes before sound: first the replaced and silenced sessions change, then the
 * ducked ones; then this session gets its place, and last the sessions that return beneath it (invariant 3).
 * @returns the logged decision, with its effects on other sessions
 */
function makeAudible(
  step: ArbiterStep,
  contender: Contender,
  verb: "activate" | "resume",
  decision: Decision,
  next: Rearrangement,
  turnFollows = false,
): Decision {
  const { given } = step;
  const { sessionId } = contender;
  const logged = withEffects(decision, next.moves, contender, given.catalog);
  logDecision(step, logged, sessionId);
  const moves = [...next.moves];
  const kept = next.floor.ducked.find((each) => each.sessionId === sessionId);
  // A critical session that is audible beneath another asked again: its rank is the same, its numbers may not be.
  if (kept && !moves.some((move) => move.contender.sessionId === sessionId)) {
    moves.push({ becomes: "ducked", contender, level: kept.level });
  }
  const about = { contender, reason: decision.reason, turnFollows, given };
  step.floor = next.floor;
  for (const move of moves) {
    if (move.contender.sessionId !== sessionId) displace(step, move, decision.reason, contender);
    else if (move.becomes === "ducked") send(step, sessionId, { type: "duck", level: move.level, ...about });
    else send(step, sessionId, { type: verb, ...about });
  }
  return logged;
}

/** Apply a rearrangement without a grant, and notify each affected session. */
function applyMoves(step: ArbiterStep, { floor, moves }: Rearrangement, reason: string, by?: Contender): void {
  step.floor = floor;
  for (const move of moves) displace(step, move, reason, by);
}

/** Notify a session that another one, if any, takes its place. */
function displace(step: ArbiterStep, move: Move, reason: string, winner: Contender | undefined): void {
  const { sessionId } = move.contender;
  const by = winner && { by: { sessionId: winner.sessionId, agentId: winner.agentId } };
  const about = { reason, ...by, given: step.given };
  switch (move.becomes) {
    case "archived":
      return void send(step, sessionId, { type: "archive", ...about });
    case "paused":
      return void send(step, sessionId, { type: "preempt", ...about });
    case "ducked":
      return void send(step, sessionId, {
        type: "duck",
        contender: plainContender(move.contender),
        level: move.level,
        ...about,
      });
    case "active":
      throw new Error(`${sessionId} comes to the front without a grant`);
  }
}

/** The decision, with its effects on other sessions if the catalogue lets sessions be audible together. */
export function withEffects(
  decision: Decision,
  moves: readonly Move[],
  contender: Contender,
  catalog: Catalog,
): Decision {
  const others = moves.filter((move) => move.contender.sessionId !== contender.sessionId);
  if (!catalog.isShared || others.length === 0) return decision;
  const effects = others.map((move) => ({
    sessionId: move.contender.sessionId,
    agentId: move.contender.agentId,
    becomes: move.becomes,
    ...(move.becomes === "ducked" && { level: move.level }),
  }));
  return { ...decision, effects };
}

/** The session waits: a new one in the queue, for at most its agent's `queue_timeout`; a paused one where it is. */
export function makeWait(
  step: ArbiterStep,
  contender: Contender,
  as: "queued" | "paused",
  decision: Decision,
  turn: TurnInput | undefined,
): void {
  const { given } = step;
  const next = letWait(step.floor, contender, as, given.now, currentRules(step));
  const logged = withEffects(decision, next.moves, contender, given.catalog);
  const waiting = [...step.floor.queued, ...step.floor.paused].find(
    ({ sessionId }) => sessionId === contender.sessionId,
  );
  // A preempted session that asks begins to wait for its request. Nothing changes when one that has asked asks again.
  const begins = as === "paused" && step.sessionOf(contender.sessionId)?.request === undefined;
  if (begins || waiting?.priority !== contender.priority || next.moves.length > 0)
    logDecision(step, logged, contender.sessionId);
  applyMoves(step, next, "replaced", contender);
  send(step, contender.sessionId, { type: "queue", contender, decision: logged, turn, given });
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
  const decision = wakeDecision(woken.contender, woken.reason, given.catalog.agents);
  makeAudible(
    step,
    plainContender(woken.contender),
    woken.reason === "resumed" ? "resume" : "activate",
    decision,
    next,
  );
}

/** `resume_delay` has passed: the reserved session is woken, or a session that has become the better one. */
export function handleDue(step: ArbiterStep): void {
  step.floor = { ...step.floor, reserved: undefined };
  settleAndNotify(step, undefined, 0);
}

/**
 * The request of a session ends without a grant, unless it has ended before. A queued session leaves the queue, and
 * remains `created`; a paused one waits on only as it did before.
 */
export function endWait(step: ArbiterStep, sessionId: SessionId, reason: "queue_timeout" | "lease_expired"): void {
  const { floor, given } = step;
  const isOwn = (contender: Contender) => contender.sessionId === sessionId;
  const queued = floor.queued.find(isOwn);
  const waited = queued ?? floor.paused.find((contender) => isOwn(contender) && contender.wants);
  if (!waited) return;
  const decision = endOfWaitDecision(waited, floor.holder, given.catalog.agents, reason);
  logDecision(step, decision, sessionId);
  const wantsNoMore = ({ wants: _, ...contender }: Contender): Contender => contender;
  if (queued) forget(step, sessionId);
  else step.floor = { ...floor, paused: floor.paused.map((each) => (isOwn(each) ? wantsNoMore(each) : each)) };
  send(step, sessionId, { type: "unqueue", decision, given });
}

/** A session has switched its agent: the floor settles with the new numbers. */
export function switchNumbers(step: ArbiterStep, contender: Contender): void {
  const { sessionId: id, askedAt: _a, finishes: _f, ...numbers } = contender;
  putNumbers(step, ({ sessionId }) => (sessionId === id ? numbers : undefined));
}

/**
 * Rule N: the catalogue was replaced. Every contender gets the numbers that a request would give it now, except if its
 * agent does not answer.
 */
export function renumber(step: ArbiterStep): void {
  const { given } = step;
  const before = everyone(step.floor);
  putNumbers(step, ({ agentId }) => {
    const agent = given.catalog.agents.get(agentId);
    return agent?.enabled ? numbersOf(step, agent) : undefined;
  });
  for (const [index, contender] of everyone(step.floor).entries()) {
    if (JSON.stringify(contender) === JSON.stringify(before[index])) continue;
    send(step, contender.sessionId, { type: "renumber", contender: plainContender(contender), given });
  }
}

/** Give contenders other numbers; undefined: they keep their own. */
function putNumbers(step: ArbiterStep, numbersFor: (contender: Contender) => Numbers | undefined): void {
  const put = <C extends Contender>(contender: C): C => {
    const numbers = numbersFor(contender);
    return numbers ? withNumbers(contender, numbers) : contender;
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
  const contender = floor.holder ?? reservedContender(floor);
  return contender ? [contender.sessionId] : [];
}
