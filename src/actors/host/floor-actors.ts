// Rules C6, C9 and C37 of docs/inside/correctness.md.
import type { Catalog } from "../../config/catalog/catalog.ts";
import { type FloorId, type MessageId, type RunId, type SessionId, userOf } from "../../protocol/ids.ts";
import { previewOf, type Reply } from "../../protocol/internal/reply.ts";
import type { Routed } from "../../protocol/routed.ts";
import { type FloorTime, later } from "../../shared/floor-time.ts";
import { flow } from "../../shared/flow.ts";
import type { CountedTurns, DeadlineSources, Fact, Given, LoggedEvent, UsedTokens } from "../facts.ts";
import { type ArbiterEvent, arbitrate } from "../floor/arbiter.ts";
import type { ArbiterContext, FloorOrder, SeenSessions } from "../floor/arbiter-step.ts";
import { beneathDecision } from "../floor/arbitration.ts";
import { ARBITER_STATES, arbiterStateOf, EMPTY_FLOOR, everyone, type Floor } from "../floor/floor-state.ts";
import { MachinePlayer } from "../machine/machine-player.ts";
import { payerOf, type SessionContext } from "../session/session-context.ts";
import { type SessionInput, sessionMachine } from "../session/session-machine.ts";
import { READ_APART_MS } from "../session/session-schedule.ts";
import type { SessionEvent, SessionStep } from "../session/session-step.ts";
import { type Due, findDue, findRing } from "./floor-due.ts";
import { SessionActor, SessionMachineState, transitionOf } from "./session-actor.ts";

/** The result of one command. */
export interface CommandResult {
  /** Of a what-if: what its request would count. */
  previewed?: CountedTurns;
  /** In the order in which they happened, transitions included. */
  facts: Exclude<Fact, { type: "reply" }>[];
  reply: Reply;
}

/** Idle sessions kept in memory although the floor does not need them. */
const MAX_WARM = 16;

/** Deadlines that one command may find due; more can only be an endless loop. */
const MAX_DUE = 100_000;

const NONE: readonly never[] = [];

/** The session and the turn of a what-if. No client can name this id. */
const NEW = "~" as SessionId;
export const NEW_TURN = { messageId: "~" as MessageId, runId: "~" as RunId, content: "" };

/** Commands that the arbiter handles before the session does. */
export const NEEDS_ARBITER: ReadonlySet<string> = new Set([
  "session.create",
  "session.copy",
  "session.move",
  "session.replace",
  "session.delete",
  "session.switch_agent",
  "session.schedule",
]);

/** The types of the events among the facts. */
const eventsOf = (facts: readonly Fact[]): string[] =>
  facts.flatMap((fact) => (fact.type === "event" ? fact.event.type : []));

const isCreationOf = ({ type, sessionId }: LoggedEvent, id: SessionId | undefined): boolean =>
  type === "session_created" && sessionId === id;

/** Whether the sentence was heard or refused, its sender learns who was to hear it. */
export const withRouted = (reply: Reply, routed: Routed): Reply =>
  reply.ok ? { ...reply, routed } : { ...reply, facts: { ...reply.facts, routed } };

/**
 * A request that had to wait, and whose session came up with the same command, is answered as granted; one whose wait
 * was over with the same command, as refused.
 * @param facts what the command made happen. @param floor after it
 */
export function asItStands(reply: Reply, facts: readonly Fact[], floor: Floor, { catalog }: Given): Reply {
  if (!reply.ok || reply.decision?.outcome !== "queued") return reply;
  const { sessionId } = reply.decision.challenger;
  const outcomes = facts.flatMap((fact) => {
    if (fact.type !== "event" || fact.event.type !== "arbitration" || fact.event.sessionId !== sessionId) return [];
    return fact.event.data.outcome === "queued" ? [] : [fact.event.data];
  });
  const decision = outcomes.at(-1) ?? beneathDecision(floor, sessionId, catalog.agents);
  return decision ? { ...reply, decision } : reply;
}

const SESSION = new MachinePlayer<typeof sessionMachine, SessionStep>(sessionMachine);

/** A machine threw or broke its contract. The floor's actors may be half-way through a command: drop them. */
export class BrokenActors extends Error {
  constructor(floorId: FloorId, cause: unknown) {
    super(`the actors of floor ${floorId} broke`, { cause });
    this.name = "BrokenActors";
  }
}

