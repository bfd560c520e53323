// Rules C1, C20, C33 and C34 of docs/inside/correctness.md.
import type { Catalog } from "../../config/catalog/catalog.ts";
import type { FloorId, RunId, SessionId } from "../../protocol/ids.ts";
import { type Command, type Envelope, sessionCreatedBy } from "../../protocol/internal/command.ts";
import { type Accepted, previewOf, type Reply } from "../../protocol/internal/reply.ts";
import { answerJson } from "../../protocol/session-json.ts";
import { earliest, type FloorTime, later } from "../../shared/floor-time.ts";
import { flow } from "../../shared/flow.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { Span, Trace, Tracer } from "../../shared/ports/tracer.ts";
import type { BudgetCount, OverBudget, Receipt, ReceiptStore, SessionRow, UsageStore } from "../../store/store.ts";
import type { BegunTurn, BudgetRefusal, DeadlineSources, Given } from "../facts.ts";
import {
  type BatchedCommand,
  checkPlayed,
  loadNamed,
  type NamedRows,
  refuseSpent,
  refuseStale,
  replyBefore,
  replyToSpent,
} from "./admission.ts";
import type { Announcer } from "./announcer.ts";
import { BudgetSpent, budgetCounts, type CountedTurns, countedTogether, overBudget, refusedTurns } from "./budgets.ts";
import { Departure } from "./departure.ts";
import { type FloorActors, NEW_TURN, withRouted } from "./floor-actors.ts";
import { Ledger, type NoticesOf } from "./ledger.ts";
import { type Activation, CommitConflict, type LedgerState, loadActivation, loadRow } from "./snapshot.ts";

export interface FloorOptions {
  store: NamedRows & ReceiptStore & Pick<UsageStore, "findWindows">;
  clock: Clock;
  /** How far the clock has jumped, in ms: the floors' time is the clock's without its jumps (rule C9). Default: 0. */
  jumpedMs?: (() => number) | undefined;
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

/** A command of a batch, in its own trace. */
export interface TracedCommand extends BatchedCommand {
  /** The span of its batch in its own trace; set when the batch begins. */
  span?: Span | undefined;
}

/** Whether the command is committed together with another floor (rule C34). */
export const isMove = ({ envelope }: BatchedCommand): boolean => envelope.command.type === "session.move";

/** How many due sessions that are not in memory one commit handles. */
const DUE_PAGE = 32;

/**
 * A floor as it is in memory: its actors and the state of its rows. It applies one batch of commands at a time, commits
 * what they change, and announces it. After a failed commit its user drops what is loaded.
 */
export class LoadedFloor {
  readonly id: FloorId;
  readonly #options: FloorOptions;
  readonly #announcer: Announcer;
  #activation: Activation | undefined;
  /** Turns of the present batch that would exceed a budget (rule C35). */
  #overBudget = new Map<RunId, BudgetRefusal>();

  constructor(id: FloorId, options: FloorOptions, announcer: Announcer) {
    this.id = id;
    this.#options = options;
    this.#announcer = announcer;
  }

  /** The version that the actors are based on; undefined if none are loaded. */
  get version(): number | undefined {
    return this.#activation?.state.version;
  }

  /** Drop the actors. The next command loads them from the store. */
  drop(): void {
    this.#activation = undefined;
  }

  /**
   * Apply the commands, and commit what they change.
   * @returns their replies, which count now
   * @throws CommitConflict, BrokenActors, AppError, or the store's error; drop the floor then
   */
  async commit(commands: readonly TracedCommand[]): Promise<Reply[]> {
    this.#overBudget = new Map();
    for (;;) {
      try {
        return await this.#tryToCommit(commands);
      } catch (error) {
        if (!(error instanceof BudgetSpent)) throw error;
        // Each time at least one more turn may not begin.
        this.drop();
        const before = this.#overBudget.size;
        for (const [runId, refusal] of error.refused) this.#overBudget.set(runId, refusal);
        if (this.#overBudget.size === before) throw new Error("a turn began although its budget is used up");
      }
    }
  }

  async #tryToCommit(commands: readonly TracedCommand[]): Promise<Reply[]> {
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
      endTrace?.(isWritten ? "committed" : "unchanged");
      return replies;
    } catch (error) {
      endTrace?.("failed", (error as Error).name);
      throw error;
    }
  }

