import type { ArbiterContext } from "../../../src/actors/floor/arbiter-step.ts";
import { type Floor, rulesOf } from "../../../src/actors/floor/floor-state.ts";
import type { SessionContext } from "../../../src/actors/session/session-context.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import { checkArrangement, must } from "../../../src/policy/arrangement-check.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { FloorId, FloorSeq, RunId, Seq, SessionId } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { loadedSession } from "../../../src/store/rows.ts";
import type { FloorChange, SessionRow } from "../../../src/store/store.ts";
import { FloorLogCheck } from "../../support/floors/floor-log-check.ts";
import { textOf } from "../services/scripts.ts";

type Memory = Pick<SessionContext, "run">;

/** The largest difference between the clocks of sound nodes, in ms. */
export const APART_MS = 100;
/** The longest time from the execution of commands to their commit, in ms. */
export const LATE_MS = 60_000;

/** The session that had the floor, or was about to get it, from a time on. */
interface Holding {
  from: number;
  sessionIds: readonly (SessionId | undefined)[];
}

type Snapshot = { actors: { context: Pick<ArbiterContext, "floor" | "flags"> } };

/**
 * One floor as its commits show it. The invariants of docs/use/arbitration.md must hold in every committed state,
 * whatever nodes, networks and clocks do. Throws `Broken`.
 */
export class FloorWatch {
  readonly floorId: FloorId;
  readonly #catalog: Catalog;
  version = 0;
  head: FloorSeq = 0;
  /** Attempts after a run's first. */
  replaced = 0;
  /** Lapsed sessions, and the times of the commits. */
  readonly lapses: { sessionId: SessionId; at: number }[] = [];
  /** All logged events, also of deleted sessions. */
  readonly log: LogEntry[] = [];
  readonly #check: FloorLogCheck;
  readonly #seqs = new Map<SessionId, Seq>();
  /** Runs that were accepted and have not ended. */
  readonly #openRuns = new Map<RunId, SessionId>();
  readonly #endedRuns = new Set<RunId>();
  /** The agents' messages as they were last completed. */
  readonly #said = new Map<string, string>();
  /** The newest attempt of each run, and whether it could report, from each time on at which that changed. */
  readonly #attempts = new Map<RunId, { from: number; attempt: number; isLive: boolean }[]>();
  /** The run of each session that has one. */
  readonly #runs = new Map<SessionId, RunId>();
  readonly #wanted = new Set<string>();
  /** The run requests that each session references. */
  readonly #named = new Map<SessionId, string[]>();
  /** The times of commits that hide intermediate states: commands of one batch see each other's changes. */
  readonly #unclear: number[] = [];
  readonly #holdings: Holding[] = [{ from: Number.NEGATIVE_INFINITY, sessionIds: [undefined] }];

  constructor(floorId: FloorId, catalog: Catalog) {
    this.floorId = floorId;
    this.#catalog = catalog;
    this.#check = new FloorLogCheck(catalog);
  }

  /** Runs that were accepted and have not ended. */
  get openRuns(): RunId[] {
    return [...this.#openRuns.keys()];
  }

  /** The holders at some time between two times; undefined when commits in between hide them. */
  holdersBetween(from: number, to: number): Set<SessionId | undefined> | undefined {
    if (this.#unclear.some((at) => at >= from && at <= to)) return undefined;
    const within = this.#holdings.filter((holding, index) => {
      const until = this.#holdings[index + 1]?.from ?? Number.POSITIVE_INFINITY;
      return holding.from <= to && until >= from;
    });
    return new Set(within.flatMap(({ sessionIds }) => sessionIds));
  }

