import type { Fact, Given } from "../actors/facts.ts";
import { type Alteration, type CommandResult, FloorActors } from "../actors/host/floor-actors.ts";
import type { SessionMachineState } from "../actors/host/session-actor.ts";
import { carriedBy, type SessionContext } from "../actors/session/session-context.ts";
import { eachDeadline } from "../actors/session/session-deadlines.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import { type FloorId, floorOfUser, type MessageId, type RunId, type SessionId } from "../protocol/ids.ts";
import type { Command, TurnInput, WantedSchedule } from "../protocol/internal/command.ts";
import type { Reply } from "../protocol/internal/reply.ts";
import type { RunOutcome } from "../protocol/internal/run.ts";
import { type FloorTime, later, latest } from "../shared/floor-time.ts";
import { RESERVATION_FIELDS, SESSION_FIELDS, withMoments } from "./state-fields.ts";

/** After this time a session whose program died has lapsed: one and a half leases. */
export const lapseMs = (leaseMs: number): number => Math.ceil(leaseMs * 1.5);

/** The time that a question waits for its answer, if nothing else is said. */
const INTERACTION_TIMEOUT_MS = 300_000;

const TURN_FAILED: RunOutcome = { kind: "failed", code: "provider_unreachable", message: "the turn failed" };
export const endOf = (isFailed: boolean): RunOutcome => (isFailed ? TURN_FAILED : { kind: "done" });

type Report = Extract<Command, { type: "run.report" }>;
/** What a worker reports of a run. */
export type ReportContent = Partial<Pick<Report, "parts" | "withdrawn" | "outcome">>;

const reportAfter = (
  sessionId: SessionId,
  runId: RunId,
  { attempt, reported }: { attempt: number; reported: number },
  content: ReportContent,
): Report => ({ type: "run.report", sessionId, runId, attempt, n: reported + 1, parts: [], ...content });

const hasEnded = ({ value: { lifecycle } }: SessionMachineState): boolean =>
  lifecycle === "archived" || lifecycle === "deleted";

/** The name of a user without preferences. */
function userWithout({ overrides }: Catalog): string {
  let userId = "driver";
  while (overrides.has(userId)) userId += "-";
  return userId;
}

/** A fact, and when it happened, in ms since 1970. */
export type TimedFact = { readonly at: number; readonly fact: Exclude<Fact, { type: "reply" | "at" }> };

export interface SteppedFloorOptions {
  catalog: Catalog;
  /** What the wall clock reads at first, in ms since 1970. */
  now: number;
  /** The floor's user; priorities may depend on it. Default: a user without preferences. */
  userId?: string | undefined;
  /** Of the user's floor. Default: the floor without a zone. */
  zone?: string | undefined;
  /** Default: the floor of the user, with that zone. */
  floorId?: FloorId | undefined;
  /** The node's limit of a question whose agent has none of its own, in ms. */
  interactionTimeoutMs?: number | undefined;
  /** The wall clock stands still while the floor's time passes: it shows what it was set to. Default: it runs. */
  standsStill?: boolean | undefined;
}

/** What became of a session that moves to another floor. */
export interface Moved {
  readonly reply: Reply;
  readonly here: readonly TimedFact[];
  readonly there: readonly TimedFact[];
}

/** A deadline that has begun. */
export interface PendingDeadline {
  /** Its session; undefined: the floor's reservation. */
  readonly sessionId?: SessionId | undefined;
  readonly what: string;
  /** When it began, in the floor's time. */
  readonly since: number;
  readonly lengthMs: number;
  /** It does not come while the floor is reserved for its session, or while its session asks. */
  readonly isHeld: boolean;
}

/**
 * A floor outside a server, stepped on a virtual clock: the actors that a node hosts, with their deadlines, without
 * store, workers and readers. Synchronous. Participants with a lease are taken to be alive until `die`.
 */
export class SteppedFloor {
  readonly userId: string;
  readonly floorId: FloorId;
  readonly #zone: string | undefined;
  readonly #standsStill: boolean;
  readonly #interactionTimeoutMs: number;
  #actors: FloorActors;
  readonly #dead: Set<SessionId>;
  #catalog: Catalog;
  #time: FloorTime;
  /** By how much the wall clock was set, in ms. */
  #jumpedMs = 0;
  #stamp = 0;
  /** By agent: how many sessions of it were asked for. */
  #counts: ReadonlyMap<string, number> = new Map();

