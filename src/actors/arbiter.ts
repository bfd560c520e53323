import { enqueueActions, setup } from "xstate";
import type { AgentEntry } from "../config/catalog.ts";
import { listAgents } from "../config/catalog.ts";
import type { Command, CommandOf, NewSession, TurnInput } from "../protocol/command.ts";
import type { Decision } from "../protocol/decision.ts";
import type { ErrorCode } from "../protocol/errors.ts";
import { type AgentId, type EffectId, type FloorId, type SessionId, userOf } from "../protocol/ids.ts";
import {
  type Challenger,
  type Claim,
  decide,
  EMPTY_FLOOR,
  type Floor,
  queueTimeoutDecision,
  type Successor,
  successor,
  wakeDecision,
} from "./arbitration.ts";
import { accept, effectId, type Fact, type Given } from "./facts.ts";
import { effectivePriority } from "./priority.ts";
import { type SessionInput, sessionMachine } from "./session.ts";
import { newSession, type SessionContext, sessionView } from "./session-context.ts";
import type { SessionEvent, SessionWord } from "./session-step.ts";

/** What a floor remembers. */
export interface ArbiterContext {
  floorId: FloorId;
  floor: Floor;
  /** Context flags that `priority_rules` look at. */
  flags: Record<string, boolean>;
}

type Timely<T> = T & { given: Given };

export type ArbiterEvent =
  | Timely<Command>
  | SessionWord
  /** The host brings a session in, from its row, because a command names it. */
  | { type: "bring"; input: SessionInput }
  /** The host lets go of sessions that no longer matter to the floor (rule C6). */
  | { type: "release"; sessionIds: SessionId[] };

/** What one event makes of a floor, before any of it is so. Steps edit it; the machine carries it out. */
interface ArbiterStep {
  readonly given: Given;
  readonly floorId: FloorId;
  floor: Floor;
  flags: Record<string, boolean>;
  /** A session that is among the actors. */
  readonly sessionOf: (sessionId: SessionId) => SessionContext | undefined;
  /** In the order in which they are to happen. */
  readonly deeds: Deed[];
}

type Deed = { fact: Fact } | { spawn: SessionInput } | { to: SessionId; event: SessionEvent } | { stop: SessionId };

const tell = (step: ArbiterStep, fact: Fact) => step.deeds.push({ fact });
const send = (step: ArbiterStep, to: SessionId, event: SessionEvent) => step.deeds.push({ to, event });

function refuse(step: ArbiterStep, code: ErrorCode, facts?: Record<string, unknown>, message?: string): void {
  tell(step, {
    type: "reply",
    reply: { ok: false, code, ...(message !== undefined && { message }), ...(facts && { facts }) },
  });
}

/** The numbers an agent would compete with on this floor now. */
function numbersOf(step: ArbiterStep, agent: AgentEntry): Omit<Claim, "sessionId"> {
  const { given, flags, floorId } = step;
  const context = { now: given.now, userId: userOf(floorId), flags };
  const { value, explained } = effectivePriority(agent, given.catalog, context);
  const { interruptible, preemptionThreshold } = agent;
  return { agentId: agent.id, priority: value, interruptible, preemptionThreshold, explained };
}

/** Log a decision; `sessionId` only where that session exists afterwards. */
function log(step: ArbiterStep, decision: Decision, sessionId?: SessionId): void {
  if (decision.reason === "already_holder") return;
  tell(step, { type: "event", event: { type: "arbitration", data: decision, ...(sessionId && { sessionId }) } });
}

/** A session that exists asks for the floor. */
function takeRequest(step: ArbiterStep, request: Extract<SessionWord, { type: "request" }>, kept: Claim): void {
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
  grant(step, claim, request.as, decision);
  takeTurnOrAnswer(step, sessionId, decision, turn);
}

function takeTurnOrAnswer(step: ArbiterStep, sessionId: SessionId, decision: Decision, input?: TurnInput): void {
  if (!input) {
    tell(step, accept({ sessionId, decision }, true));
    return;
  }
  const { messageId, runId } = input;
  send(step, sessionId, { type: "turn", turn: { messageId, runId }, input, decision, given: step.given });
}

/** The floor changes hands: the holder is paused first, then the claim is granted (invariant 3). */
function grant(step: ArbiterStep, claim: Claim, verb: "activate" | "resume", decision: Decision): void {
  const { holder } = step.floor;
  unreserve(step);
  forget(step, claim.sessionId);
  if (holder) {
    step.floor = { ...step.floor, paused: [holder, ...step.floor.paused] };
    const by = { sessionId: claim.sessionId, agentId: claim.agentId };
    send(step, holder.sessionId, { type: "preempt", by, reason: decision.reason, given: step.given });
  }
  step.floor = { ...step.floor, holder: claim };
  send(step, claim.sessionId, { type: verb, claim, reason: decision.reason, given: step.given });
}

