import { assertEvent, enqueueActions, setup } from "xstate";
import { type AgentEntry, acceptsTurns, findAgent, findModeFault, listAgents } from "../../config/catalog/catalog.ts";
import { MAX_FLAGS } from "../../protocol/floor.ts";
import { type AgentId, type FloorId, type SessionId, userOf } from "../../protocol/ids.ts";
import type {
  Command,
  CommandOf,
  History,
  TurnInput,
  WantedSchedule,
  WantedSession,
} from "../../protocol/internal/command.ts";
import type { Schedule } from "../../protocol/session.ts";
import { accept, acceptWithSession, type Emitted, type Given } from "../facts.ts";
import { type carriedBy, newSession, type SessionContext, sessionView } from "../session/session-context.ts";
import { type SessionInput, sessionMachine } from "../session/session-machine.ts";
import { MAX_SCHEDULES, readSchedule, scheduled } from "../session/session-schedule.ts";
import type { EventForArbiter } from "../session/session-step.ts";
import { externalAcceptsNoTurns, userMessage } from "../session/turns.ts";
import {
  type ArbiterContext,
  type ArbiterStep,
  emit,
  emitFloor,
  floorLanguageOf,
  hoursOn,
  logDecision,
  numbersOf,
  refuse,
  send,
} from "./arbiter-step.ts";
import { decide } from "./arbitration.ts";
import { type Contender, withNumbers } from "./contender.ts";
import { EMPTY_FLOOR, everyone, without } from "./floor-state.ts";
import {
  currentRules,
  endWait,
  forget,
  grant,
  handleDue,
  handleRequest,
  makeWait,
  newContender,
  passTurnOrAnswer,
  renumber,
  settleAndNotify,
  stoppable,
  switchNumbers,
  withEffects,
} from "./grants.ts";
import { giveFront, letBeneath, letWait } from "./rearrangement.ts";

type Timely<T> = T & { given: Given };

/** The events that the arbiter decides about. */
type FloorEvent =
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

export type ArbiterEvent =
  | FloorEvent
  /** The host has loaded a session from its row, because a command names it. */
  | { type: "load"; input: SessionInput }
  /** The host drops sessions that the floor does not need (rule C6). */
  | { type: "evict"; sessionIds: SessionId[] };

/** How a session is created. */
interface Creation {
  activate: boolean;
  turn?: TurnInput | undefined;
  schedule?: WantedSchedule | undefined;
  history?: History | undefined;
  /** The session that it replaces, which is archived. */
  replaces?: SessionId | undefined;
  /** The unfinished turns of a session that comes from another floor, and what it brings along. */
  turns?: readonly TurnInput[] | undefined;
  carried?: ReturnType<typeof carriedBy> | undefined;
  /** Whether the first of them began there. */
  hasBegun?: boolean | undefined;
}

/**
 * `session.create`, `session.copy` or a first message: decided before anything exists, so that a rejection leaves
 * nothing behind.
 */
