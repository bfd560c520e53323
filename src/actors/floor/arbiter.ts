/**
 * The arbiter of a floor: `arbitration.ts` says who wins, `rearrangement.ts` what the floor becomes, and this file
 * carries it out. The rules: docs/use/arbitration.md.
 */

import type { Decision } from "../../protocol/decision.ts";
import type { AgentId, SessionId } from "../../protocol/ids.ts";
import type { Command, CommandOf, TurnInput, WantedSession } from "../../protocol/internal/command.ts";
import { flow } from "../../shared/flow.ts";
import { accept, acceptWithSession, type Fact, type Given, type Timely } from "../facts.ts";
import { type carriedBy, lengthsOf } from "../session/session-context.ts";
import type { EventForArbiter, SessionEvent } from "../session/session-step.ts";
import {
  type ArbiterContext,
  type ArbiterStep,
  currentRules,
  emitFloor,
  type FloorOrder,
  floorLanguageOf,
  hoursOn,
  newContender,
  refuse,
  type SeenSessions,
} from "./arbiter-step.ts";
import { type Challenger, decide, endOfWaitDecision, wakeDecision } from "./arbitration.ts";
import { depth } from "./audible-together.ts";
import { type Contender, type Numbers, numbersOf, withNumbers } from "./contender.ts";
import { acceptRepeat, addSession, type Creation, checkNewcomer } from "./creation.ts";
import { pass, patchFlags, refuseAgent, renumberAll, setFlags, stopSessions, switchNumbers } from "./floor-commands.ts";
import { audible, everyone, type Floor, frontOf, plainContender, without } from "./floor-state.ts";
import {
  giveFront,
  leave,
  letBeneath,
  letWait,
  type Move,
  type Rearrangement,
  renumber,
  settle,
} from "./rearrangement.ts";

/** The events that the arbiter decides about. */
export type ArbiterEvent =
  | Timely<Exclude<Command, { type: "session.move" }>>
  /** The host adds what the session brings along. */
  | Timely<CommandOf<"session.move"> & { carried?: ReturnType<typeof carriedBy>; hasBegun?: boolean }>
  | EventForArbiter
  /** The floor's reservation is over. */
  | Timely<{ type: "due" }>
  /** The hours of a restriction may have begun or ended. */
  | Timely<{ type: "hours" }>
  /** The floor's next command comes under another catalogue than its last one. `former`: the hash of that. */
  | Timely<{ type: "renumber"; former: string }>;

/** What the arbiter makes of one event. */
export interface Arbitrated {
  /** The same object as before if nothing changed. */
  readonly context: ArbiterContext;
  readonly facts: readonly Fact[];
  /** Carry them out in this order, after the facts. */
  readonly orders: readonly FloorOrder[];
}

/** Decide about an event, settle the floor, and say what of it has changed. Pure. */
export function arbitrate(context: ArbiterContext, event: ArbiterEvent, sessions: SeenSessions): Arbitrated {
  const { given } = event;
  const { floorId, floor: before, flags: flagsBefore, hours: known } = context;
  const step: ArbiterStep = {
    ...{ given, floorId, sessions, floor: before, flags: flagsBefore, asked: context.asked },
    ...{ facts: [], orders: [] },
  };
  const hoursNow = () => hoursOn(step.floor, given, known);
  const isAnother = (hours: ArbiterContext["hours"]) => hours?.inForce.join() !== known?.inForce.join();
  // The change comes before what it does to the sessions.
  if (event.type === "hours" && isAnother(hoursNow())) emitFloor(step);
  handle(step, event);
  let hours = hoursNow();
  const isRenumbered = context.catalog !== given.catalog.hash;
  if (isRenumbered || isAnother(hours) || step.floor !== before || step.flags !== flagsBefore) {
    settleAndNotify(step, step.cause);
    if (everyone(step.floor).length === 0) hours = undefined;
  }
  // Nobody was told of the hours while the floor had no session.
  const isFirst = hours && !known && event.type !== "renumber";
  // The command that changed the flags has logged the change.
  if (isFirst || step.floor.reserved !== before.reserved) emitFloor(step);
  const { floor, flags, asked, facts, orders } = step;
  flow.onHop?.("arbiter", [event.type, ...orders.map((order) => ("to" in order ? order.event.type : ""))].join(" "));
  const isChanged = isRenumbered || floor !== before || flags !== flagsBefore || hours !== known;
  const after = isChanged ? { ...context, floor, flags, catalog: given.catalog.hash, hours, asked } : context;
  return { context: after, facts, orders };
}