function enqueue(step: ArbiterStep, claim: Claim, decision: Decision, turn: TurnInput | undefined): void {
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
function forget(step: ArbiterStep, sessionId: SessionId): void {
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
function takeLeave(step: ArbiterStep, sessionId: SessionId): void {
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
function fireTimer(step: ArbiterStep, timerId: EffectId): void {
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
    const wasReserved = floor.reserved?.sessionId === waited.sessionId;
    if (wasReserved) return;
    const decision = queueTimeoutDecision(waited, floor.holder, given.catalog.agents);
    log(step, decision, waited.sessionId);
    forget(step, waited.sessionId);
    send(step, waited.sessionId, { type: "unqueue", decision, given });
  }
}

/** `session.create`, or a first message: decided before anything exists, so that a rejection leaves nothing behind. */
function create(step: ArbiterStep, wanted: NewSession, ask: { activate: boolean; turn?: TurnInput }): void {
  const { given, floorId } = step;
  const { catalog } = given;
  const agentId = wanted.agentId ?? catalog.defaultAgentId;
  const agent = catalog.agents.get(agentId);
  if (!agent?.enabled) {
    return refuse(step, "agent_not_found", { availableAgents: listAgents(catalog) }, `Invalid agent ID: ${agentId}`);
  }
  const { sessionId } = wanted;
  const claim: Claim = { ...numbersOf(step, agent), sessionId };
  const spawn = () => {
    const context = newSession(wanted, floorId, claim, given.now);
    const data = sessionView(context, { lifecycle: "created", activity: "idle" });
    step.deeds.push({ spawn: { context, lifecycle: "created", activity: "idle" } });
    tell(step, { type: "event", event: { type: "session_created", sessionId, data } });
  };
  if (!ask.activate) {
    spawn();
    tell(step, accept({ sessionId }, true));
    return;
  }
  const decision = decide(step.floor, { ...claim, agent, mayQueue: true }, catalog.policy, catalog.agents);
  if (decision.outcome === "rejected") {
    log(step, decision);
    return refuse(step, "rejected", { decision }, decision.say);
  }
  spawn();
  log(step, decision, sessionId);
  if (decision.outcome === "queued") return enqueue(step, claim, decision, ask.turn);
  grant(step, claim, "activate", decision);
  takeTurnOrAnswer(step, sessionId, decision, ask.turn);
}

function whatIf(step: ArbiterStep, agentId: string): void {
  const { catalog } = step.given;
  const agent = catalog.agents.get(agentId);
  const unknown = { agentId: agentId as AgentId, priority: 0, interruptible: true, explained: [] };
  const challenger = { ...(agent ? numbersOf(step, agent) : unknown), agent, mayQueue: true };
  tell(step, accept({ decision: decide(step.floor, challenger, catalog.policy, catalog.agents) }));
}

function stopSessions(step: ArbiterStep, sessionIds: SessionId[]): void {
  tell(step, accept({ archived: sessionIds }));
  for (const sessionId of sessionIds) {
    send(step, sessionId, { type: "archive", reason: "stop", given: step.given });
  }
}

/** Whether a session asked for by id is the one that is there: the same again changes nothing. */
function isSame(wanted: NewSession, { claim, userId, zone, ownerId, workspaceId }: SessionContext): boolean {
  return (
    (wanted.agentId === undefined || wanted.agentId === claim.agentId) &&
    wanted.userId === userId &&
    wanted.zone === zone &&
    wanted.ownerId === ownerId &&
    wanted.workspaceId === workspaceId
  );
}

/** A command about one session. */
function pass(step: ArbiterStep, command: Timely<Extract<Command, { sessionId?: SessionId | undefined }>>): void {
  const sessionId = command.sessionId!;
  const session = step.sessionOf(sessionId);
  if (!session) {
    if (command.type === "session.create") return create(step, command.session, { activate: command.activate });
    if (command.type === "session.chat" && command.session) {
      return create(step, command.session, { activate: true, turn: command.turn });
    }
    if (command.type.startsWith("run.")) {
      // Whoever still works for a session that is gone shall stop.
      tell(step, accept({ standing: { standing: "stop", answers: [] } }));
      return;
    }
    if (command.type === "timer") {
      tell(step, { type: "effect.remove", id: command.timerId });
      tell(step, accept({}));
      return;
    }
    return refuse(step, "session_not_found");
  }
  if (command.type === "session.create") {
    if (!isSame(command.session, session)) return refuse(step, "idempotency_mismatch");
    tell(step, accept({ sessionId }, true));
    return;
  }
  if (command.type === "session.switch_agent") {
    const agent = step.given.catalog.agents.get(command.agentId.trim());
    const claim = agent && { ...numbersOf(step, agent), sessionId };
    return void send(step, sessionId, { ...command, ...(claim && { claim }) });
  }
  send(step, sessionId, command);
  if (command.type === "session.delete") step.deeds.push({ stop: sessionId });
}

function take(step: ArbiterStep, event: ArbiterEvent): void {
  switch (event.type) {
    case "request":
      return takeRequest(step, event, step.sessionOf(event.sessionId)!.claim);
    case "left":
      return takeLeave(step, event.sessionId);
    case "claim":
      return replaceClaim(step, event.claim);
    case "timer":
      return event.sessionId === undefined ? fireTimer(step, event.timerId) : pass(step, event);
    case "floor.stop":
      return stopSessions(step, step.floor.holder ? [step.floor.holder.sessionId] : []);
    case "floor.stop_all":
      return stopAll(step);
    case "floor.flags":
      return setFlags(step, event);
    case "floor.what_if":
      return whatIf(step, event.agentId);
    case "bring":
      return void step.deeds.push({ spawn: event.input });
    case "release":
      return void step.deeds.push(...event.sessionIds.map((stop) => ({ stop })));
    default:
      return pass(step, event);
  }
}

function stopAll(step: ArbiterStep): void {
  const { holder, paused, queued } = step.floor;
  const all = [...(holder ? [holder] : []), ...paused, ...queued];
  // Off the lists first: as they end one after the other, nobody is woken.
  for (const claim of all) forget(step, claim.sessionId);
  stopSessions(
    step,
    all.map((claim) => claim.sessionId),
  );
}

function setFlags(step: ArbiterStep, { flags }: CommandOf<"floor.flags">): void {
  step.flags = flags;
  tell(step, { type: "event", event: { type: "floor_updated", data: { flags } } });
  tell(step, accept({ flags }));
}

function replaceClaim(step: ArbiterStep, claim: Claim): void {
  const replace = <C extends Claim>(old: C): C => (old.sessionId === claim.sessionId ? { ...old, ...claim } : old);
  const { floor } = step;
  step.floor = {
    ...floor,
    holder: floor.holder && replace(floor.holder),
    paused: floor.paused.map(replace),
    queued: floor.queued.map(replace),
  };
}

const NOTHING_GIVEN = undefined as unknown as Given;

const machine = setup({
  types: {
    context: {} as ArbiterContext,
    events: {} as ArbiterEvent,
    emitted: {} as Fact,
    input: {} as { floorId: FloorId },
  },
  actors: { session: sessionMachine },
  guards: {
    isHeld: ({ context }) => context.floor.holder !== undefined,
    isReserved: ({ context }) => context.floor.reserved !== undefined,
    isFree: ({ context }) => !context.floor.holder && !context.floor.reserved,
  },
  actions: {
    /** Every event is a step: what it makes of the floor is carried out here and nowhere else. */
    arbitrate: enqueueActions(({ context, event, enqueue, self }) => {
      const { children } = self.getSnapshot();
      const step: ArbiterStep = {
        given: "given" in event ? event.given : NOTHING_GIVEN,
        floorId: context.floorId,
        floor: context.floor,
        flags: context.flags,
        sessionOf: (sessionId) => children[sessionId]?.getSnapshot().context,
        deeds: [],
      };
      take(step, event);
      if (step.floor !== context.floor || step.flags !== context.flags) {
        enqueue.assign({ floor: step.floor, flags: step.flags });
      }
      for (const deed of step.deeds) {
        if ("fact" in deed) enqueue.emit(deed.fact);
        else if ("spawn" in deed) enqueue.spawnChild("session", { id: deed.spawn.context.id, input: deed.spawn });
        else if ("stop" in deed) enqueue.stopChild(deed.stop);
        else enqueue.sendTo(deed.to, deed.event);
      }
    }),
  },
});

/**
 * One floor: supervises the sessions that compete for it. What it decides and in which order: docs/arbitration.md. Its
 * states only say what the floor is; every event means the same in all of them.
 */
export const arbiterMachine = machine.createMachine({
  id: "arbiter",
  context: ({ input }) => ({ floorId: input.floorId, floor: EMPTY_FLOOR, flags: {} }),
  on: {
    "session.*": { actions: "arbitrate" },
    "run.*": { actions: "arbitrate" },
    "floor.*": { actions: "arbitrate" },
    timer: { actions: "arbitrate" },
    request: { actions: "arbitrate" },
    left: { actions: "arbitrate" },
    claim: { actions: "arbitrate" },
    bring: { actions: "arbitrate" },
    release: { actions: "arbitrate" },
  },
  initial: "free",
  states: {
    free: {
      always: [
        { guard: "isHeld", target: "held" },
        { guard: "isReserved", target: "reserved" },
      ],
    },
    held: {
      always: [
        { guard: "isReserved", target: "reserved" },
        { guard: "isFree", target: "free" },
      ],
    },
    reserved: {
      always: [
        { guard: "isHeld", target: "held" },
        { guard: "isFree", target: "free" },
      ],
    },
  },
});