function create(step: ArbiterStep, wanted: WantedSession, creation: Creation): void {
  const { given, floorId } = step;
  const { catalog } = given;
  const { workspaceId } = wanted;
  const name = wanted.agentId ?? catalog.defaultAgentId;
  const agent = findAgent(catalog, name, workspaceId);
  if (!agent?.enabled) {
    const facts = { availableAgents: listAgents(catalog, workspaceId) };
    return refuse(step, "agent_not_found", { message: `Invalid agent ID: ${name}`, facts });
  }
  const agentId = agent.id;
  if (creation.turn && !acceptsTurns(agent))
    return refuse(step, "illegal_command", { message: externalAcceptsNoTurns(agent) });
  const { sessionId } = wanted;
  const contender = newContender(step, { ...numbersOf(step, agent), ...floorLanguageOf(wanted) }, sessionId);
  const { history, replaces, turns = [], carried, hasBegun } = creation;
  const schedule = creation.schedule && findSchedule(step, creation.schedule, wanted, agent);
  if (schedule === "refused") return;
  const obstacle = replaces === undefined ? undefined : whyNotReplaced(step, replaces);
  if (obstacle) return refuse(step, obstacle);
  const modeFault = wanted.mode === undefined ? undefined : findModeFault(agent, wanted.mode);
  // A copy begins in the first mode if the catalogue has changed since.
  if (modeFault && !history) return refuse(step, "bad_request", { facts: { issues: [modeFault] } });
  const mode = modeFault ? undefined : wanted.mode;
  const spawn = () => {
    const fresh = newSession({ ...wanted, mode }, floorId, contender, given.now, history);
    const carriedTurns = withTurns(fresh, turns, hasBegun);
    addSession(step, { ...fresh, ...carried, ...carriedTurns, ...(schedule && scheduled(schedule, given)) }, history);
    for (const turn of turns)
      emit(step, { type: "message.add", message: userMessage(sessionId, turn, "queued", given.now) });
    if (replaces !== undefined) replace(step, replaces, { sessionId, agentId });
  };
  const inheritsFloor = replaces !== undefined && step.floor.holder?.sessionId === replaces;
  if (creation.activate || inheritsFloor) {
    const { turn } = creation;
    return createInFront(step, contender, agent, { replaces, turn, group: wanted.group }, spawn);
  }
  spawn();
  emit(step, acceptWithSession({ sessionId }));
}

/** The schedule of a new session, or of one that gets another one. */
function findSchedule(
  step: ArbiterStep,
  wanted: WantedSchedule,
  { userId, schedule: former }: { userId?: string | undefined; schedule?: Schedule | undefined },
  agent: AgentEntry | undefined,
): Schedule | "refused" {
  const refused = (...about: Parameters<typeof refuse> extends [ArbiterStep, ...infer Rest] ? Rest : never) => {
    refuse(step, ...about);
    return "refused" as const;
  };
  if (agent && wanted.content !== undefined && !acceptsTurns(agent))
    return refused("illegal_command", { message: externalAcceptsNoTurns(agent) });
  const schedule = readSchedule(wanted, step.given);
  if ("message" in schedule) return refused("bad_request", { facts: { issues: [schedule] } });
  // The sessions of a series are on its floor, and a session without a user has a floor to itself.
  if (schedule.every !== undefined && userId === undefined)
    return refused("bad_request", { facts: { issues: [{ path: "body.userId", message: "is needed with every" }] } });
  if (!former && step.scheduledCount() >= MAX_SCHEDULES) return refused("too_many_schedules");
  return schedule;
}

/** Ask for the floor with a new session. It is created unless the request is rejected. */
function createInFront(
  step: ArbiterStep,
  contender: Contender,
  agent: AgentEntry,
  { replaces, turn, group }: Pick<Creation, "replaces" | "turn"> & Pick<WantedSession, "group">,
  spawn: () => void,
): void {
  const { sessionId } = contender;
  const floor = replaces === undefined ? step.floor : without(step.floor, [replaces]);
  const decision = decide(floor, { ...contender, agent, waits: "queued" }, currentRules(step));
  if (decision.outcome === "rejected") {
    logDecision(step, decision);
    // Of a request for all zones a refusal tells the sessions, because nothing else is left of it.
    return refuse(step, "rejected", { message: decision.say, facts: { decision, ...(group && { group }) } });
  }
  spawn();
  if (decision.outcome === "queued") return makeWait(step, contender, "queued", decision, turn);
  passTurnOrAnswer(step, sessionId, grant(step, contender, "activate", decision), turn);
}

function addSession(step: ArbiterStep, context: SessionContext, history: History | undefined): void {
  const { id: sessionId } = context;
  const data = sessionView(context, { lifecycle: "created", activity: "idle" });
  step.actions.push({ spawn: { context, lifecycle: "created", activity: "idle" } });
  if (history?.stagedAs) emit(step, { type: "history.staged", sessionId, stagedAs: history.stagedAs });
  emit(step, { type: "event", event: { type: "session_created", sessionId, data } });
}

