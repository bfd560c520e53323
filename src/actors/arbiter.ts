import { enqueueActions, setup } from "xstate";
import { listAgents } from "../config/catalog.ts";
import type { Command, CommandOf, NewSession, TurnInput } from "../protocol/command.ts";
import type { AgentId, FloorId, SessionId } from "../protocol/ids.ts";
import {
  enqueue,
  fireTimer,
  forget,
  grant,
  replaceClaim,
  takeLeave,
  takeRequest,
  takeTurnOrAnswer,
} from "./arbiter-floor.ts";
import { type ArbiterContext, type ArbiterStep, log, numbersOf, refuse, send, tell } from "./arbiter-step.ts";
import { type Claim, decide, EMPTY_FLOOR } from "./arbitration.ts";
import { accept, type Emitted, type Given } from "./facts.ts";
import { type SessionInput, sessionMachine } from "./session.ts";
import { newSession, type SessionContext, sessionView } from "./session-context.ts";
import type { SessionWord } from "./session-step.ts";

type Timely<T> = T & { given: Given };

export type ArbiterEvent =
  | Timely<Command>
  | SessionWord
  /** The host brings a session in, from its row, because a command names it. */
  | { type: "bring"; input: SessionInput }
  /** The host lets go of sessions that no longer matter to the floor (rule C6). */
  | { type: "release"; sessionIds: SessionId[] };

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

const NOTHING_GIVEN = undefined as unknown as Given;

const machine = setup({
  types: {
    context: {} as ArbiterContext,
    events: {} as ArbiterEvent,
    emitted: {} as Emitted,
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
        if ("facts" in deed) enqueue.emit({ type: "facts", facts: deed.facts });
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
