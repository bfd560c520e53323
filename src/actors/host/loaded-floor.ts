// Rules C1, C20, C33 and C34 of docs/inside/correctness.md.
import type { Catalog } from "../../config/catalog/catalog.ts";
import type { FloorId } from "../../protocol/ids.ts";
import type { Envelope } from "../../protocol/internal/command.ts";
import { type Accepted, previewOf, type Reply } from "../../protocol/internal/reply.ts";
import { answerJson } from "../../protocol/session-json.ts";
import { earliest, type FloorTime, floorTimeOf, type JumpingClock, jumpOf, later } from "../../shared/floor-time.ts";
import type { Span, Trace, Tracer } from "../../shared/ports/tracer.ts";
import type { Receipt, ReceiptStore, SessionRow, UsageStore } from "../../store/store.ts";
import type { CountedTurns, DeadlineSources, Given } from "../facts.ts";
import {
  type BatchedCommand,
  checkPlayed,
  type LoadedReplies,
  loadNamed,
  type NamedRows,
  refuseDeletedId,
  refuseStale,
  replyBefore,
} from "./admission.ts";
import {
  BudgetSpent,
  countedTogether,
  countsOf,
  previewRefusals,
  type RefusedTurns,
  refuseSpent,
  spentBy,
} from "./budgets.ts";
import { type CommitMetrics, type CommitOptions, commitAndAnnounce } from "./commit.ts";
import { Departure } from "./departure.ts";
import { type FloorActors, withRouted } from "./floor-actors.ts";
import { Ledger, type NoticesOf } from "./ledger.ts";
import { type Activation, CommitConflict, type LedgerState, loadActivation, loadRow } from "./snapshot.ts";

export interface FloorOptions extends JumpingClock, CommitOptions {
  store: CommitOptions["store"] & NamedRows & ReceiptStore & Pick<UsageStore, "findWindows">;
  /** The wall clock itself, in ms since 1970, which may go back (rule C37). Default: the clock's. */
  wall?: (() => number) | undefined;
  newId: () => string;
  catalog: () => Catalog;
  interactionTimeoutMs: number;
  /** Absent: no webhooks. */
  noticesOf?: NoticesOf | undefined;
  metrics: HostMetrics;
  tracer?: Tracer | undefined;
}

/** Counters of the host. */
export interface HostMetrics extends CommitMetrics {
  command(type: string, outcome: string): void;
  conflict(): void;
  broken(kind: "snapshot" | "actors" | "commit"): void;
  /** A turn was refused because a budget per owner or per agent is used up. */
  budgetSpent(per: "owner" | "agent"): void;
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

/** What the commands of one commit are applied to, and collected in. */
interface OpenBatch {
  readonly actors: FloorActors;
  readonly state: LedgerState;
  readonly ledger: Ledger;
  readonly decided: LoadedReplies | undefined;
  /** The session that comes from another floor, for a move. */
  readonly departure: Departure | undefined;
  /** By the index of its command: what a preview would count. */
  readonly previewed: Map<number, CountedTurns>;
}

/**
 * A floor as it is in memory: its actors and the state of its rows. It applies one batch of commands at a time, and
 * commits what they change. After a failed commit its user drops what is loaded.
 */
export class LoadedFloor {
  readonly id: FloorId;
  readonly #options: FloorOptions;
  #activation: Activation | undefined;
  /** Turns of the present batch that would exceed a budget (rule C35); undefined: none is known to. */
  #refused: RefusedTurns | undefined;

  constructor(id: FloorId, options: FloorOptions) {
    this.id = id;
    this.#options = options;
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
    this.#refused = undefined;
    for (;;) {
      try {
        return await this.#tryToCommit(commands);
      } catch (error) {
        if (!(error instanceof BudgetSpent)) throw error;
        this.drop();
        this.#refused = error.and(this.#refused);
      }
    }
  }