  /** Whether an attempt could report at some time between two, and whether there was a time at which it could not. */
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
    const lasts = new Set(change.deleted.map(({ last }) => last));
    const entries = [...change.events, ...lasts].sort((one, other) => one.floorSeq - other.floorSeq);
    const rows = change.sessions.map(loadedSession);
    this.#isDense(change, entries, rows);
    // Of a deleted session only its last event is kept: the other changes of this commit to it are not visible.
    for (const { sessionId } of change.deleted) this.#forget(sessionId, at);
    const changes = entries.filter(({ type }) => type === "session_transition" || type === "floor_updated").length;
    const mayReserve = this.#catalog.policy.resumeDelayMs > 0 && changes > 1;
    if (lasts.size > 0 || mayReserve) this.#unclear.push(at);
    let place = this.head;
    for (const entry of entries) {
      this.#isDated(entry, at);
      this.log.push(entry);
      if (entry.floorSeq !== place + 1 || lasts.has(entry)) this.#check.skip();
      place = entry.floorSeq;
      if (!lasts.has(entry)) this.#follow(entry);
      // Commands of one batch are answered after its commit, each by the state that it found.
      if (entry.type === "session_transition") this.#hold(at);
      if (/"reason":"lease_expired"/.test(entry.json)) this.lapses.push({ sessionId: entry.sessionId!, at });
    }
    this.#check.end(entries.at(-1)?.at ?? Number.NEGATIVE_INFINITY);
    for (const write of change.messages) {
      this.#attemptIsNewest("message" in write ? write.message.id : write.id);
      if ("message" in write) messageIsTrue(write.message);
    }
    for (const row of rows) this.#rowAgrees(row, at);
    this.#runRequestsAreNew(change);
    const { floor, flags } = (JSON.parse(change.snapshot) as Snapshot).actors.context;
    this.#machinesAgree(floor, rows);
    checkArrangement(floor, rulesOf(this.#catalog, flags));
    this.#replacedAreGone(floor, entries);
    this.#runRequestsAreNamed();
    this.#hold(at, floor.reserved?.sessionId);
    this.version += 1;
    this.head = change.head;
  }

  /**
   * The sessions that a what-if may name from now on: the front, or the next front, and, where they can be affected,
   * the ducked ones.
   */
  #hold(from: number, reserved?: SessionId): void {
    const sessionIds = [this.#check.active[0] ?? reserved, ...this.#check.ducked];
    if (this.#holdings.at(-1)!.sessionIds.join() !== sessionIds.join()) this.#holdings.push({ from, sessionIds });
  }

  /** Places are consecutive, on the floor and in each session, without gaps and duplicates. */
  #isDense({ deleted, head, floorId }: FloorChange, entries: readonly LogEntry[], rows: readonly SessionRow[]): void {
    let place = this.head;
    for (const { floorSeq } of entries) {
      must(floorSeq > place, () => `the log stands at ${place} and place ${floorSeq} was written`);
      must(deleted.length > 0 || floorSeq === place + 1, () => `place ${place + 1} of the log was left out`);
      place = floorSeq;
    }
    must(head === place, () => `the log ends with ${place} and its head is ${head}`);
    for (const { session } of rows) {
      must(session.floorId === floorId, () => `${session.id} of ${session.floorId} was written by ${floorId}`);
    }
  }

  /** A floor's time never goes back, and never contains a clock's error (rule C9). */
  #isDated(entry: LogEntry, at: number): void {
    const beforeMs = at - entry.at;
    must(beforeMs > -APART_MS && beforeMs < LATE_MS, () => `place ${entry.floorSeq} is dated ${beforeMs} ms before`);
    const last = this.log.at(-1);
    must(!last || entry.at >= last.at, () => `place ${entry.floorSeq} is dated before place ${last?.floorSeq}`);
  }