  /** Step the machines by the commands, in their order. @returns the replies, which count once they are committed */
  async #applyAll(
    commands: readonly TracedCommand[],
    activation: Activation,
    ledger: Ledger,
    departure?: Departure,
  ): Promise<Reply[]> {
    const { actors } = activation;
    const loading = loadNamed(commands, activation, ledger, this.#options.store);
    const decided = loading && (await loading);
    const admission = { actors, catalog: this.#options.catalog(), decided };
    const previews = new Map<number, readonly BegunTurn[]>();
    const replies = commands.map((pending, index) => {
      const { envelope } = pending;
      const reply =
        replyBefore(pending, admission) ??
        this.#refuseSpent(envelope, activation, ledger) ??
        departure?.refusal ??
        this.#applyOne(pending, activation, ledger, departure, (begins) => previews.set(index, begins));
      if (envelope.caller !== undefined) ledger.addReceipt(this.#receipt(pending, reply));
      return reply;
    });
    for (const [index, begins] of previews) {
      const refusal = await this.#findRefusal(commands[index]!.envelope.command, begins, activation);
      if (refusal) replies[index] = previewOf(replyToSpent(refusal));
    }
    return replies;
  }

  /** Why the turn of a what-if would not begin: its commit would exceed a budget. */
  async #findRefusal(
    command: Command,
    begun: readonly BegunTurn[],
    { actors }: Activation,
  ): Promise<BudgetRefusal | undefined> {
    if (command.type !== "floor.what_if" || !begun.some(({ runId }) => runId === NEW_TURN.runId)) return undefined;
    const used = actors
      .tokensOf(command, command.sessionId, command.ownerId)
      .flatMap((fact) => (fact.type === "tokens.used" ? [fact.used] : []));
    const counts = this.#budgetsOf({ begun, used });
    if (!counts) return undefined;
    const windows = await this.#options.store.findWindows(counts.map(({ scope }) => scope));
    return this.#refusedOf(overBudget(counts, windows), begun).get(NEW_TURN.runId);
  }

  /** Refuse a command whose turn would exceed a budget. It changes nothing, but what its router agents used counts. */
  #refuseSpent({ command }: Envelope, { actors, state }: Activation, ledger: Ledger): Reply | undefined {
    const refusal = refuseSpent(command, this.#overBudget);
    if (!refusal || command.type !== "session.chat" || !command.routed) return refusal;
    const { routed, sessionId, session } = command;
    ledger.write(actors.tokensOf(routed, sessionId, session?.ownerId), this.#givenBeforeDue(state).now);
    return withRouted(refusal, routed);
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
    const refused = this.#refusedOf(over, begun);
    for (const { spent } of refused.values()) this.#options.metrics.budgetSpent(spent.per);
    return new BudgetSpent(refused);
  }

  #refusedOf(over: OverBudget, begun: readonly BegunTurn[]): Map<RunId, BudgetRefusal> {
    const time = this.#time();
    return refusedTurns(over, begun, this.#options.catalog(), { now: time + this.#jumpedMs(), time });
  }

  /**
   * The session that leaves its floor with this command, as its floor's newest commit has it (rule C34). Whether this
   * node owns that floor does not matter: the commit compares the versions of both.
   * @throws AppError `busy` if its messages were copied before its newest event
   */
  async #openDeparture({ envelope }: TracedCommand): Promise<Departure | undefined> {
    const { command } = envelope;
    if (command.type !== "session.move") return undefined;
    const { store } = this.#options;
    const { sessionId, floorId } = command.from;
    const floor = new LoadedFloor(floorId, this.#options, this.#announcer);
    floor.#overBudget = this.#overBudget;
    const activation = await loadActivation(floorId, store);
    await floor.#catchUp(activation);
    const { actors, state } = activation;
    if (!actors.has(sessionId)) {
      const row = await store.loadSession(sessionId);
      if (row?.session.floorId === floorId) loadRow(row, actors, state);
    }
    const ledger = new Ledger(floorId, state);
    const given = floor.#givenBeforeDue(state);
    ledger.write(actors.apply({ type: "alarm", given }).facts, given.now);
    return new Departure(envelope, command, actors, ledger, () => floor.#givenBeforeDue(state));
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
      const given = this.#given(state, state.outsideDueAt);
      ledger.write(actors.catchUp(given), given.now);
      await this.#write(ledger, activation, 0);
    }
  }

  /** What a command gets: its time is before the next session outside is due, which is loaded before the next batch. */
  #givenBeforeDue(state: LedgerState): Given {
    const { outsideDueAt } = state;
    return this.#given(state, outsideDueAt === undefined ? undefined : later(outsideDueAt, -1));
  }

  /** What the machines get with the next step. @param until the floor's time goes no further */
  #given(state: LedgerState, until: FloorTime | undefined): Given {
    const stamp = this.#options.newId();
    const time = until === undefined ? this.#time() : earliest(this.#time(), until);
    // One reading of the clock: of two, the second may be a ms later, and so would be what the log says.
    state.lastNow = Math.max(state.lastNow, time + this.#jumpedMs());
    const refused = this.#overBudget.size > 0 ? { refused: this.#overBudget } : {};
    return { now: state.lastNow, time, wall: this.#wall(), stamp, ...this.#sources(), ...refused };
  }

  #sources(): DeadlineSources {
    return { catalog: this.#options.catalog(), interactionTimeoutMs: this.#options.interactionTimeoutMs };
  }

  #wall(): number {
    return this.#options.wall?.() ?? this.#options.clock.now();
  }

  #time(): FloorTime {
    return (this.#options.clock.now() - this.#jumpedMs()) as FloorTime;
  }

  #jumpedMs(): number {
    return this.#options.jumpedMs?.() ?? 0;
  }

  #applyOne(
    pending: TracedCommand,
    { actors, state }: Activation,
    ledger: Ledger,
    departure: Departure | undefined,
    onPreview: (begins: readonly BegunTurn[]) => void,
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
    const given = this.#givenBeforeDue(state);
    const checked = checkPlayed(envelope.command, session && actors.machineState(session)?.context, ledger);
    if ("answer" in checked) return checked.answer;
    const { before, command, upTo } = checked;
    if (before) ledger.write(actors.apply({ ...before, given }).facts, given.now);
    const { facts, reply, begins } = actors.apply({ ...command, ...departure?.brings, given });
    if (begins) onPreview(begins);
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
    state: LedgerState,
    ledger: Ledger,
  ): Reply | undefined {
    if (envelope.ifSeq === undefined) return undefined;
    const given = this.#givenBeforeDue(state);
    ledger.write(actors.apply({ type: "alarm", given }).facts, given.now);
    return refuseStale(envelope, sessionId, actors, ledger);
  }

  #receipt({ envelope }: TracedCommand, reply: Reply): Receipt {
    return {
      floorId: this.id,
      caller: envelope.caller!,
      commandId: envelope.commandId,
      bodyHash: envelope.bodyHash,
      reply: answerJson(reply),
      at: this.#options.clock.now(),
    };
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

/**
 * Begin a span per traced command of a batch, so that every trace shows the shared commit and its outcome. Without a
 * tracer, do nothing.
 * @returns what ends them; `failure`: the name of the error
 */
function traceBatch(
  tracer: Tracer | undefined,
  floorId: FloorId,
  commands: readonly TracedCommand[],
): ((outcome: "committed" | "unchanged" | "failed", failure?: string) => void) | undefined {
  if (!tracer) return undefined;
  const attributes = { "interlock.floor.id": floorId, "interlock.batch": commands.length };
  for (const pending of commands) {
    const { trace } = pending.envelope;
    pending.span = trace === undefined ? undefined : tracer.begin("commit", "commit", trace, attributes);
  }
  return (outcome, failure) => {
    for (const { span } of commands) span?.end({ "interlock.outcome": outcome }, failure);
  };
}

/** The trace that the runs started by a command belong to. */
const traceOf = ({ span, envelope }: TracedCommand): Trace | undefined => span?.trace ?? envelope.trace;