/** The turns that wait in a session from its beginning. */
const withTurns = ({ messageCount }: SessionContext, turns: readonly TurnInput[], hasBegun = false) => ({
  turns: turns.map(({ messageId, runId }, index) => ({
    messageId,
    runId,
    ...(hasBegun && index === 0 && { hasBegun: true as const }),
  })),
  messageCount: messageCount + turns.length,
});

/** Only one of several copies that are made at once can replace a session. */
function whyNotReplaced(step: ArbiterStep, id: SessionId): "session_not_found" | "session_archived" | undefined {
  const replaced = step.sessionOf(id);
  if (!replaced) return "session_not_found";
  return replaced.replacedBy === undefined ? undefined : "session_archived";
}

/**
 * Archive a session in favour of another one. It leaves the floor first, so that its end wakes no other session. One
 * that goes on on another floor leaves this one like any session that ends.
 */
function replace(
  step: ArbiterStep,
  sessionId: SessionId,
  by: { sessionId: SessionId; agentId: AgentId },
  movedTo?: FloorId,
): void {
  if (step.sessionOf(sessionId)?.archivedAt !== undefined) return;
  if (movedTo !== undefined)
    return void send(step, sessionId, { type: "archive", reason: "moved", by, movedTo, given: step.given });
  forget(step, sessionId);
  send(step, sessionId, { type: "archive", reason: "superseded", by, given: step.given });
}

function whatIf(step: ArbiterStep, agentId: string, locale: string | undefined): void {
  const { catalog } = step.given;
  const agent = catalog.agents.get(agentId);
  const unknown = { agentId: agentId as AgentId, priority: 0, interruptible: true, explained: [] };
  const numbers = { ...(agent ? numbersOf(step, agent) : unknown), ...floorLanguageOf({ locale }) };
  const rules = currentRules(step);
  const decision = decide(step.floor, { ...numbers, agent, waits: "queued" }, rules);
  if (decision.outcome === "rejected") return emit(step, accept({ decision }));
  // A placeholder id for the session that would be created; no session has it.
  const contender = newContender(step, numbers, "" as SessionId);
  const { moves } =
    decision.outcome === "queued"
      ? letWait(step.floor, contender, "queued", step.given.now, rules)
      : (decision.reason === "beneath" ? letBeneath : giveFront)(step.floor, contender, rules);
  emit(step, accept({ decision: withEffects(decision, moves, contender, catalog) }));
}

function stopSessions(step: ArbiterStep, sessionIds: SessionId[]): void {
  emit(step, accept({ archived: sessionIds }));
  for (const sessionId of sessionIds) {
    send(step, sessionId, { type: "archive", reason: "stop", given: step.given });
  }
}

/** Whether the existing session is the requested one, so that the command is a repeat. */
function isSame(step: ArbiterStep, wanted: WantedSession, session: SessionContext): boolean {
  const { numbers, userId, zone, ownerId, workspaceId } = session;
  const named = wanted.agentId && (findAgent(step.given.catalog, wanted.agentId, workspaceId)?.id ?? wanted.agentId);
  return (
    (named === undefined || named === numbers.agentId) &&
    wanted.userId === userId &&
    wanted.zone === zone &&
    wanted.ownerId === ownerId &&
    wanted.workspaceId === workspaceId
  );
}

type CommandToSession = Exclude<
  Timely<Extract<Command, { sessionId?: SessionId | undefined }>>,
  { type: "session.create" | "session.copy" | "session.move" }
>;

/** Pass a command on to its session. */
function pass(step: ArbiterStep, command: CommandToSession): void {
  const sessionId = command.sessionId!;
  const session = step.sessionOf(sessionId);
  if (!session) {
    // A worker that still drives a run of a deleted session must stop.
    if (command.type.startsWith("run.")) return emit(step, accept({ directive: { verdict: "stop", answers: [] } }));
    return refuse(step, "session_not_found");
  }
  if (command.type === "session.replace") {
    emit(step, accept({ sessionId }));
    replace(step, sessionId, command.by, command.movedTo);
    return;
  }
  if (command.type === "session.schedule") {
    const agent = step.given.catalog.agents.get(session.numbers.agentId);
    if (findSchedule(step, command.schedule, session, agent) === "refused") return;
  }
  if (command.type === "session.switch_agent") {
    const agent = findAgent(step.given.catalog, command.agentId.trim(), session.workspaceId);
    const contender = agent && withNumbers(session.numbers, numbersOf(step, agent));
    return void send(step, sessionId, { ...command, ...(contender && { contender }) });
  }
  send(step, sessionId, command);
  if (command.type === "session.delete") {
    step.actions.push({ stop: sessionId });
    if (userOf(step.floorId) === undefined) clearFlags(step);
  }
}