/** A floor as its rows have it, not checked yet. */
export interface SavedFloor {
  /** The parsed output of `persist`. */
  arbiter: { status?: unknown; value?: unknown; context?: unknown };
  /** The sessions that the floor needs. */
  sessions: readonly SessionInput[];
}

/** A change of a floor that no command makes: explorations move states in time. */
export interface Alteration {
  readonly floor?: (floor: Floor) => Floor;
  readonly session?: (context: SessionContext) => SessionContext;
  /** The largest `now` given to the machines before. */
  readonly lastNow?: number;
  /** Whether archived sessions stay, which still answer commands. */
  readonly keepsArchived?: boolean;
}

/**
 * The actors of one floor: its arbiter (`arbitrate`) and its sessions, stepped by their machine's table. Each handles
 * one event at a time, and what it is sent meanwhile waits in its queue. For example, a silent session gets a message:
 * it sends `request` to the arbiter, which sends `preempt` to the holder, and `activate` and `turn` back. The holder
 * handles `preempt` at once. The session is still at work, so `activate` and `turn` follow when its step is over.
 *
 * This class collects, in order, the transitions and the facts. It is synchronous and in memory only; the host commits
 * the facts, or drops the actors.
 */
export class FloorActors {
  readonly #floorId: FloorId;
  #context: ArbiterContext;
  readonly #forArbiter: ArbiterEvent[] = [];
  #isArbiterBusy = false;
  readonly #sessions: Record<SessionId, SessionActor> = Object.create(null);
  readonly #seen: SeenSessions = {
    sessionOf: (id) => this.#living(id)?.machineState.context,
    scheduledCount: () =>
      this.#all.filter(({ isGone, machineState }) => !isGone && machineState.context.schedule !== undefined).length,
  };
  /** The result of `#all`; undefined once a session was added or evicted. */
  #list: readonly SessionActor[] | undefined;
  #facts: Fact[] = [];
  /** Steps of all sessions so far. */
  #steps = 0;
  /** The result of `neededIds`; undefined once it may have changed. */
  #needed: ReadonlySet<SessionId> | undefined;
  /** `neededIds` as of the last `evict`: while it is the same set, there is nothing to evict. */
  #neededLast: ReadonlySet<SessionId> | undefined;
  #written: { context: ArbiterContext; json: string } | undefined;
  #broken: { cause: unknown } | undefined;
  /** The earliest deadline; undefined once it may have changed. */
  #next: { by: Catalog; due: Due | undefined } | undefined;
  /** The largest `now` given to the machines. */
  #lastNow: number;

  /**
   * @param saved undefined for a new floor
   * @param lastNow the largest `now` given to the machines before
   * @throws BrokenActors, RangeError or TypeError if `saved` has another shape
   */
  constructor(floorId: FloorId, saved?: SavedFloor, lastNow = 0) {
    this.#floorId = floorId;
    this.#lastNow = lastNow;
    if (!saved) {
      this.#context = { floorId, floor: EMPTY_FLOOR, flags: {} };
      return;
    }
    const { status, value, context } = saved.arbiter;
    const isKnown = status === "active" && ARBITER_STATES.some((state) => state === value);
    if (!isKnown) throw new BrokenActors(floorId, new Error(`the arbiter is ${status}, ${JSON.stringify(value)}`));
    this.#context = context as ArbiterContext;
    for (const session of saved.sessions) this.#sessions[session.context.id] = this.#restore(session);
    const lost = [...this.neededIds()].find((id) => !this.has(id));
    if (lost !== undefined) throw new BrokenActors(floorId, new Error(`session ${lost} is missing`));
  }

  /**
   * Another floor in the same state, by default without the sessions that have ended. Its steps do not change this one:
   * states are immutable.
   * @param alteration what is different in the copy
   */
  copy({ floor, session, lastNow = this.#lastNow, keepsArchived = false }: Alteration = {}): FloorActors {
    const copy = new FloorActors(this.#floorId, undefined, lastNow);
    const context = this.#context;
    copy.#context = floor ? { ...context, floor: floor(context.floor) } : context;
    for (const { id, machineState, usedAt } of this.#all) {
      const { lifecycle } = machineState.value;
      if (lifecycle === "deleted" || (lifecycle === "archived" && !keepsArchived)) continue;
      const { at, context } = machineState;
      const altered = session ? new SessionMachineState({ at, context: session(context) }) : machineState;
      copy.#sessions[id] = new SessionActor(id, altered, usedAt);
    }
    copy.#steps = this.#steps;
    return copy;
  }

  get context(): ArbiterContext {
    return this.#context;
  }

  has(sessionId: SessionId): boolean {
    return this.#sessions[sessionId] !== undefined;
  }

  machineState(sessionId: SessionId): SessionMachineState | undefined {
    return this.#sessions[sessionId]?.machineState;
  }

  get sessionIds(): SessionId[] {
    return this.#all.map(({ id }) => id);
  }

  /** All sessions, deleted ones too. */
  get #all(): readonly SessionActor[] {
    this.#list ??= Object.values(this.#sessions);
    return this.#list;
  }

  /** Add a session that was loaded from its row. @throws RangeError if its machine has no such states */
  load(input: SessionInput): void {
    const session = this.#restore(input);
    this.#guard(() => this.#add(session));
    session.isTouched = false;
  }

  /** Let the session's row be written with the next commit, although the session stays as it is. */
  touch(sessionId: SessionId): void {
    this.#sessions[sessionId]!.isTouched = true;
  }

  /** When the next thing is due, in the floor's time; undefined if nothing is. */
  nextDue(sources: DeadlineSources): FloorTime | undefined {
    return this.#findNext(sources)?.at;
  }

  /** When the first session that waits for its time asks, on the wall clock (rule C37); undefined if none waits. */
  nextRing(): number | undefined {
    return findRing(this.#all)?.machineState.context.schedule?.at;
  }

  /** The earliest deadline of the sessions that the floor does not need, and which `evict` may drop. */
  nextDueOutside(sources: DeadlineSources): FloorTime | undefined {
    const needed = this.neededIds();
    let first: FloorTime | undefined;
    for (const { id, machineState } of this.#all) {
      const at = needed.has(id) ? undefined : machineState.deadline(sources)?.at;
      if (at !== undefined && (first === undefined || at < first)) first = at;
    }
    return first;
  }

  /**
   * Carry out everything that is due by `given.time`, in the order of the deadlines, each at its own moment.
   * @throws BrokenActors
   */
  catchUp(given: Given): CommandResult["facts"] {
    this.#facts = [];
    // Sessions ask at their time with the next command, when nothing is overdue any more.
    this.#guard(() => this.#carryOutDue({ ...given, wall: Number.NEGATIVE_INFINITY }, "-"));
    return this.#facts as CommandResult["facts"];
  }

  /**
   * Step the machines by one command. Due deadlines are carried out before it, and those that it makes due after it.
   * @throws BrokenActors if a machine throws, or does not answer exactly once; drop the actors then
   */
  apply(command: ArbiterEvent): CommandResult {
    this.#facts = [];
    let begun = 0;
    let previewed: CountedTurns | undefined;
    this.#guard(() => {
      const { given } = command;
      this.#carryOutDue(given, "-");
      if (this.#isOutdated(given)) this.#renumber(given);
      else if (this.#isAnotherHour(given)) this.#sendToArbiter({ type: "hours", given });
      begun = this.#facts.length;
      // What was due may have ended the session.
      const session = this.#addressee(command);
      if (command.type === "floor.what_if") previewed = this.#preview(command);
      else if (session) this.#sendToSession(session, command as SessionEvent);
      else this.#sendToArbiter(command);
      // What the command makes due does not happen before it, however long ago it would have been.
      this.#lastNow = Math.max(this.#lastNow, given.now);
      this.#carryOutDue(given, "+");
    });
    const facts: CommandResult["facts"] = [];
    let answer: Extract<Fact, { type: "reply" }> | undefined;
    for (const fact of this.#facts) {
      if (fact.type !== "reply") facts.push(fact);
      else if (answer) throw this.#break(new Error(`${command.type} was answered twice`));
      else answer = fact;
    }
    if (!answer) throw this.#break(new Error(`${command.type} was not answered`));
    const routed = "routed" in command ? command.routed : undefined;
    const standing = asItStands(answer.reply, facts.slice(begun), this.#context.floor, command.given);
    const reply = routed ? withRouted(standing, routed) : standing;
    if (routed) this.#noteRouted(facts, begun, routed, "sessionId" in command ? command.sessionId : undefined);
    flow.onHop?.("actors", `${command.type}: ${[reply.ok ? "done" : reply.code, ...eventsOf(facts)].join(", ")}`);
    return { facts, reply: answer.showsSession ? this.#show(reply) : reply, ...(previewed && { previewed }) };
  }

  /**
   * Log which agent hears the command's sentence, before all that the command does: on the floor, and in the session if
   * it exists afterwards, whose log begins with its creation. The tokens of router agents count with its owner's.
   * @param begun how many of the facts come before the command
   */
  #noteRouted(facts: CommandResult["facts"], begun: number, data: Routed, sessionId: SessionId | undefined): void {
    const session = sessionId === undefined ? undefined : this.#sessions[sessionId];
    const isThere = session !== undefined && !session.isGone;
    const event: LoggedEvent = { type: "routed", data, ...(isThere && { sessionId: session.id }) };
    const created = facts.findIndex((fact) => fact.type === "event" && isCreationOf(fact.event, sessionId));
    facts.splice(created < 0 ? begun : created + 1, 0, { type: "event", event });
    facts.push(...this.tokensOf(data, sessionId));
  }

  /**
   * What the router agents of a sentence used, which its session's owner pays.
   * @param newOwner of the session that it was to create
   */
  tokensOf(routed: Pick<Routed, "asked">, sessionId: SessionId | undefined, newOwner?: string): CommandResult["facts"] {
    return this.#usedBy(routed, sessionId, newOwner).map((used) => ({ type: "tokens.used", used }));
  }

  #usedBy(
    { asked = [] }: Pick<Routed, "asked">,
    sessionId: SessionId | undefined,
    newOwner: string | undefined,
  ): UsedTokens[] {
    const session = sessionId === undefined ? undefined : this.#sessions[sessionId];
    const ownerId = session ? payerOf(session.machineState.context) : (newOwner ?? userOf(this.#floorId) ?? "");
    return asked.map(({ agent: agentId, usage }) => ({ ownerId, agentId, usage }));
  }

  /**
   * What a request would get: it is made on a copy of the floor, with all that it makes due. Of a session, if the
   * command names one: a message to it; else of a new one.
   * @returns what the request would count
   */
  #preview(command: Extract<ArbiterEvent, { type: "floor.what_if" }>): CountedTurns {
    const { agentId, ownerId, locale, sessionId, isTurn, given } = command;
    const agent = given.catalog.agents.get(agentId);
    if (sessionId === undefined && !agent?.enabled) {
      this.#sendToArbiter(command);
      return { begun: NONE, used: NONE };
    }
    const creates = { sessionId: NEW, agentId: agent?.id, workspaceId: agent?.workspaceId, ownerId, locale };
    const session = sessionId === undefined && { session: creates };
    const asked: ArbiterEvent =
      sessionId !== undefined || isTurn
        ? { type: "session.chat", sessionId: sessionId ?? NEW, turn: NEW_TURN, ...session, given }
        : { type: "session.create", sessionId: NEW, session: creates, activate: true, given };
    const { facts, reply } = this.copy({ keepsArchived: true }).apply(asked);
    const preview = previewOf(reply);
    if (preview.decision?.challenger.sessionId === NEW) {
      const { sessionId: _, ...challenger } = preview.decision.challenger;
      preview.decision = { ...preview.decision, challenger };
    }
    this.#facts.push({ type: "reply", reply: preview });
    return {
      begun: facts.flatMap((fact) => (fact.type === "turn.begun" ? [fact.turn] : [])),
      used: this.#usedBy(command, sessionId, ownerId),
    };
  }

  /** The present states of the sessions that changed since the last call. */
  drainTouched(): SessionMachineState[] {
    const touched: SessionMachineState[] = [];
    for (const session of this.#all) {
      if (session.isTouched) touched.push(session.machineState);
      session.isTouched = false;
    }
    return touched;
  }

  /**
   * Drop sessions that the floor does not need (rule C6): their rows hold their whole state. The most recently used few
   * stay in memory, so that the next command need not load them.
   * @param mayDrop limits it to some of them. Default: all
   * @returns the dropped sessions
   */
  evict(mayDrop: (state: SessionMachineState) => boolean = () => true): readonly SessionId[] {
    const needed = this.neededIds();
    if (needed === this.#neededLast) return NONE;
    const others = this.#all.filter(({ id, machineState }) => !needed.has(id) && mayDrop(machineState));
    const gone = others.filter(({ isGone }) => isGone);
    const idle = others.filter(({ isGone }) => !isGone).sort((one, other) => one.usedAt - other.usedAt);
    const sessionIds = [...gone, ...idle.slice(0, Math.max(0, idle.length - MAX_WARM))].map(({ id }) => id);
    for (const id of sessionIds) delete this.#sessions[id];
    if (sessionIds.length > 0) {
      this.#list = undefined;
      this.#next = undefined;
    }
    this.#neededLast = needed;
    return sessionIds;
  }

  /** The sessions that the floor needs: those that hold it or wait for it or for their time, and those with a run. */
  neededIds(): ReadonlySet<SessionId> {
    this.#needed ??= this.#findNeeded();
    return this.#needed;
  }

  #findNeeded(): ReadonlySet<SessionId> {
    const ids = new Set(everyone(this.context.floor).map(({ sessionId }) => sessionId));
    for (const { id, machineState } of this.#all) if (machineState.isKept) ids.add(id);
    return ids;
  }

  /**
   * The arbiter's state as JSON text, in the format of XState's `getPersistedSnapshot`, without its sessions: their
   * rows hold them. The text is reused while the arbiter stays as it is.
   */
  persist(): string {
    const context = this.#context;
    if (this.#written?.context !== context) {
      const value = arbiterStateOf(context.floor);
      const text = `{"status":"active","value":"${value}","historyValue":{},"context":${JSON.stringify(context)}}`;
      this.#written = { context, json: text };
    }
    return this.#written.json;
  }

  #findNext(sources: DeadlineSources): Due | undefined {
    if (this.#next?.by !== sources.catalog)
      this.#next = { by: sources.catalog, due: findDue(this.#context, this.#all, sources) };
    return this.#next.due;
  }

  /** Whether the contenders have the numbers of another catalogue. */
  #isOutdated({ catalog }: Given): boolean {
    return this.context.catalog !== undefined && this.context.catalog !== catalog.hash;
  }

  /** Whether the wall clock was set, so that the hours of other restrictions may have begun. */
  #isAnotherHour({ now }: Given): boolean {
    const { hours } = this.context;
    return hours !== undefined && (now < hours.since || now >= hours.until);
  }

  #renumber(given: Given): void {
    this.#sendToArbiter({ type: "renumber", former: this.context.catalog!, given });
  }

  /** @param side part of run requests' ids: `-` for what is due before the command, `+` for what it makes due */
  #carryOutDue(given: Given, side: "-" | "+"): void {
    let count = 0;
    for (let due = this.#findDueNow(given); due; due = this.#findDueNow(given)) {
      // Each deadline ends the state that it limits; if one did not, this would never end.
      if (++count > MAX_DUE) throw new Error(`${due.what ?? "a reservation"} is due again and again`);
      const now = Math.max(this.#lastNow, given.now - (given.time - due.at));
      const time = later(given.time, now - given.now);
      const stamp = `${given.stamp}${side}${count}`;
      const own: Given = { ...given, now, time, stamp, lateMs: given.time - time };
      this.#lastNow = now;
      this.#facts.push({ type: "at", now });
      this.#next = undefined;
      // The numbers of a new catalogue decide which deadlines are due.
      if (this.#isOutdated(given)) this.#renumber(own);
      else if (due.what === "scheduled") this.#ring(due.session!, own);
      else if (due.session) this.#sendToSession(due.session, { type: "due", what: due.what!, given: own });
      else this.#sendToArbiter({ type: due.isHours ? "hours" : "due", given: own });
    }
    if (count > 0) this.#facts.push({ type: "at", now: given.now });
  }

  /** What is due by now: first the deadlines, and then the sessions whose time has come, which ask now. */
  #findDueNow(given: Given): Due | undefined {
    const due = this.#findNext(given);
    if (due && due.at <= given.time) return due;
    const session = findRing(this.#all);
    if (!session || session.machineState.context.schedule!.at > given.wall + READ_APART_MS) return undefined;
    return { at: given.time, what: "scheduled", session };
  }

  /** The session's time has come. It asks as by a command, whose answer nobody waits for. */
  #ring(session: SessionActor, given: Given): void {
    const before = this.#facts.length;
    this.#sendToSession(session, { type: "due", what: "scheduled", given });
    const rung = this.#facts.splice(before);
    this.#facts.push(...rung.filter(({ type }) => type !== "reply"));
  }

  #restore({ lifecycle, activity, context }: SessionInput): SessionActor {
    const machineState = new SessionMachineState(SESSION.restore({ lifecycle, activity }, context));
    return new SessionActor(context.id, machineState);
  }

  /** The session that handles the command itself; undefined if the arbiter handles it. */
  #addressee(command: ArbiterEvent): SessionActor | undefined {
    if (!("sessionId" in command) || command.sessionId === undefined || NEEDS_ARBITER.has(command.type))
      return undefined;
    return this.#living(command.sessionId);
  }

  #living(id: SessionId): SessionActor | undefined {
    const session = this.#sessions[id];
    return session?.isGone ? undefined : session;
  }

  /** Queue an event, and handle the queue unless the arbiter is handling an event already: each runs to its end. */
  #sendToArbiter(event: ArbiterEvent): void {
    this.#forArbiter.push(event);
    if (this.#isArbiterBusy) return;
    this.#isArbiterBusy = true;
    for (let next = this.#forArbiter.shift(); next; next = this.#forArbiter.shift()) this.#stepArbiter(next);
    this.#isArbiterBusy = false;
  }

  #stepArbiter(event: ArbiterEvent): void {
    const { context, facts, orders } = arbitrate(this.#context, event, this.#seen);
    if (context !== this.#context) {
      this.#needed = undefined;
      this.#next = undefined;
    }
    this.#context = context;
    this.#facts.push(...facts);
    for (const order of orders) this.#carryOut(order);
  }

  #carryOut(order: FloorOrder): void {
    if ("spawn" in order) return this.#add(this.#restore(order.spawn));
    if ("to" in order) {
      const session = this.#living(order.to);
      if (!session) throw new Error(`${order.event.type} was sent to ${order.to}, which the arbiter does not know`);
      return this.#sendToSession(session, order.event);
    }
    const session = this.#living(order.stop);
    if (!session) return;
    session.waiting.length = 0;
    session.isGone = true;
    this.#needed = undefined;
    this.#next = undefined;
  }

  #add(session: SessionActor): void {
    session.usedAt = ++this.#steps;
    session.isTouched = true;
    this.#sessions[session.id] = session;
    this.#list = undefined;
    this.#needed = undefined;
    this.#next = undefined;
  }

  #sendToSession(session: SessionActor, event: SessionEvent): void {
    session.waiting.push(event);
    if (session.isBusy) return;
    session.isBusy = true;
    for (let next = session.waiting.shift(); next; next = session.waiting.shift()) this.#stepSession(session, next);
    session.isBusy = false;
  }

  #stepSession(session: SessionActor, event: SessionEvent): void {
    flow.onHop?.("step", `${session.id}: ${event.type}`);
    const before = session.machineState;
    const { state, steps } = SESSION.step(before, event);
    const after = state === before ? before : new SessionMachineState(state);
    session.machineState = after;
    for (const { facts } of steps) this.#facts.push(...facts);
    for (const { toArbiter, toSelf } of steps) {
      for (const sent of toArbiter) this.#sendToArbiter(sent);
      session.waiting.push(...toSelf);
    }
    const { id } = session;
    session.usedAt = ++this.#steps;
    if (before === after) return;
    this.#next = undefined;
    session.isTouched = true;
    if (before.isKept !== after.isKept) this.#needed = undefined;
    const data = transitionOf(before, after, event);
    if (data) this.#facts.push({ type: "event", event: { type: "session_transition", sessionId: id, data } });
  }

  #show(reply: Reply): Reply {
    if (!reply.ok || reply.sessionId === undefined) return reply;
    const machineState = this.machineState(reply.sessionId);
    return machineState ? { ...reply, session: machineState.view } : reply;
  }

  /** An exception leaves the actors half-way through a command: from then on every call throws. */
  #guard(work: () => void): void {
    if (this.#broken) throw new BrokenActors(this.#floorId, this.#broken.cause);
    try {
      work();
    } catch (error) {
      throw this.#break(error);
    }
  }

  #break(cause: unknown): BrokenActors {
    this.#broken = { cause };
    return new BrokenActors(this.#floorId, cause);
  }
}