  async #tryToCommit(commands: readonly TracedCommand[]): Promise<Reply[]> {
    const { store, tracer } = this.#options;
    const endTrace = traceBatch(tracer, this.id, commands);
    try {
      this.#activation ??= await loadActivation(this.id, store);
      const activation = this.#activation;
      if (this.#isOverdue(activation)) await this.#catchUp(activation);
      const { actors, state } = activation;
      const ledger = new Ledger(this.id, state);
      const departure = isMove(commands[0]!) ? await this.#openDeparture(commands[0]!) : undefined;
      const loading = loadNamed(commands, activation, ledger, store);
      const decided = loading && (await loading);
      const batch: OpenBatch = { actors, state, ledger, decided, departure, previewed: new Map() };
      const replies = commands.map((pending, index) => this.#answer(batch, pending, index));
      if (batch.previewed.size > 0) await this.#refusePreviews(replies, batch.previewed);
      const isWritten = await this.#write(batch, commands.length);
      // Rule C1: memory may be outdated, so the store confirms the version even if the batch changes nothing.
      if (!isWritten && !(await store.confirm(this.id, state.version))) throw new CommitConflict();
      endTrace?.(isWritten ? "committed" : "unchanged");
      return replies;
    } catch (error) {
      endTrace?.("failed", (error as Error).name);
      throw error;
    }
  }

  /** Answer a command: it is refused, or steps the machines. The reply counts once it is committed. */
  #answer(batch: OpenBatch, pending: TracedCommand, index: number): Reply {
    const { envelope } = pending;
    const reply = this.#refuse(batch, pending) ?? this.#apply(batch, pending, index);
    if (envelope.caller !== undefined) batch.ledger.addReceipt(this.#receipt(envelope, reply));
    return reply;
  }

  /** What answers a command before the machines are asked. */
  #refuse(batch: OpenBatch, pending: TracedCommand): Reply | undefined {
    const { actors, decided, departure } = batch;
    return (
      replyBefore(pending, { actors, catalog: this.#options.catalog(), decided }) ??
      this.#refuseSpent(batch, pending.envelope) ??
      departure?.refusal ??
      refuseDeletedId(pending.envelope, actors) ??
      this.#refuseStale(batch, pending.envelope)
    );
  }

  /** Previews say what would exceed a budget. */
  async #refusePreviews(replies: Reply[], previewed: ReadonlyMap<number, CountedTurns>): Promise<void> {
    const refusals = await previewRefusals(previewed, this.#options);
    for (const [index, refusal] of refusals) replies[index] = previewOf(refusal);
  }

  /** Refuse a command whose turn would exceed a budget. It changes nothing, but what its router agents used counts. */
  #refuseSpent({ actors, state, ledger }: OpenBatch, { command }: Envelope): Reply | undefined {
    const refusal = this.#refused && refuseSpent(command, this.#refused);
    if (!refusal || command.type !== "session.chat" || !command.routed) return refusal;
    const { routed, sessionId, session } = command;
    ledger.write(actors.tokensOf(routed, sessionId, session?.ownerId), this.#givenBeforeDue(state).now);
    return withRouted(refusal, routed);
  }

  /** Commit what the ledger has, and announce it. @returns whether there was anything */
  async #write(
    { ledger, actors, state, departure }: Pick<OpenBatch, "ledger" | "actors" | "state" | "departure">,
    commands: number,
  ): Promise<boolean> {
    const { noticesOf } = this.#options;
    const aheadMs = this.#wall() - floorTimeOf(this.#options);
    const close = (from: Ledger, its: FloorActors) => from.close(its, this.#sources(), { aheadMs, noticesOf });
    const batch = close(ledger, actors);
    if (!batch) return false;
    const left = departure?.hasLeft ? close(departure.ledger, departure.actors) : undefined;
    const counted = left ? countedTogether(batch.counted, left.counted) : batch.counted;
    const budgets = countsOf(counted, this.#options);
    const over = await commitAndAnnounce({ commands, batch, left, counted, budgets }, this.#options);
    if (over) throw spentBy(counted, over, this.#options);
    state.version += 1;
    return true;
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
    const floor = new LoadedFloor(floorId, this.#options);
    floor.#refused = this.#refused;
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
   * Carry out deadlines of sessions that are not in memory: a page of them with each commit, because there may be
   * thousands. What is due for the others happens before the next command, in its commit.
   */
  async #catchUp(activation: Activation): Promise<void> {
    const { actors, state } = activation;
    while (this.#isOverdue(activation)) {
      const time = floorTimeOf(this.#options);
      const rows = await this.#options.store.loadDue(this.id, actors.sessionIds, DUE_PAGE + 1);
      const due = rows.slice(0, DUE_PAGE).filter(({ dueAt }) => dueAt! <= time);
      for (const row of due) loadDue(row, activation, this.#sources());
      state.outsideDueAt = rows[due.length]?.dueAt as FloorTime | undefined;
      const ledger = new Ledger(this.id, state);
      const given = this.#given(state, state.outsideDueAt);
      ledger.write(actors.catchUp(given), given.now);
      await this.#write({ ledger, actors, state, departure: undefined }, 0);
    }
  }

  /** Whether something is due for a session that is not in memory. */
  #isOverdue({ state: { outsideDueAt } }: Activation): boolean {
    return outsideDueAt !== undefined && outsideDueAt <= floorTimeOf(this.#options);
  }

  /** What a command gets: its time is before the next session outside is due, which is loaded before the next batch. */
  #givenBeforeDue(state: LedgerState): Given {
    const { outsideDueAt } = state;
    return this.#given(state, outsideDueAt === undefined ? undefined : later(outsideDueAt, -1));
  }

  /** What the machines get with the next step. @param until the floor's time goes no further */
  #given(state: LedgerState, until: FloorTime | undefined): Given {
    const stamp = this.#options.newId();
    const time = until === undefined ? floorTimeOf(this.#options) : earliest(floorTimeOf(this.#options), until);
    // One reading of the clock: of two, the second may be a ms later, and so would be what the log says.
    state.lastNow = Math.max(state.lastNow, time + jumpOf(this.#options));
    const refused = this.#refused;
    return { now: state.lastNow, time, wall: this.#wall(), stamp, ...this.#sources(), ...(refused && { refused }) };
  }

  #sources(): DeadlineSources {
    return { catalog: this.#options.catalog(), interactionTimeoutMs: this.#options.interactionTimeoutMs };
  }

  #wall(): number {
    return this.#options.wall?.() ?? this.#options.clock.now();
  }

  #apply({ actors, state, ledger, departure, previewed }: OpenBatch, pending: TracedCommand, index: number): Reply {
    const { envelope } = pending;
    const given = this.#givenBeforeDue(state);
    const session = "sessionId" in envelope.command ? envelope.command.sessionId : undefined;
    const checked = checkPlayed(envelope.command, session && actors.machineState(session)?.context, ledger);
    if ("answer" in checked) return checked.answer;
    const { before, command, upTo } = checked;
    if (before) ledger.write(actors.apply({ ...before, given }).facts, given.now);
    const { facts, reply, previewed: counted } = actors.apply({ ...command, ...departure?.brings, given });
    if (counted) previewed.set(index, counted);
    ledger.write(facts, given.now, traceOf(pending));
    if (reply.ok) departure?.leave(actors);
    if (!reply.ok || reply.sessionId === undefined || envelope.caller === undefined) return reply;
    const sessionCreatedAt = actors.machineState(reply.sessionId)?.context.createdAt;
    const counts = upTo !== undefined && { playedUpTo: upTo };
    const answered: Accepted = { ...reply, ...counts, seq: ledger.seqOf(reply.sessionId), sessionCreatedAt };
    return answered;
  }

  /** Refuse a command whose caller does not know the session's newest event. What is due happens before (rule C33). */
  #refuseStale({ actors, state, ledger, departure }: OpenBatch, envelope: Envelope): Reply | undefined {
    const { ifSeq, command } = envelope;
    if (ifSeq === undefined || departure || !("sessionId" in command) || command.sessionId === undefined)
      return undefined;
    const given = this.#givenBeforeDue(state);
    ledger.write(actors.apply({ type: "alarm", given }).facts, given.now);
    return refuseStale(envelope, command.sessionId, actors, ledger);
  }

  #receipt(envelope: Envelope, reply: Reply): Receipt {
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
