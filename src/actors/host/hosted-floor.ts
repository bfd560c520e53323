// Rules C1, C2, C4, C20, C33 and C34 of docs/inside/correctness.md.
import type { Catalog } from "../../config/catalog/catalog.ts";
import { AppError } from "../../protocol/errors.ts";
import type { FloorId, RunId, SessionId } from "../../protocol/ids.ts";
import { type Envelope, sessionCreatedBy } from "../../protocol/internal/command.ts";
import type { Accepted, Reply } from "../../protocol/internal/reply.ts";
import { answerJson } from "../../protocol/session-json.ts";
import { earliest, type FloorTime, later } from "../../shared/floor-time.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock, Timer } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { Tracer } from "../../shared/ports/tracer.ts";
import type { BudgetCount, OverBudget, Receipt, ReceiptStore, SessionRow } from "../../store/store.ts";
import type { BudgetRefusal, DeadlineSources, Given } from "../facts.ts";
import { type Activation, CommitConflict, loadActivation } from "./activation.ts";
import type { Announcer } from "./announcer.ts";
import { BudgetSpent, budgetCounts, type CountedTurns, countedTogether, refusedTurns } from "./budgets.ts";
import { Departure, refuseStale } from "./departure.ts";
import { BrokenActors, type FloorActors } from "./floor-actors.ts";
import { Ledger, type NoticesOf } from "./ledger.ts";
import { refuseCritical, refuseForeign } from "./owner-check.ts";
import { checkPlayed } from "./played.ts";
import { loadRow, needsPreparation, Preparation, type PreparationStore, type PreparedCommand } from "./preparation.ts";
import { BrokenSnapshot } from "./snapshot.ts";
import { fieldsOf, type TracedCommand, traceBatch, traceOf } from "./traced-batch.ts";

export interface HostedFloorOptions {
  store: PreparationStore & ReceiptStore;
  clock: Clock;
  /** The floors' time, in ms: as the clock's, without its jumps (rule C9). Default: the clock's. */
  time?: (() => FloorTime) | undefined;
  /** The wall clock itself, in ms since 1970, which may go back (rule C37). Default: the clock's. */
  wall?: (() => number) | undefined;
  newId: () => string;
  catalog: () => Catalog;
  interactionTimeoutMs: number;
  /** Absent: no webhooks. */
  noticesOf?: NoticesOf | undefined;
  log: Logger;
  metrics: HostMetrics;
  tracer?: Tracer | undefined;
}

/** Counters of the host. */
export interface HostMetrics {
  command(type: string, outcome: string): void;
  /** A successful commit of this many commands; `durationMs` is the store's time. */
  batch(commands: number, durationMs: number): void;
  conflict(): void;
  /** Sessions whose lease ran out. */
  lapsed(sessions: number): void;
  broken(kind: "snapshot" | "actors" | "commit"): void;
  /** A turn was refused because a budget per owner or per agent is used up. */
  budgetSpent(per: "owner" | "agent"): void;
  /** Turns that began and tokens that were reported, by a commit. */
  counted(turns: CountedTurns): void;
}

/** An unanswered command. */
interface PendingCommand extends TracedCommand, PreparedCommand {
  /** Caller and command id. */
  key: string;
  answer: PromiseWithResolvers<Reply>;
}

/** Whether the command is a position in a spoken reply. */
const isPosition = ({ envelope }: PendingCommand): boolean => envelope.command.type === "session.played";

/** Whether the command is committed together with another floor (rule C34). */
const isMove = ({ envelope }: PendingCommand): boolean => envelope.command.type === "session.move";

/** Commands that one floor queues, and as many positions of spoken replies; at the limit `accept` throws `busy`. */
export const MAX_WAITING_COMMANDS = 256;
/** Commands applied together in one commit (rule C4), with all positions that wait: none delays a command. */
export const MAX_BATCH = 64;
/** A floor commits positions of spoken replies at most this often, in ms, unless it commits something else anyway. */
const PLAYED_MS = 1_000;
/** How many due sessions that are not in memory one commit handles. */
const DUE_PAGE = 32;
/** No session outside is due. */
const NEVER = Number.POSITIVE_INFINITY as FloorTime;
/** Tries of a command that meets conflicts; after the last it fails with `unavailable`. */
const MAX_CONFLICTS = 5;