  constructor(options: SteppedFloorOptions, from?: SteppedFloor, alteration?: Alteration) {
    const { catalog, now, userId = userWithout(catalog), zone, standsStill = false } = options;
    this.userId = userId;
    this.floorId = options.floorId ?? floorOfUser(userId, zone);
    this.#zone = zone;
    this.#standsStill = standsStill;
    this.#interactionTimeoutMs = options.interactionTimeoutMs ?? INTERACTION_TIMEOUT_MS;
    this.#catalog = catalog;
    this.#time = now as FloorTime;
    this.#actors = from ? from.#actors.copy(alteration) : new FloorActors(this.floorId);
    this.#dead = new Set(from ? from.#dead : []);
    if (!from) return;
    this.#jumpedMs = from.#jumpedMs;
    this.#stamp = from.#stamp;
    this.#counts = from.#counts;
  }

  /** Another floor in the same state; a step of one does not change the other. */
  copy(alteration?: Alteration): SteppedFloor {
    const { userId, floorId } = this;
    const [zone, catalog, standsStill, interactionTimeoutMs] = [
      this.#zone,
      this.#catalog,
      this.#standsStill,
      this.#interactionTimeoutMs,
    ];
    const options = { catalog, now: this.#time, userId, zone, floorId, standsStill, interactionTimeoutMs };
    return new SteppedFloor(options, this, alteration);
  }

  /**
   * The floor as it would be if its states had begun at other moments.
   * @param time the present of the copy, in the floor's time
   * @param momentOf by a moment of this floor: that of the copy
   */
  retimed(time: number, momentOf: (moment: number) => number): SteppedFloor {
    const { now } = this;
    const copy = this.copy({
      floor: (floor) => {
        const { reserved } = floor;
        return reserved ? { ...floor, reserved: withMoments(reserved, RESERVATION_FIELDS, momentOf) } : floor;
      },
      session: (context) => withMoments(context, SESSION_FIELDS, momentOf),
    });
    copy.#time = time as FloorTime;
    copy.#jumpedMs = now - time;
    return copy;
  }

  /** A copy whose wall clock may be set to an earlier instant: one like it, a year or more later. */
  withoutPast(): SteppedFloor {
    return this.copy({ lastNow: 0 });
  }

  /** The floor at a later moment, before anything is due. */
  at(time: number): SteppedFloor {
    const copy = this.copy();
    copy.#moveTo(time);
    return copy;
  }

  get catalog(): Catalog {
    return this.#catalog;
  }

  /** What the wall clock reads, in ms since 1970. */
  get now(): number {
    return this.#time + this.#jumpedMs;
  }

  get time(): FloorTime {
    return this.#time;
  }

  /** The competing sessions, and the flags. */
  get context(): FloorActors["context"] {
    return this.#actors.context;
  }

  /** The floor's sessions that have not ended. */
  get sessions(): SessionMachineState[] {
    return this.#actors.sessionIds.map((id) => this.#actors.machineState(id)!).filter((state) => !hasEnded(state));
  }

  session(id: string): SessionMachineState | undefined {
    return this.#actors.machineState(id as SessionId);
  }

  /** How many sessions of the agent were asked for. */
  countOf(agentId: string): number {
    return this.#counts.get(agentId) ?? 0;
  }

  isDead(id: string): boolean {
    return this.#dead.has(id as SessionId);
  }

  /** Step the floor by a command, at the present time. */
  send(command: Command): { reply: Reply; facts: TimedFact[] } {
    const { facts, reply } = this.#actors.apply({ ...command, given: this.#given() });
    return { reply, facts: [...this.#dated(facts), ...this.#beat()] };
  }

  /** Whose a new session of the floor is. */
  get owner(): { readonly userId: string; readonly zone?: string } {
    return { userId: this.userId, ...(this.#zone !== undefined && { zone: this.#zone }) };
  }

  /** Create a session of this agent, which asks for the floor. */
  create(sessionId: string, agentId: string, locale?: string): { reply: Reply; facts: TimedFact[] } {
    const session = { sessionId, agentId, ...this.owner, ...(locale !== undefined && { locale }) };
    this.#dead.delete(sessionId as SessionId);
    this.#counts = new Map([...this.#counts, [agentId, this.countOf(agentId) + 1]]);
    const command = { type: "session.create", sessionId, session, activate: true };
    return this.send(command as Command);
  }

  /** A message: the session takes a turn, or a new one of this agent does. */
  say(id: string, agentId?: string): { reply: Reply; facts: TimedFact[] } {
    const sessionId = id as SessionId;
    const number = this.#stamp + 1;
    const turn = { messageId: `message-${number}` as MessageId, runId: `run-${number}` as RunId, content: "…" };
    if (agentId === undefined) return this.send({ type: "session.chat", sessionId, turn });
    this.#counts = new Map([...this.#counts, [agentId, this.countOf(agentId) + 1]]);
    const session = { sessionId, agentId, ...this.owner };
    return this.send({ type: "session.chat", sessionId, turn, session } as Command);
  }

  /** Create a session of this agent, which asks for the floor at its time. */
  schedule(sessionId: string, agentId: string, schedule: WantedSchedule): { reply: Reply; facts: TimedFact[] } {
    const session = { sessionId, agentId, ...this.owner };
    const command = { type: "session.create", sessionId, session, activate: false, schedule };
    return this.send(command as Command);
  }

  /**
   * A session of another floor asks here, with its unfinished turns, and goes on here unless it is refused.
   * @param sessionId what it is called here
   * @param turns what its turns are called here, in their order
   * @returns what happens here and there, and the answer
   */
  moveHere(from: SteppedFloor, id: string, sessionId: string, turns: readonly TurnInput[]): Moved {
    const { context } = from.session(id)!;
    const { agentId, locale } = context.numbers;
    const session = { sessionId, agentId, ...this.owner, ...(locale !== undefined && { locale }) };
    const history = { messageCount: context.messageCount, origin: { by: "move", sessionId: id } };
    const of = { sessionId: id, floorId: from.floorId, seq: 0 };
    const brings = { carried: carriedBy(context), hasBegun: context.run !== undefined || context.turns[0]?.hasBegun };
    const command = { type: "session.move", sessionId, session, history, from: of, turns, ...brings };
    const { reply, facts } = this.send(command as unknown as Command);
    if (!reply.ok) return { reply, here: facts, there: [] };
    const by = { sessionId: sessionId as SessionId, agentId };
    const leaving: Command = { type: "session.replace", sessionId: id as SessionId, by, movedTo: this.floorId };
    return { reply, here: facts, there: from.send(leaving).facts };
  }

  /** The command that claims a run; undefined if a worker has it. */
  claimOf({ sessionId, runId }: { sessionId: SessionId; runId: RunId }): Command | undefined {
    if (this.session(sessionId)?.context.run?.live) return undefined;
    return { type: "run.claim", sessionId, runId, claimId: "worker", hasNoDriver: true };
  }

  /** A worker's next report of a run; undefined: its session has another run, or none. */
  reportOf(sessionId: SessionId, runId: RunId, content: ReportContent): Command | undefined {
    const run = this.session(sessionId)?.context.run;
    return run?.id === runId ? reportAfter(sessionId, runId, run, content) : undefined;
  }

  /** The report that a stopped attempt has ended, so that its session's next one may begin (rule C16). */
  stopReportOf(runId: RunId): Command | undefined {
    const { id, stopping } = this.sessions.find(({ context }) => context.stopping?.runId === runId)?.context ?? {};
    return id && stopping && reportAfter(id, runId, stopping, { outcome: { kind: "stopped" } });
  }

  /** The turn that runs in the session ends. */
  endTurn(id: string, isFailed: boolean): TimedFact[] {
    const runId = this.session(id)!.context.run!.id;
    return this.send(this.reportOf(id as SessionId, runId, { outcome: endOf(isFailed) })!).facts;
  }

  /** The user cancels the turn that runs in the session, or the first that waits. */
  cancelTurn(id: string): TimedFact[] {
    const sessionId = id as SessionId;
    const { run, turns } = this.session(sessionId)!.context;
    return this.send({ type: "session.abort", sessionId, runId: run?.id ?? turns[0]!.runId }).facts;
  }

  /** The session's program gives no further sign of life: without heartbeats a lease runs out. */
  die(id: string): TimedFact[] {
    const { facts } = this.send({ type: "session.heartbeat", sessionId: id as SessionId });
    this.#dead.add(id as SessionId);
    return facts;
  }

  /**
   * At this moment the session's program has been dead for one and a half leases, without a command for the session
   * meanwhile. What else is due then happens in its order with the session's lapse.
   */
  lapse(id: string, time: number): TimedFact[] {
    this.#moveTo(time);
    const lapsed = this.#actors.copy({
      keepsArchived: true,
      session: (context) => {
        const { lease } = context;
        if (context.id !== id || !lease) return context;
        const signAt = later(this.#time, -lapseMs(lease.lengthMs));
        return { ...context, lease: { ...lease, signAt, dueAt: this.#time, isRenewed: undefined, isDoubted: true } };
      },
    });
    this.#actors = lapsed;
    this.#dead.add(id as SessionId);
    return this.send({ type: "alarm" }).facts;
  }

  /** The session's program sends heartbeats again. */
  revive(id: string): void {
    this.#dead.delete(id as SessionId);
  }

  /** Replace the catalogue, as a reload does, and let the floor settle under it. */
  use(catalog: Catalog): TimedFact[] {
    this.#catalog = catalog;
    return this.send({ type: "alarm" }).facts;
  }

  /** Set the wall clock, and let the floor settle by it. No time passes. */
  setClock(now: number): TimedFact[] {
    this.#jumpedMs = now - this.#time;
    return this.send({ type: "alarm" }).facts;
  }

  /** Every deadline that has begun, in no order. The lease of a living participant never runs out, so it is none. */
  get deadlines(): PendingDeadline[] {
    const { reserved } = this.context.floor;
    const sources = { catalog: this.#catalog, interactionTimeoutMs: this.#interactionTimeoutMs };
    const found: PendingDeadline[] = [];
    for (const { context } of this.sessions) {
      const { id: sessionId } = context;
      const limited = context.lease && !this.#dead.has(sessionId) ? { ...context, lease: undefined } : context;
      const coming = new Set<string>();
      const visit = (of: SessionContext, isReserved: boolean, isHeld: boolean) =>
        eachDeadline(of, sources, isReserved, (what, since, lengthMs) => {
          if (since === undefined || lengthMs === undefined || coming.has(`${what} ${since}`)) return;
          coming.add(`${what} ${since}`);
          found.push({ sessionId, what, since, lengthMs, isHeld });
        });
      visit(limited, reserved?.sessionId === sessionId, false);
      // What comes once the floor is no longer reserved for it, or once it does not ask any more.
      visit(limited, false, true);
      visit({ ...limited, request: undefined }, false, true);
    }
    if (reserved) {
      const { resumeDelayMs: lengthMs } = this.#catalog.policy;
      found.push({ what: "resume_delay", since: reserved.since, lengthMs, isHeld: false });
    }
    return found;
  }

  /** When the next deadline comes, in the floor's time; undefined if there is none. */
  nextDue(): number | undefined {
    const moments = this.deadlines.filter(({ isHeld }) => !isHeld).map(({ since, lengthMs }) => since + lengthMs);
    const { hours } = this.context;
    // Hours do not begin or end while the wall clock stands still.
    if (hours && !this.#standsStill) moments.push(hours.dueAt);
    const ring = this.#actors.nextRing();
    if (ring !== undefined && !this.#standsStill) moments.push(ring - this.#jumpedMs);
    return moments.length > 0 ? Math.min(...moments) : undefined;
  }

  /** Let time pass up to this moment, in the floor's time. Each deadline is carried out when it comes. */
  passTo(time: number): TimedFact[] {
    const facts: TimedFact[] = [];
    for (let due = this.nextDue(); due !== undefined && due <= time; due = this.nextDue()) {
      this.#moveTo(due);
      facts.push(...this.send({ type: "alarm" }).facts);
    }
    this.#moveTo(time);
    return facts;
  }

  #moveTo(time: number): void {
    const { now } = this;
    this.#time = latest(this.#time, time as FloorTime);
    if (this.#standsStill) this.#jumpedMs = now - this.#time;
  }

  /** Forget sessions that have ended, so that a long play needs no more memory than a short one. */
  release(): void {
    for (const id of this.#actors.evict(hasEnded)) this.#dead.delete(id);
  }

  /**
   * Heartbeats of living participants whose lease is in doubt. A lease whose deadline comes more than half a lease late
   * starts anew, so that it needs no heartbeat during a pause between two steps.
   */
  #beat(): TimedFact[] {
    const facts: TimedFact[] = [];
    for (const { context } of this.sessions) {
      if (!context.lease?.isDoubted || this.#dead.has(context.id)) continue;
      const beat = this.#actors.apply({ type: "session.heartbeat", sessionId: context.id, given: this.#given() });
      facts.push(...this.#dated(beat.facts));
    }
    return facts;
  }

  #given(): Given {
    this.#stamp += 1;
    const { now } = this;
    const stamp = `s${this.#stamp}`;
    const interactionTimeoutMs = this.#interactionTimeoutMs;
    return { now, time: this.#time, wall: now, stamp, catalog: this.#catalog, interactionTimeoutMs };
  }

  #dated(facts: CommandResult["facts"]): TimedFact[] {
    let at = this.now;
    const dated: TimedFact[] = [];
    for (const fact of facts) {
      if (fact.type === "at") at = fact.now;
      else dated.push({ at, fact });
    }
    return dated;
  }
}