function handle(step: ArbiterStep, event: ArbiterEvent): void {
  switch (event.type) {
    case "session.create":
    case "session.copy": {
      const existing = step.sessions.sessionOf(event.sessionId);
      return existing ? acceptRepeat(step, event, existing) : create(step, event.session, event);
    }
    case "session.move": {
      if (step.sessions.sessionOf(event.sessionId)) return refuse(step, "idempotency_mismatch");
      return create(step, event.session, { ...event, activate: true });
    }
    case "session.chat":
      if (!event.session || step.sessions.sessionOf(event.sessionId)) return pass(step, event);
      return create(step, event.session, { activate: true, turn: event.turn });
    case "request":
      return handleRequest(step, event);
    case "occurs":
      return addSession(step, event.occurrence);
    case "left":
      step.floor = leave(step.floor, event.sessionId);
      return;
    case "wait_over":
      return endWait(step, event.sessionId, event.reason);
    case "switched":
      step.cause = "agent_switched";
      return switchNumbers(step, event.contender);
    case "renumber":
      step.cause = "catalogue_changed";
      emitFloor(step, { hash: step.given.catalog.hash, former: event.former });
      return renumberAll(step);
    case "due":
      // `resume_delay` has passed: the reserved session is woken, or a session that has become the better one.
      step.floor = { ...step.floor, reserved: undefined };
      return settleAndNotify(step, undefined, 0);
    case "hours":
      return;
    // What was due has been carried out before the event (`FloorActors.apply`).
    case "alarm":
    case "floor.ignore":
      step.facts.push(accept({}));
      return;
    case "floor.stop": {
      const front = frontOf(step.floor);
      return stopSessions(step, front ? [front] : []);
    }
    case "floor.stop_all": {
      const all = everyone(step.floor);
      // All leave the floor first, so that the end of one wakes no other session.
      for (const { sessionId } of all) step.floor = leave(step.floor, sessionId);
      return stopSessions(step, all);
    }
    case "floor.flags":
      return setFlags(step, event.flags);
    case "floor.patch_flags":
      return patchFlags(step, event);
    case "floor.what_if":
      return refuseAgent(step, event.agentId, event.locale);
    default:
      if (!/^(session|run)\./.test(event.type)) throw new TypeError(`the arbiter does not decide about ${event.type}`);
      return pass(step, event);
  }
}

/** A session that does not exist yet. A rejection leaves nothing behind. */
function create(step: ArbiterStep, wanted: WantedSession, creation: Creation): void {
  const newcomer = checkNewcomer(step, wanted, creation);
  if (!newcomer) return;
  const { contender, agent, spawn } = newcomer;
  const { sessionId } = contender;
  const { replaces, turn } = creation;
  const inheritsFloor = replaces !== undefined && step.floor.holder?.sessionId === replaces;
  if (!creation.activate && !inheritsFloor) {
    spawn();
    step.facts.push(acceptWithSession({ sessionId }));
    return;
  }
  const floor = replaces === undefined ? step.floor : without(step.floor, [replaces]);
  const decision = decide(floor, { ...contender, agent, waits: "queued" }, currentRules(step));
  if (decision.outcome === "rejected") {
    logDecision(step, decision);
    // Of a request for all zones a refusal tells the sessions, because nothing else is left of it.
    const group = wanted.group && { group: wanted.group };
    return refuse(step, "rejected", { message: decision.say, facts: { decision, ...group } });
  }
  spawn();
  if (decision.outcome === "queued") return makeWait(step, contender, "queued", decision, turn);
  passTurnOrAnswer(step, sessionId, grant(step, contender, "activate", decision), turn);
}

/** Handle the request of an existing session. */
function handleRequest(step: ArbiterStep, request: Extract<EventForArbiter, { type: "request" }>): void {
  const { given } = step;
  const { sessionId, turn, waits, isScheduled } = request;
  const kept = step.sessions.sessionOf(sessionId)!.numbers;
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
  if (isScheduled) return void step.orders.push({ to: sessionId, event: { type: "miss", turn, given } });
  refuse(step, "rejected", { message: decision.say, facts: { decision } });
}