/**
 * One floor in this process's memory: a bounded queue of commands, processed in batches, one batch at a time (rule C4).
 * A command is answered after its commit, and the next batch starts after the outcome of that commit is known.
 */
export class HostedFloor {
  readonly id: FloorId;
  readonly #options: HostedFloorOptions;
  readonly #announcer: Announcer;
  readonly #preparation: Preparation;
  readonly #waiting: PendingCommand[] = [];
  /** How many of these are `session.played`, which wait for another command to be committed with. */
  #positions = 0;
  #delay: Timer | undefined;
  /** Whether positions wait no longer. */
  #isDelayOver = false;
  /** Unanswered commands: a repeat joins its original (rule C2). They come and go too often for a `Map` (ADR 24). */
  readonly #pending: PendingCommand[] = [];
  #activation: Activation | undefined;
  /** Turns of the present batch that would exceed a budget (rule C35). */
  #refused = new Map<RunId, BudgetRefusal>();
  #isWorking = false;
  /** Whether it was used again since it was loaded or last spared: the host then spares it once when it makes room. */
  wasUsedAgain = false;

  constructor(id: FloorId, options: HostedFloorOptions, announcer: Announcer) {
    this.id = id;
    this.#options = options;
    this.#announcer = announcer;
    this.#preparation = new Preparation(id, options.store);
  }

  /** Whether the floor can be dropped: it has no queued command and no batch in flight. */
  get isIdle(): boolean {
    return !this.#isWorking && this.#waiting.length === 0;
  }

  /**
   * Queue a command, or join the unanswered command that it repeats.
   * @returns the floor's reply, after the commit
   * @throws AppError `busy` or `idempotency_mismatch` at once; the promise rejects with `unavailable` or `internal`
   */
  accept(envelope: Envelope): Promise<Reply> {
    const key = commandKey(envelope);
    const original = this.#pending.find((pending) => pending.key === key);
    if (original) {
      if (original.envelope.bodyHash !== envelope.bodyHash) throw new AppError("idempotency_mismatch");
      return original.answer.promise;
    }
    const pending: PendingCommand = { envelope, key, answer: Promise.withResolvers(), isSuspect: false };
    const waiting = isPosition(pending) ? this.#positions : this.#waiting.length - this.#positions;
    if (waiting >= MAX_WAITING_COMMANDS) throw new AppError("busy");
    this.#pending.push(pending);
    this.#waiting.push(pending);
    if (!isPosition(pending)) this.#begin();
    else {
      this.#positions += 1;
      if (!this.#delay) this.#commitDelayed();
    }
    return pending.answer.promise;
  }

  /** Commit what has waited for a second, and wait for another one. */
  #commitDelayed(): void {
    this.#delay = undefined;
    if (this.#positions === 0) return;
    this.#delay = this.#options.clock.after(PLAYED_MS, () => this.#commitDelayed());
    this.#isDelayOver = true;
    this.#begin();
  }

  #begin(): void {
    if (!this.#isWorking) void this.#work();
  }

  /** Drop the actors. The next command loads them from the store. */
  drop(): void {
    this.#activation = undefined;
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    // Commands that arrive in this iteration of the event loop share the first batch.
    await Promise.resolve();
    while (this.#waiting.length > this.#positions || (this.#isDelayOver && this.#positions > 0)) {
      this.#isDelayOver = false;
      const commands = this.#nextBatch();
      flow.onHop?.("floor", `a batch of ${commands.length}`);
      await this.#commitOrSplit(commands);
    }
    this.#isWorking = false;
  }

  /** The commands that have waited longest, with the positions before and after them. A move has a batch of its own. */
  #nextBatch(): PendingCommand[] {
    let [end, positions] = [0, 0];
    for (const pending of this.#waiting) {
      if (isMove(pending) && end > 0) break;
      if (isPosition(pending)) positions += 1;
      else if (end - positions === MAX_BATCH) break;
      end += 1;
      if (isMove(pending)) break;
    }
    this.#positions -= positions;
    return this.#waiting.splice(0, end);
  }

