import type { Floor } from "../../src/actors/arbitration.ts";
import type { SessionContext } from "../../src/actors/session-context.ts";
import type { Catalog } from "../../src/config/catalog.ts";
import type { Decision } from "../../src/protocol/decision.ts";
import type { LogEntry, Transition } from "../../src/protocol/event.ts";
import type { FloorId, FloorSeq, RunId, Seq, SessionId } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { FloorChange, SessionRow } from "../../src/store/store.ts";
import { must } from "./must.ts";
import { textOf } from "./scripts.ts";

type Memory = Pick<SessionContext, "run" | "stopping" | "idleTimerId" | "pauseTimerId">;

/** Who held the floor, or was about to, from an instant on. */
interface Holding {
  from: number;
  sessionId: SessionId | undefined;
}

/**
 * One floor as its commits tell of it: whatever nodes, networks and clocks do, what must always hold
 * (docs/arbitration.md) holds of every committed state. Throws `Broken`.
 */
export class FloorWatch {
  readonly floorId: FloorId;
  readonly #catalog: Catalog;
  version = 0;
  head: FloorSeq = 0;
  /** Attempts that were given out after a first one. */
  replaced = 0;
  /** Everything that was ever logged, also of sessions that are gone. */
  readonly log: LogEntry[] = [];
  readonly #states = new Map<SessionId, string>();
  readonly #seqs = new Map<SessionId, Seq>();
  /** Runs that were accepted and have not ended. */
  readonly #openRuns = new Map<RunId, SessionId>();
  readonly #endedRuns = new Set<RunId>();
  /** The newest attempt of each run, and whether it could report, from each instant on at which that changed. */
  readonly #attempts = new Map<RunId, { from: number; attempt: number; isLive: boolean }[]>();
  /** The run of each session that has one. */
  readonly #runs = new Map<SessionId, RunId>();
  readonly #wanted = new Set<string>();
  /** Effects that each session names. */
  readonly #named = new Map<SessionId, string[]>();
  #decision: Decision | undefined;
  #lacksEvents = false;
  /** When commits were made in which more happened than is written: commands of one batch see each other's floor. */
  readonly #unclear: number[] = [];
  readonly #holdings: Holding[] = [{ from: Number.NEGATIVE_INFINITY, sessionId: undefined }];

  constructor(floorId: FloorId, catalog: Catalog) {
    this.floorId = floorId;
    this.#catalog = catalog;
  }

  /** Runs that were accepted and have not ended. */
  get openRuns(): RunId[] {
    return [...this.#openRuns.keys()];
  }

  /** Who held it at some instant between two; undefined when commits within hide who it was. */
  holdersBetween(from: number, to: number): Set<SessionId | undefined> | undefined {
    if (this.#unclear.some((at) => at >= from && at <= to)) return undefined;
    const within = this.#holdings.filter((holding, index) => {
      const until = this.#holdings[index + 1]?.from ?? Number.POSITIVE_INFINITY;
      return holding.from <= to && until >= from;
    });
    return new Set(within.map(({ sessionId }) => sessionId));
  }