/** The creation of a session that exists: a repeat is accepted, a request for another session is refused. */
function acceptRepeat(
  step: ArbiterStep,
  command: CommandOf<"session.create" | "session.copy">,
  session: SessionContext,
): void {
  const { sessionId } = command;
  const hasSameOrigin =
    command.type === "session.create" || JSON.stringify(session.origin) === JSON.stringify(command.history.origin);
  if (!hasSameOrigin || !isSame(step, command.session, session)) return refuse(step, "idempotency_mismatch");
  emit(step, acceptWithSession({ sessionId }));
}

/** A floor of a single session is deleted with it, so that a later session with the same id inherits nothing. */
function clearFlags(step: ArbiterStep): void {
  if (Object.keys(step.flags).length === 0) return;
  step.flags = {};
  emitFloor(step);
}

/** Whether the hours of other restrictions are in force than after the event before. */
const isAnotherHour = (step: ArbiterStep, { hours }: ArbiterContext): boolean =>
  hoursOn(step.floor, step.given, hours)?.inForce.join() !== hours?.inForce.join();

/** Decide about an event, settle the floor, and emit what of it has changed. @returns what changes in the context */
function changeBy(step: ArbiterStep, event: FloorEvent, context: ArbiterContext): Partial<ArbiterContext> | undefined {
  // The change comes before what it does to the sessions.
  if (event.type === "hours" && isAnotherHour(step, context)) emitFloor(step);
  handle(step, event);
  const isRenumbered = context.catalog !== step.given.catalog.hash;
  const isHour = isAnotherHour(step, context);
  if (isRenumbered || isHour || step.floor !== context.floor || step.flags !== context.flags)
    settleAndNotify(step, step.cause);
  const hours = hoursOn(step.floor, step.given, context.hours);
  // Nobody was told of the hours while the floor had no session.
  const isFirst = hours && !context.hours && event.type !== "renumber";
  // The command that changed the flags has logged the change.
  if (isFirst || step.floor.reserved !== context.floor.reserved) emitFloor(step);
  const { floor, flags, asked } = step;
  const isChanged = floor !== context.floor || flags !== context.flags || hours !== context.hours;
  return isRenumbered || isChanged ? { floor, flags, catalog: step.given.catalog.hash, hours, asked } : undefined;
}

function handle(step: ArbiterStep, event: FloorEvent): void {
  switch (event.type) {
    case "session.create":
    case "session.copy": {
      const existing = step.sessionOf(event.sessionId);
      return existing ? acceptRepeat(step, event, existing) : create(step, event.session, event);
    }
    case "session.move": {
      if (step.sessionOf(event.sessionId)) return refuse(step, "idempotency_mismatch");
      return create(step, event.session, { ...event, activate: true });
    }
    case "session.chat":
      if (!event.session || step.sessionOf(event.sessionId)) return pass(step, event);
      return create(step, event.session, { activate: true, turn: event.turn });
    case "request":
      return handleRequest(step, event);
    case "occurs":
      return addSession(step, event.occurrence, undefined);
    case "left":
      return forget(step, event.sessionId);
    case "wait_over":
      return endWait(step, event.sessionId, event.reason);
    case "switched":
      step.cause = "agent_switched";
      return switchNumbers(step, event.contender);
    case "renumber":
      step.cause = "catalogue_changed";
      emitFloor(step, { hash: step.given.catalog.hash, former: event.former });
      return renumber(step);
    case "due":
      return handleDue(step);
    case "hours":
      return;
    case "alarm":
      return emit(step, accept({}));
    case "floor.stop":
      return stopSessions(step, stoppable(step));
    case "floor.stop_all":
      return stopAll(step);
    case "floor.ignore":
      return emit(step, accept({}));
    case "floor.flags":
      return setFlags(step, event.flags);
    case "floor.patch_flags":
      return patchFlags(step, event);
    case "floor.what_if":
      return whatIf(step, event.agentId, event.locale);
    default:
      return pass(step, event);
  }
}