/** The session may take its turn: pass the turn on to it, or answer a request without one. */
function passTurnOrAnswer(step: ArbiterStep, sessionId: SessionId, decision: Decision, input?: TurnInput): void {
  if (!input) return void step.facts.push(acceptWithSession({ sessionId, decision }));
  const { messageId, runId } = input;
  const turn = { messageId, runId };
  step.orders.push({ to: sessionId, event: { type: "turn", turn, input, decision, given: step.given } });
}

/**
 * Carry out a granted request.
 * @returns the logged decision, with its effects on other sessions
 */
function grant(
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
  const logged = withEffects(step, decision, next.moves, contender);
  const session = step.sessions.sessionOf(sessionId);
  const isPostponed = session?.idleSince !== undefined && lengthsOf(session, given.catalog).idleTimeoutMs !== undefined;
  if (isPostponed || next.moves.length > 0 || floor.holder?.priority !== contender.priority)
    logDecision(step, logged, sessionId);
  rearrange(step, next, "replaced", contender);
  const renewed = { type: "renumber", contender: plainContender(contender), isRequest: true, given } as const;
  step.orders.push({ to: sessionId, event: renewed });
  return logged;
}

/** A refused session goes on with the numbers of this request, unless they change who is heard (invariant 6). */
function renewRefused(step: ArbiterStep, to: SessionId, numbers: Numbers): void {
  const { given } = step;
  const kept = step.sessions.sessionOf(to)!.numbers;
  if (kept.priority === numbers.priority) return;
  const floor = renumber(step.floor, ({ sessionId }) => (sessionId === to ? numbers : undefined));
  const { restricted, moves } = settle(floor, currentRules(step), given);
  if (restricted.length + moves.length > 0) return;
  step.floor = floor;
  step.orders.push({ to, event: { type: "renumber", contender: withNumbers(kept, numbers), given } });
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
  { floor, moves }: Rearrangement,
  turnFollows = false,
): Decision {
  const { given } = step;
  const { sessionId } = contender;
  const { reason } = decision;
  const logged = withEffects(step, decision, moves, contender);
  logDecision(step, logged, sessionId);
  const kept = floor.ducked.find((each) => each.sessionId === sessionId);
  // A critical session that is audible beneath another asked again: its rank is the same, its numbers may not be.
  const isSame = kept && !moves.some((move) => move.contender.sessionId === sessionId);
  const all = isSame ? [...moves, { becomes: "ducked" as const, contender, level: kept.level }] : moves;
  const about = { contender, reason, turnFollows, given };
  rearrange(step, { floor, moves: all }, reason, contender, (move) =>
    move.becomes === "ducked" ? { type: "duck", level: move.level, ...about } : { type: verb, ...about },
  );
  return logged;
}

/** Log a decision. Pass `sessionId` only if that session exists afterwards. */
function logDecision(step: ArbiterStep, decision: Decision, sessionId?: SessionId): void {
  step.facts.push({ type: "event", event: { type: "arbitration", data: decision, ...(sessionId && { sessionId }) } });
}

/** The decision, with its effects on other sessions if the catalogue lets sessions be audible together. */
function withEffects(
  { given }: ArbiterStep,
  decision: Decision,
  moves: readonly Move[],
  contender: Contender,
): Decision {
  const others = moves.filter((move) => move.contender.sessionId !== contender.sessionId);
  if (!given.catalog.isShared || others.length === 0) return decision;
  const effects = others.map((move) => ({
    sessionId: move.contender.sessionId,
    agentId: move.contender.agentId,
    becomes: move.becomes,
    ...(move.becomes === "ducked" && { level: move.level }),
  }));
  return { ...decision, effects };
}

/**
 * The floor becomes another one, and each session that it moves is told, in order.
 * @param winner the session in whose favour, if there is one
 * @param own what the winner is told. Default: what all are told
 */
function rearrange(
  step: ArbiterStep,
  { floor, moves }: Rearrangement,
  reason: string,
  winner?: Contender,
  own?: (move: Move) => SessionEvent,
): void {
  const before = step.floor;
  step.floor = floor;
  for (const move of moves) {
    const to = move.contender.sessionId;
    const cause = causeOf(move, before, floor, winner);
    const by = cause && { by: { sessionId: cause.sessionId, agentId: cause.agentId } };
    const about = { reason, ...by, given: step.given };
    step.orders.push({ to, event: own && to === winner?.sessionId ? own(move) : displaced(move, about) });
  }
}