  /** Whether an attempt could report at some instant between two, and whether there was one at which it could not. */
  livesBetween(runId: RunId, attempt: number, from: number, to: number): Set<boolean> {
    const attempts = [
      { from: Number.NEGATIVE_INFINITY, attempt: 0, isLive: false },
      ...(this.#attempts.get(runId) ?? []),
    ];
    const within = attempts.filter((each, index) => {
      const until = attempts[index + 1]?.from ?? Number.POSITIVE_INFINITY;
      return each.from <= to && until >= from;
    });
    return new Set(within.map((each) => each.isLive && each.attempt === attempt));
  }

  /** A change was committed. */
  take(change: FloorChange, at: number): void {
    must(
      change.expected === this.version,
      () => `version ${this.version} was overwritten by a change of ${change.expected}`,
    );
    this.#decision = undefined;
    const lasts = new Set(change.deleted.map(({ last }) => last));
    const entries = [...change.events, ...lasts].sort((one, other) => one.floorSeq - other.floorSeq);
    this.#isDense(change, entries);
    // Of a session that is gone only its last event is kept: what else became of it in this commit nobody can tell.
    for (const { sessionId } of change.deleted) this.#forget(sessionId, at);
    this.#lacksEvents = lasts.size > 0;
    const transitions = entries.filter(({ type }) => type === "session_transition").length;
    const mayReserve = this.#catalog.policy.resumeDelayMs > 0 && transitions > 1;
    if (this.#lacksEvents || mayReserve) this.#unclear.push(at);
    for (const entry of entries) {
      this.log.push(entry);
      if (!lasts.has(entry)) this.#follow(entry);
      // Commands of one batch are answered after its commit, each by what it found.
      if (entry.type === "session_transition") this.#hold(this.#active[0], at);
    }
    for (const write of change.messages) {
      this.#attemptIsNewest("message" in write ? write.message.id : write.id);
      if ("message" in write) messageIsTrue(write.message);
    }
    for (const row of change.sessions) this.#rowAgrees(row, at);
    this.#effectsAreNew(change);
    const floor = (JSON.parse(change.snapshot) as { actors: { context: { floor: Floor } } }).actors.context.floor;
    this.#machinesAgree(floor, change);
    this.#effectsAreNamed(floor);
    this.#hold(floor.holder?.sessionId ?? floor.reserved?.sessionId, at);
    this.version += 1;
    this.head = change.head;
  }

  get #active(): SessionId[] {
    return [...this.#states].filter(([, state]) => state.startsWith("active")).map(([id]) => id);
  }

  #hold(sessionId: SessionId | undefined, from: number): void {
    if (this.#holdings.at(-1)!.sessionId !== sessionId) this.#holdings.push({ from, sessionId });
  }

  /** Places follow one another, on the floor and in each session, without a hole and without a second. */
  #isDense({ deleted, head, floorId, sessions }: FloorChange, entries: readonly LogEntry[]): void {
    let place = this.head;
    for (const { floorSeq } of entries) {
      must(floorSeq > place, () => `the log stands at ${place} and place ${floorSeq} was written`);
      must(deleted.length > 0 || floorSeq === place + 1, () => `place ${place + 1} of the log was left out`);
      place = floorSeq;
    }
    must(head === place, () => `the log ends with ${place} and its head is ${head}`);
    for (const { session } of sessions) {
      must(session.floorId === floorId, () => `${session.id} of ${session.floorId} was written by ${floorId}`);
    }
  }

  #follow(entry: LogEntry): void {
    const { sessionId, seq, type, json } = entry;
    if (sessionId === undefined) {
      if (type === "arbitration") this.#decide(entry);
      return;
    }
    const before = this.#seqs.get(sessionId) ?? 0;
    must(seq === before + 1, () => `${sessionId} stands at ${before} and event ${seq} was written`);
    this.#seqs.set(sessionId, seq!);
    const state = this.#states.get(sessionId);
    must(state !== "archived", () => `${sessionId} is archived and ${type} was written`);
    must((state === undefined) === (type === "session_created"), () => `${sessionId} is ${state}: ${type}`);
    if (type === "session_created") this.#states.set(sessionId, "created");
    else if (type === "arbitration") this.#decide(entry);
    else if (type === "session_transition") this.#step(sessionId, JSON.parse(json) as Transition);
    else if (type === "message") this.#say(sessionId, JSON.parse(json) as Message);
    else if (type === "complete") this.#complete((JSON.parse(json) as { runId: RunId }).runId);
  }