  /** Commit the commands together, or else one at a time, so that only the faulty one fails. Answers every command. */
  async #commitOrSplit(commands: PendingCommand[]): Promise<void> {
    const timely = this.#failLate(commands);
    if (timely.length === 0) return;
    try {
      await this.#commit(timely);
    } catch (thrown) {
      const error = await this.#causeOf(thrown);
      this.drop();
      if (error instanceof CommitConflict) {
        for (const pending of timely) pending.isSuspect = true;
        this.#options.metrics.conflict();
      } else if (error instanceof AppError && error.code === "unavailable") return this.#fail(timely, error);
      else if (timely.length === 1) return this.#failAlone(timely[0]!, error);
      for (const pending of timely) await this.#commitAlone(pending);
    }
  }

  async #commitAlone(pending: PendingCommand): Promise<void> {
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      try {
        // Rule C2: after a failed commit only the receipt shows whether the command took effect.
        if (await this.#answerFromReceipt(pending)) return;
        if (this.#failLate([pending]).length === 0) return;
        await this.#commit([pending]);
        return;
      } catch (thrown) {
        const error = await this.#causeOf(thrown);
        this.drop();
        if (!(error instanceof CommitConflict)) return this.#failAlone(pending, error);
        pending.isSuspect = true;
        this.#options.metrics.conflict();
      }
    }
    this.#fail([pending], new AppError("unavailable"));
  }

  /**
   * Tell a fault of the command from a torn read. If another node committed while this node loaded the floor, the
   * loaded rows may be of different versions; an error on such rows counts as a conflict.
   */
  async #causeOf(error: unknown): Promise<unknown> {
    if (error instanceof CommitConflict || error instanceof AppError || !this.#activation) return error;
    try {
      const isCurrent = await this.#options.store.confirm(this.id, this.#activation.state.version);
      return isCurrent ? error : new CommitConflict();
    } catch (unconfirmed) {
      return unconfirmed;
    }
  }

  /**
   * Apply the commands, commit what they change, and answer them.
   * @throws CommitConflict, BrokenActors, AppError, or the store's error; every command is then still unanswered
   */
  async #commit(commands: PendingCommand[]): Promise<void> {
    this.#refused = new Map();
    for (;;) {
      try {
        return await this.#tryToCommit(commands);
      } catch (error) {
        if (!(error instanceof BudgetSpent)) throw error;
        // Each time at least one more turn may not begin.
        this.drop();
        const before = this.#refused.size;
        for (const [runId, refusal] of error.refused) this.#refused.set(runId, refusal);
        if (this.#refused.size === before) throw new Error("a turn began although its budget is used up");
      }
    }
  }

  async #tryToCommit(commands: PendingCommand[]): Promise<void> {
    const { store, tracer } = this.#options;
    const endTrace = traceBatch(tracer, this.id, commands);
    try {
      this.#activation ??= await loadActivation(this.id, store);
      const activation = this.#activation;
      await this.#catchUp(activation);
      const ledger = new Ledger(this.id, activation.state);
      const departure = isMove(commands[0]!) ? await this.#openDeparture(commands[0]!) : undefined;
      const replies = await this.#applyAll(commands, activation, ledger, departure);
      const isWritten = await this.#write(ledger, activation, commands.length, departure);
      // Rule C1: memory may be outdated, so the store confirms the version even if the batch changes nothing.
      if (!isWritten && !(await store.confirm(this.id, activation.state.version))) throw new CommitConflict();
      for (const [index, pending] of commands.entries()) this.#answer(pending, replies[index]!);
      endTrace?.(isWritten ? "committed" : "unchanged");
    } catch (error) {
      endTrace?.("failed", (error as Error).name);
      throw error;
    }
  }

  /** Step the machines by the commands, in their order. @returns the replies, which count once they are committed */
  async #applyAll(
    commands: PendingCommand[],
    activation: Activation,
    ledger: Ledger,
    departure?: Departure,
  ): Promise<Reply[]> {
    const { actors } = activation;
    const unprepared = commands.filter(({ envelope }) => needsPreparation(envelope, activation));
    const refused =
      unprepared.length > 0 ? await this.#preparation.prepareAll(unprepared, activation, ledger) : undefined;
    return commands.map((pending) => {
      const { envelope } = pending;
      const reply =
        refuseForeign(envelope, actors) ??
        refuseCritical(envelope, this.#options.catalog(), actors) ??
        refused?.get(pending) ??
        refuseSpent(envelope, this.#refused) ??
        departure?.refusal ??
        this.#applyOne(pending, activation, ledger, departure);
      if (envelope.caller !== undefined) ledger.addReceipt(this.#receipt(pending, reply));
      return reply;
    });
  }

  /** Commit what the ledger has, and announce it. @returns whether there was anything */
  async #write(
    ledger: Ledger,
    { actors, state }: Activation,
    commands: number,
    departure?: Departure,
  ): Promise<boolean> {
    const { store, clock, metrics, noticesOf } = this.#options;
    const aheadMs = this.#wall() - this.#time();
    const close = (from: Ledger, its: FloorActors) => from.close(its, this.#sources(), { aheadMs, noticesOf });
    const batch = close(ledger, actors);
    if (!batch) return false;
    const left = departure?.hasLeft ? close(departure.ledger, departure.actors) : undefined;
    const begunAt = clock.now();
    const counted = left ? countedTogether(batch.counted, left.counted) : batch.counted;
    const budgets = this.#budgetsOf(counted);
    const outcome = store.commit({ ...batch.change, ...(budgets && { budgets }), ...(left && { along: left.change }) });
    // Silence comes before sound, also for readers of both floors.
    const all = left ? [left, batch] : [batch];
    const announcements = all.map((each) =>
      this.#withoutFault(() => this.#announcer.prepare(each, this.#announcer.topicOf(each.change.floorId))),
    );
    const result = await outcome;
    if (result === "conflict") throw new CommitConflict();
    if (result !== "committed") throw this.#spent(result, counted);
    state.version += 1;
    flow.onHop?.("committed", `version ${state.version}`);
    for (const announcement of announcements)
      if (announcement) this.#withoutFault(() => this.#announcer.publish(announcement));
    metrics.batch(commands, clock.now() - begunAt);
    metrics.counted(counted);
    const lapses = all.reduce((sum, each) => sum + each.lapses, 0);
    if (lapses > 0) metrics.lapsed(lapses);
    return true;
  }

  /** What counts towards budgets of the catalogue; undefined if nothing does. */
  #budgetsOf(counted: CountedTurns): BudgetCount[] | undefined {
    const catalog = this.#options.catalog();
    if (catalog.budgets.length === 0 || counted.begun.length + counted.used.length === 0) return undefined;
    const counts = budgetCounts(catalog, counted, this.#time());
    return counts.length > 0 ? counts : undefined;
  }

  #spent(over: OverBudget, { begun }: CountedTurns): BudgetSpent {
    const { clock, catalog, metrics } = this.#options;
    const refused = refusedTurns(over, begun, catalog(), { now: clock.now(), time: this.#time() });
    for (const { spent } of refused.values()) metrics.budgetSpent(spent.per);
    return new BudgetSpent(refused);
  }

  /**
   * The session that leaves its floor with this command, as its floor's newest commit has it (rule C34). Whether this
   * node owns that floor does not matter: the commit compares the versions of both.
   * @throws AppError `busy` if its messages were copied before its newest event
   */
  async #openDeparture({ envelope }: PendingCommand): Promise<Departure | undefined> {
    const { command } = envelope;
    if (command.type !== "session.move") return undefined;
    const { store } = this.#options;
    const { sessionId, floorId } = command.from;
    const floor = new HostedFloor(floorId, this.#options, this.#announcer);
    floor.#refused = this.#refused;
    const activation = await loadActivation(floorId, store);
    await floor.#catchUp(activation);
    const { actors, state } = activation;
    if (!actors.has(sessionId)) {
      const row = await store.loadSession(sessionId);
      if (row?.session.floorId === floorId) loadRow(row, actors, state);
    }
    const ledger = new Ledger(floorId, state);
    const given = floor.#given(state);
    ledger.write(actors.apply({ type: "alarm", given }).facts, given.now);
    return new Departure(envelope, command, actors, ledger, () => floor.#given(state));
  }

  /**
   * Announce a part of a commit. A fault must not fail commands that are committed: it is logged, readers get the
   * events from the store, and the next sweep arms the effects.
   */
  #withoutFault<T>(announce: () => T): T | undefined {
    try {
      return announce();
    } catch (error) {
      this.#options.log.error({ err: error, floorId: this.id }, "a commit could not be announced");
      return undefined;
    }
  }

  /**
   * Carry out deadlines of sessions that are not in memory: a page of them with each commit, because there may be
   * thousands. What is due for the others happens before the next command, in its commit.
   */
  async #catchUp(activation: Activation): Promise<void> {
    const { actors, state } = activation;
    while (state.outsideDueAt !== undefined && state.outsideDueAt <= this.#time()) {
      const time = this.#time();
      const rows = await this.#options.store.loadDue(this.id, actors.sessionIds, DUE_PAGE + 1);
      const due = rows.slice(0, DUE_PAGE).filter(({ dueAt }) => dueAt! <= time);
      for (const row of due) loadDue(row, activation, this.#sources());
      state.outsideDueAt = rows[due.length]?.dueAt as FloorTime | undefined;
      const ledger = new Ledger(this.id, state);
      const given = this.#given(state, state.outsideDueAt ?? NEVER);
      ledger.write(actors.catchUp(given), given.now);
      await this.#write(ledger, activation, 0);
    }
  }

  /**
   * What the machines get with the next step.
   * @param until the floor's time goes no further. By default it stops before a session outside is due: that session is
   *   loaded before the next batch
   */
  #given(state: Activation["state"], until = state.outsideDueAt ? later(state.outsideDueAt, -1) : NEVER): Given {
    const { clock, newId } = this.#options;
    const present = this.#time();
    const jumpedMs = clock.now() - present;
    const time = earliest(present, until);
    state.lastNow = Math.max(state.lastNow, time + jumpedMs);
    const refused = this.#refused.size > 0 ? { refused: this.#refused } : {};
    return { now: state.lastNow, time, wall: this.#wall(), stamp: newId(), ...this.#sources(), ...refused };
  }

  #sources(): DeadlineSources {
    return { catalog: this.#options.catalog(), interactionTimeoutMs: this.#options.interactionTimeoutMs };
  }

  #wall(): number {
    return this.#options.wall?.() ?? this.#options.clock.now();
  }

  #time(): FloorTime {
    const { time, clock } = this.#options;
    return time ? time() : (clock.now() as FloorTime);
  }

  #applyOne(
    pending: PendingCommand,
    { actors, state }: Activation,
    ledger: Ledger,
    departure: Departure | undefined,
  ): Reply {
    const { envelope } = pending;
    const createdId = sessionCreatedBy(envelope.command);
    // Rule C20: an earlier command of this batch deleted the session.
    if (createdId && actors.machineState(createdId)?.value.lifecycle === "deleted") {
      return { ok: false, code: "idempotency_mismatch" };
    }
    const session = "sessionId" in envelope.command ? envelope.command.sessionId : undefined;
    const stale = session && !departure && this.#refuseStale(envelope, session, actors, state, ledger);
    if (stale) return stale;
    const given = this.#given(state);
    const checked = checkPlayed(envelope.command, session && actors.machineState(session)?.context, ledger);
    if ("answer" in checked) return checked.answer;
    const { before, command, upTo } = checked;
    if (before) ledger.write(actors.apply({ ...before, given }).facts, given.now);
    const { facts, reply } = actors.apply({ ...command, ...departure?.brings, given });
    ledger.write(facts, given.now, traceOf(pending));
    if (reply.ok) departure?.leave(actors);
    if (!reply.ok || reply.sessionId === undefined || envelope.caller === undefined) return reply;
    const sessionCreatedAt = actors.machineState(reply.sessionId)?.context.createdAt;
    const counts = upTo !== undefined && { playedUpTo: upTo };
    const answered: Accepted = { ...reply, ...counts, seq: ledger.seqOf(reply.sessionId), sessionCreatedAt };
    return answered;
  }

  /** Refuse a command whose caller does not know the session's newest event. What is due happens before (rule C33). */
  #refuseStale(
    envelope: Envelope,
    sessionId: SessionId,
    actors: Activation["actors"],
    state: Activation["state"],
    ledger: Ledger,
  ): Reply | undefined {
    if (envelope.ifSeq === undefined) return undefined;
    const given = this.#given(state);
    ledger.write(actors.apply({ type: "alarm", given }).facts, given.now);
    return refuseStale(envelope, sessionId, actors, ledger);
  }

  #receipt({ envelope }: PendingCommand, reply: Reply): Receipt {
    return {
      floorId: this.id,
      caller: envelope.caller!,
      commandId: envelope.commandId,
      bodyHash: envelope.bodyHash,
      reply: answerJson(reply),
      at: this.#options.clock.now(),
    };
  }

  /** @returns whether the command has a receipt, and so took effect before */
  async #answerFromReceipt(pending: PendingCommand): Promise<boolean> {
    const { caller, commandId, bodyHash } = pending.envelope;
    if (caller === undefined) return false;
    const [receipt] = await this.#options.store.findReceipts([{ caller, commandId }]);
    if (!receipt) return false;
    const isSame = receipt.floorId === this.id && receipt.bodyHash === bodyHash;
    this.#answer(pending, isSame ? JSON.parse(receipt.reply) : { ok: false, code: "idempotency_mismatch" });
    return true;
  }

  /** Fail the commands whose time is over. @returns the others */
  #failLate(commands: PendingCommand[]): PendingCommand[] {
    const now = this.#options.clock.now();
    const late = commands.filter(({ envelope }) => now > envelope.timeoutAt);
    if (late.length === 0) return commands;
    this.#fail(late, new AppError("unavailable", "the command waited for its floor until its deadline"));
    return commands.filter((pending) => !late.includes(pending));
  }

  #forget(pending: PendingCommand): void {
    const index = this.#pending.indexOf(pending);
    if (index >= 0) this.#pending.splice(index, 1);
  }

  #answer(pending: PendingCommand, reply: Reply): void {
    this.#forget(pending);
    pending.answer.resolve(reply);
  }

  #fail(commands: PendingCommand[], error: AppError): void {
    for (const pending of commands) {
      this.#forget(pending);
      pending.answer.reject(error);
    }
  }

  #failAlone(pending: PendingCommand, error: unknown): void {
    if (error instanceof AppError) return this.#fail([pending], error);
    const kind = error instanceof BrokenSnapshot ? "snapshot" : error instanceof BrokenActors ? "actors" : "commit";
    this.#options.metrics.broken(kind);
    this.#options.log.error(
      { err: error, floorId: this.id, ...fieldsOf(pending.envelope) },
      "a command broke its floor",
    );
    this.#fail([pending], new AppError("internal", undefined, { cause: error }));
  }
}

/**
 * Add a session whose row says that it is due. A new catalogue may have moved its deadline: the row then learns of it.
 */
function loadDue(row: SessionRow, { actors, state }: Activation, sources: DeadlineSources) {
  const { id } = row.session;
  loadRow(row, actors, state);
  if (actors.machineState(id)!.deadline(sources)?.at !== row.dueAt) actors.touch(id);
}

/** Refuse a command whose turn would begin and exceed a budget. It changes nothing else. */
function refuseSpent({ command }: Envelope, refused: ReadonlyMap<RunId, BudgetRefusal>): Reply | undefined {
  const refusal = "turn" in command && command.turn ? refused.get(command.turn.runId) : undefined;
  if (!refusal) return undefined;
  const { message, retryAfterMs, spent } = refusal;
  return { ok: false, code: "budget_exhausted", message, facts: { retryAfterMs, budget: spent } };
}

const commandKey = ({ caller, commandId }: Envelope): string => `${caller ?? ""}\n${commandId}`;