function stopAll(step: ArbiterStep): void {
  const all = everyone(step.floor);
  // Remove all sessions from the lists first, so that the end of one wakes no other session.
  for (const contender of all) forget(step, contender.sessionId);
  stopSessions(
    step,
    all.map((contender) => contender.sessionId),
  );
}

function setFlags(step: ArbiterStep, flags: Record<string, boolean>): void {
  step.flags = flags;
  emitFloor(step);
  emit(step, accept({ flags }));
}

function patchFlags(step: ArbiterStep, { flags }: CommandOf<"floor.patch_flags">): void {
  const all = { ...step.flags, ...flags };
  if (Object.keys(all).length > MAX_FLAGS) {
    const issues = [{ path: "body", message: `the floor would have more than ${MAX_FLAGS} flags` }];
    return refuse(step, "bad_request", { facts: { issues } });
  }
  setFlags(step, all);
}

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
    /** Decide about an event, and then carry out the actions that the step has collected. */
    arbitrate: enqueueActions(({ context, event, enqueue, self }) => {
      if (!("given" in event)) throw new TypeError(`the arbiter does not decide about ${event.type}`);
      const { children } = self.getSnapshot();
      const step: ArbiterStep = {
        given: event.given,
        floorId: context.floorId,
        floor: context.floor,
        flags: context.flags,
        asked: context.asked,
        sessionOf: (sessionId) => children[sessionId]?.getSnapshot().context,
        scheduledCount: () =>
          Object.values(children).filter((child) => child?.getSnapshot().context?.schedule !== undefined).length,
        actions: [],
      };
      const change = changeBy(step, event, context);
      if (change) enqueue.assign(change);
      for (const action of step.actions) {
        if ("facts" in action) enqueue.emit({ type: "facts", facts: action.facts });
        else if ("spawn" in action) enqueue.spawnChild("session", { id: action.spawn.context.id, input: action.spawn });
        else if ("stop" in action) enqueue.stopChild(action.stop);
        else enqueue.sendTo(action.to, action.event);
      }
    }),
    loadSession: enqueueActions(({ event, enqueue }) => {
      assertEvent(event, "load");
      enqueue.spawnChild("session", { id: event.input.context.id, input: event.input });
    }),
    evictSessions: enqueueActions(({ event, enqueue }) => {
      assertEvent(event, "evict");
      for (const id of event.sessionIds) enqueue.stopChild(id);
    }),
  },
});

/**
 * The arbiter of one floor: supervises the sessions that compete for it, and decides by the rules of
 * docs/use/arbitration.md. `arbitrate` does not depend on the state. The states mirror `context.floor` because viewers
 * of the machine show them: the statecharts of `interlock machines`, and inspectors.
 */
export const arbiterMachine = machine.createMachine({
  id: "arbiter",
  context: ({ input }) => ({ floorId: input.floorId, floor: EMPTY_FLOOR, flags: {} }),
  on: {
    "session.*": { actions: "arbitrate" },
    "run.*": { actions: "arbitrate" },
    "floor.*": { actions: "arbitrate" },
    alarm: { actions: "arbitrate" },
    due: { actions: "arbitrate" },
    hours: { actions: "arbitrate" },
    request: { actions: "arbitrate" },
    left: { actions: "arbitrate" },
    wait_over: { actions: "arbitrate" },
    occurs: { actions: "arbitrate" },
    switched: { actions: "arbitrate" },
    renumber: { actions: "arbitrate" },
    load: { actions: "loadSession" },
    evict: { actions: "evictSessions" },
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