  #decide({ sessionId, json }: LogEntry): void {
    const decision = JSON.parse(json) as Decision;
    this.#decision = decision;
    if (decision.outcome !== "rejected" || sessionId === undefined) return;
    must(sessionId !== decision.holder?.sessionId, () => `the holder's log tells of a rejection: ${sessionId}`);
  }

  #step(id: SessionId, { from, to, event, by }: Transition): void {
    const state = this.#states.get(id);
    must(from === state, () => `${id} goes from ${from}, but was ${state}`);
    must(from !== "paused" || /^(active|archived)/.test(to), () => `paused ${id} became ${to}`);
    this.#states.set(id, to);
    if (event === "preempt" && !this.#lacksEvents) this.#preemptionIsLawful(id, by?.sessionId);
    if (!to.startsWith("active")) return;
    must(this.#active.length === 1, () => `two are active at one instant: ${this.#active}`);
  }

  /** Nobody is paused but by a decision that says so, and that may say so. */
  #preemptionIsLawful(id: SessionId, by: SessionId | undefined): void {
    const decision = this.#decision;
    const told = () => `${id} was preempted by ${by}: ${JSON.stringify(decision)}`;
    must(decision?.reason === "preempted" && decision.outcome === "granted", told);
    must(decision.holder?.sessionId === id && decision.challenger.sessionId === by, told);
    const holder = this.#catalog.agents.get(decision.holder.agentId)!;
    const { priority } = decision.challenger;
    must(holder.interruptible || priority >= (holder.preemptionThreshold ?? Number.POSITIVE_INFINITY), told);
    must(priority >= decision.holder.priority, told);
  }

  #say(sessionId: SessionId, message: Message): void {
    if (message.role === "user") {
      must(!this.#endedRuns.has(message.runId!), () => `run ${message.runId} began after it had ended`);
      this.#openRuns.set(message.runId!, sessionId);
    } else {
      must(this.#openRuns.has(message.runId!), () => `${message.id} was completed after its run`);
    }
  }

  #complete(runId: RunId): void {
    must(this.#openRuns.delete(runId), () => `run ${runId} ended without having begun, or twice`);
    this.#endedRuns.add(runId);
  }

  /** Only the newest attempt of a run writes: its messages name it. An older one's are closed as it is replaced. */
  #attemptIsNewest(messageId: string): void {
    const match = /^(.+)-(\d+)-\d+$/.exec(messageId);
    const newest = match && this.#attempts.get(match[1] as RunId)?.at(-1)?.attempt;
    if (newest) must(Number(match[2]) >= newest, () => `${messageId} was written, and attempt ${newest} is the newest`);
  }

  #noteAttempt(id: SessionId, run: Memory["run"], at: number): void {
    const former = this.#runs.get(id);
    if (former !== undefined && former !== run?.id)
      this.#changeAttempt(former, { from: at, attempt: 0, isLive: false });
    if (!run) return void this.#runs.delete(id);
    this.#runs.set(id, run.id);
    this.#changeAttempt(run.id, { from: at, attempt: run.attempt, isLive: run.live });
  }

  #changeAttempt(id: RunId, now: { from: number; attempt: number; isLive: boolean }): void {
    const attempts = this.#attempts.get(id) ?? [];
    this.#attempts.set(id, attempts);
    const last = attempts.at(-1);
    if (now.attempt > 1 && now.attempt > (last?.attempt ?? 0)) this.replaced += 1;
    if (last?.attempt !== now.attempt || last.isLive !== now.isLive) attempts.push(now);
  }

  #forget(id: SessionId, at: number): void {
    this.#noteAttempt(id, undefined, at);
    this.#states.delete(id);
    this.#seqs.delete(id);
    this.#named.delete(id);
    for (const [runId, sessionId] of this.#openRuns) if (sessionId === id) this.#openRuns.delete(runId);
  }

  #rowAgrees({ session, head, memory }: SessionRow, at: number): void {
    const { id, state, activity } = session;
    const written = state === "active" ? `active.${activity}` : state;
    must(this.#states.get(id) === written, () => `${id} is ${written}, its log says ${this.#states.get(id)}`);
    must(this.#seqs.get(id) === head, () => `${id} stands at ${head}, its log at ${this.#seqs.get(id)}`);
    const { run, stopping, idleTimerId, pauseTimerId } = JSON.parse(memory) as Memory;
    this.#noteAttempt(id, run, at);
    const timers = run?.interactions.map(({ timerId }) => timerId) ?? [];
    const named = [run?.effectId, run?.nudgeId, stopping?.timerId, idleTimerId, pauseTimerId, ...timers];
    this.#named.set(
      id,
      named.filter((name) => name !== undefined),
    );
  }

  #effectsAreNew({ effectsAdded, effectsRemoved }: FloorChange): void {
    for (const id of effectsRemoved) this.#wanted.delete(id);
    for (const { id } of effectsAdded) this.#wanted.add(id);
  }

  /** Whatever is wanted is named by somebody, and whatever is named is wanted: nothing leaks and nothing is lost. */
  #effectsAreNamed({ reserved, queued }: Floor): void {
    const named = new Set([...this.#named.values()].flat());
    if (reserved) named.add(reserved.timerId);
    for (const { timerId } of queued) if (timerId) named.add(timerId);
    for (const id of named) must(this.#wanted.has(id), () => `effect ${id} is named and not there`);
    for (const id of this.#wanted) must(named.has(id), () => `effect ${id} is there and nobody names it`);
  }

  #machinesAgree({ holder, paused, reserved }: Floor, { sessions }: FloorChange): void {
    must(!(holder && reserved), () => "the floor is held and reserved");
    const active = this.#active;
    must(
      active.join() === (holder?.sessionId ?? ""),
      () => `${active} is active, ${holder?.sessionId} holds the floor`,
    );
    for (const { sessionId } of paused) {
      must(this.#states.get(sessionId) === "paused", () => `${sessionId} waits to be resumed and is not paused`);
    }
    for (const { session } of sessions) {
      if (session.state !== "paused") continue;
      const waits = paused.some(({ sessionId }) => sessionId === session.id);
      must(waits === (session.pausedBy === "preemption"), () => `${session.id} is paused by ${session.pausedBy}`);
    }
  }
}

/** A message says what its attempt was to say, and all of it when it claims to be whole. */
function messageIsTrue({ id, role, content, status }: Message): void {
  if (role !== "assistant") return;
  const whole = textOf(id);
  const isTrue = whole !== undefined && (status === "success" ? content === whole : whole.startsWith(content));
  must(isTrue, () => `message ${id} is ${status} and says ${JSON.stringify(content)}, its script ${whole}`);
}