  #follow(entry: LogEntry): void {
    const { sessionId, seq, type, json } = entry;
    if (sessionId === undefined) {
      this.#check.take(entry);
      return;
    }
    const before = this.#seqs.get(sessionId) ?? 0;
    must(seq === before + 1, () => `${sessionId} stands at ${before} and event ${seq} was written`);
    this.#seqs.set(sessionId, seq!);
    const state = this.#check.stateOf(sessionId);
    must(state !== "archived", () => `${sessionId} is archived and ${type} was written`);
    must((state === undefined) === (type === "session_created"), () => `${sessionId} is ${state}: ${type}`);
    this.#check.take(entry);
    if (type === "message") this.#say(sessionId, JSON.parse(json) as Message);
    else if (type === "complete") this.#complete((JSON.parse(json) as { runId: RunId }).runId);
  }

  #say(sessionId: SessionId, message: Message): void {
    if (message.role === "user") {
      must(!this.#endedRuns.has(message.runId!), () => `run ${message.runId} began after it had ended`);
      this.#openRuns.set(message.runId!, sessionId);
    } else {
      this.#attemptSays(message);
    }
  }

  /**
   * A message is completed once. One that was cut off may be completed again with the last report, and may only get
   * longer.
   */
  #attemptSays({ id, runId, status, content }: Message): void {
    const before = this.#said.get(id);
    const isCutOff = status === "interrupted" || status === "error";
    must(this.#openRuns.has(runId!) || isCutOff, () => `${id} was completed after its run`);
    must(before === undefined || isCutOff, () => `${id} was completed twice`);
    must(content.startsWith(before ?? ""), () => `${id} was ${before}, and became ${content}`);
    this.#said.set(id, content);
  }

  #complete(runId: RunId): void {
    must(this.#openRuns.delete(runId), () => `run ${runId} ended without having begun, or twice`);
    this.#endedRuns.add(runId);
  }

  /**
   * Only the newest attempt of a run writes, and its messages name it. An older attempt's messages are closed when it
   * is replaced.
   */
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
    this.#check.forget(id);
    this.#seqs.delete(id);
    this.#named.delete(id);
    for (const [runId, sessionId] of this.#openRuns) if (sessionId === id) this.#openRuns.delete(runId);
  }

  #rowAgrees({ session, head, memory }: SessionRow, at: number): void {
    const { id, state, activity } = session;
    const written = state === "active" || state === "ducked" ? `${state}.${activity}` : state;
    must(this.#check.stateOf(id) === written, () => `${id} is ${written}, its log says ${this.#check.stateOf(id)}`);
    must(this.#seqs.get(id) === head, () => `${id} stands at ${head}, its log at ${this.#seqs.get(id)}`);
    const { run } = JSON.parse(memory) as Memory;
    this.#noteAttempt(id, run, at);
    const named = [run?.effectId, run?.nudgeId];
    this.#named.set(
      id,
      named.filter((name) => name !== undefined),
    );
  }

  /** 16: when a session comes to the front, the sessions that it replaces leave, in any state. */
  #replacedAreGone({ holder, ducked, paused, queued }: Floor, entries: readonly LogEntry[]): void {
    const { front } = this.#check;
    if (!holder || front?.sessionId !== holder.sessionId || front.floorSeq <= this.head) return;
    for (const { sessionId, agentId, askedAt } of [...ducked, ...paused, ...queued]) {
      // No session is replaced by one that asked earlier.
      if (askedAt > holder.askedAt || !this.#check.isReplacedBy(holder.sessionId, sessionId)) continue;
      const hasCome = entries.some((entry) => entry.sessionId === sessionId && entry.floorSeq > front.floorSeq);
      must(hasCome, () => `16: ${sessionId} of ${agentId} stays, and ${holder.sessionId} replaces it`);
    }
  }

  #runRequestsAreNew({ runRequestsAdded, runRequestsRemoved }: FloorChange): void {
    for (const id of runRequestsRemoved) this.#wanted.delete(id);
    for (const { id } of runRequestsAdded) this.#wanted.add(id);
  }

  /** Every pending run request is referenced, and every referenced run request is pending. */
  #runRequestsAreNamed(): void {
    const named = new Set([...this.#named.values()].flat());
    for (const id of named) must(this.#wanted.has(id), () => `run request ${id} is named and not there`);
    for (const id of this.#wanted) must(named.has(id), () => `run request ${id} is there and nobody names it`);
  }

  #machinesAgree({ holder, ducked, paused }: Floor, rows: readonly SessionRow[]): void {
    const { active } = this.#check;
    must(
      active.join() === (holder?.sessionId ?? ""),
      () => `${active} is active, ${holder?.sessionId} holds the floor`,
    );
    const beneath = ducked.map(({ sessionId }) => sessionId).sort();
    must(
      this.#check.ducked.sort().join() === beneath.join(),
      () => `${this.#check.ducked} are ducked, listed ${beneath}`,
    );
    for (const { sessionId } of paused) {
      must(this.#check.stateOf(sessionId) === "paused", () => `${sessionId} waits to be resumed and is not paused`);
    }
    for (const { session } of rows) {
      const level = ducked.find(({ sessionId }) => sessionId === session.id)?.level;
      must(session.level === level, () => `${session.id} is at level ${session.level}, listed at ${level}`);
      if (session.state !== "paused") continue;
      const waits = paused.some(({ sessionId }) => sessionId === session.id);
      must(waits === (session.pausedBy === "preemption"), () => `${session.id} is paused by ${session.pausedBy}`);
    }
  }
}

/** A message contains the text of its attempt's script, all of it if it is complete; or only why its run failed. */
function messageIsTrue({ id, role, content, status, errorCode }: Message): void {
  if (role !== "assistant") return;
  const whole = id.endsWith("-failed") && status === "error" && errorCode !== undefined ? "" : textOf(id);
  const isTrue = whole !== undefined && (status === "success" ? content === whole : whole.startsWith(content));
  must(isTrue, () => `message ${id} is ${status} and says ${JSON.stringify(content)}, its script ${whole}`);
}