/** For whom a session is moved: the winner. If that lets it be heard, the session that comes back and does not. */
function causeOf(
  { becomes, contender }: Move,
  before: Floor,
  floor: Floor,
  winner: Contender | undefined,
): Contender | undefined {
  if (becomes !== "paused" || (winner && depth(winner, contender) === undefined)) return winner;
  const heard = new Set(audible(before).map(({ sessionId }) => sessionId));
  return floor.ducked.find((each) => !heard.has(each.sessionId) && depth(each, contender) === undefined) ?? winner;
}

/** What a session is told whose place another one takes, if any. */
function displaced(
  move: Move,
  about: { reason: string; by?: { sessionId: SessionId; agentId: AgentId }; given: Given },
): SessionEvent {
  const { becomes, contender } = move;
  if (becomes === "archived") return { type: "archive", ...about };
  if (becomes === "paused") return { type: "preempt", ...about };
  if (becomes === "ducked") return { type: "duck", contender: plainContender(contender), level: move.level, ...about };
  throw new Error(`${contender.sessionId} comes to the front without a grant`);
}

/** The session waits: a new one in the queue, for at most its agent's `queue_timeout`; a paused one where it is. */
function makeWait(
  step: ArbiterStep,
  contender: Contender,
  as: "queued" | "paused",
  decision: Decision,
  turn: TurnInput | undefined,
): void {
  const { given } = step;
  const { sessionId } = contender;
  const next = letWait(step.floor, contender, as, given.now, currentRules(step));
  const logged = withEffects(step, decision, next.moves, contender);
  const waiting = [...step.floor.queued, ...step.floor.paused].find((each) => each.sessionId === sessionId);
  // A preempted session that asks begins to wait for its request. Nothing changes when one that has asked asks again.
  const begins = as === "paused" && step.sessions.sessionOf(sessionId)?.request === undefined;
  if (begins || waiting?.priority !== contender.priority || next.moves.length > 0) logDecision(step, logged, sessionId);
  rearrange(step, next, "replaced", contender);
  step.orders.push({ to: sessionId, event: { type: "queue", contender, decision: logged, turn, given } });
}

/**
 * The request of a session ends without a grant, unless it has ended before. A queued session leaves the queue, and
 * remains `created`; a paused one waits on only as it did before.
 */
function endWait(step: ArbiterStep, sessionId: SessionId, reason: "queue_timeout" | "lease_expired"): void {
  const { floor, given } = step;
  const isOwn = (contender: Contender) => contender.sessionId === sessionId;
  const queued = floor.queued.find(isOwn);
  const waited = queued ?? floor.paused.find((contender) => isOwn(contender) && contender.wants);
  if (!waited) return;
  const decision = endOfWaitDecision(waited, floor.holder, given.catalog.agents, reason);
  logDecision(step, decision, sessionId);
  const wantsNoMore = ({ wants: _, ...contender }: Contender): Contender => contender;
  step.floor = queued
    ? leave(floor, sessionId)
    : { ...floor, paused: floor.paused.map((each) => (isOwn(each) ? wantsNoMore(each) : each)) };
  step.orders.push({ to: sessionId, event: { type: "unqueue", decision, given } });
}

/**
 * Rule S, after every event: the sessions go silent and come up as the rules say.
 * @param reason of the transitions, unless the floor goes to another session
 * @param delayMs 0 if `resume_delay` is over; absent: it applies
 */
function settleAndNotify(step: ArbiterStep, reason = "resumed", delayMs?: number): void {
  const { given } = step;
  const { restricted, woken, ...next } = settle(step.floor, currentRules(step), given, delayMs);
  rearrange(step, { floor: step.floor, moves: restricted }, "restricted");
  if (!woken) return next.floor === step.floor ? undefined : rearrange(step, next, reason);
  const decision = wakeDecision(woken.contender, woken.reason, given.catalog.agents);
  makeAudible(
    step,
    plainContender(woken.contender),
    woken.reason === "resumed" ? "resume" : "activate",
    decision,
    next,
  );
}
