import type { Catalog } from "../config/catalog.ts";
import type { Clock } from "../protocol/clock.ts";
import type { Command, Envelope } from "../protocol/command.ts";
import { AppError } from "../protocol/errors.ts";
import type { FloorId, MessageId, SessionId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Accepted, Reply } from "../protocol/reply.ts";
import type { Tracer } from "../protocol/tracer.ts";
import type { Receipt, Store } from "../store/store.ts";
import type { Given } from "./facts.ts";
import { BrokenActors, FloorActors } from "./floor-actors.ts";
import { type Batch, draftKey, Ledger, type LedgerState } from "./ledger.ts";
import { recallSession, type SessionContext } from "./session-context.ts";
import { BrokenSnapshot, readSnapshot } from "./snapshot.ts";
import { factsOf, type TracedAsk, traceBatch, traceOf } from "./traced-batch.ts";

export interface HostedFloorOptions {
  store: Pick<
    Store,
    "loadFloor" | "loadSession" | "loadDrafts" | "findMessage" | "findReceipts" | "whereIs" | "commit" | "confirm"
  >;
  clock: Clock;
  newId: () => string;
  catalog: () => Catalog;
  interactionTimeoutMs: number;
  /**
   * A batch is on its way to the store. What this returns is called when the batch is durable, before anybody is answered.
   * Neither must throw.
   */
  committing: (batch: Batch) => () => void;
  log: Logger;
  metrics: HostMetrics;
  tracer?: Tracer | undefined;
}

/** What is counted about floors. */
export interface HostMetrics {
  command(type: string, outcome: string): void;
  /** A commit that succeeded, and how long the store took. */
  batch(commands: number, durationMs: number): void;
  conflict(): void;
  broken(kind: "snapshot" | "actors" | "commit"): void;
}

/** A command that waits for its answer. */
interface Ask extends TracedAsk {
  settle: PromiseWithResolvers<Reply>;
  /** Set once its change met a conflict: whether its ids are taken is looked up before it is tried again. */
  isSuspect: boolean;
}

/** Commands of one floor that may wait; over it: `busy`. */
export const MAX_WAITING = 256;
/** Commands that are delivered together and committed once (rule C4). */
export const MAX_BATCH = 64;
/** How often a command is delivered again after conflicts before its outcome is called unknown. */
const MAX_CONFLICTS = 5;

/** The actors of a floor and what is known of its rows; dropped whole when a commit does not succeed. */
interface Activation {
  actors: FloorActors;
  state: LedgerState;
}

class CommitConflict extends Error {
  override readonly name = "CommitConflict";
}

/**
 * One floor on this node: a bounded mailbox, and one batch at a time (rule C4). Nothing is answered before its commit,
 * and nothing enters the actors until the commit under way is known.
 */
export class HostedFloor {
  readonly id: FloorId;
  readonly #options: HostedFloorOptions;
  readonly #waiting: Ask[] = [];
  /** Waiting or in flight, by caller and command: a repeat joins its original (rule C2). */
  readonly #asks = new Map<string, Ask>();
  #activation: Activation | undefined;
  #isWorking = false;

  constructor(id: FloorId, options: HostedFloorOptions) {
    this.id = id;
    this.#options = options;
  }

  /** Whether it can be let go of: nothing waits and nothing is under way. */
  get isIdle(): boolean {
    return !this.#isWorking && this.#waiting.length === 0;
  }

  /** Commands that are not answered yet, those under way among them. */
  get waitingCount(): number {
    return this.#asks.size;
  }

  /** @throws AppError `busy`, `unavailable`, `internal` or `idempotency_mismatch` */
  deliver(envelope: Envelope): Promise<Reply> {
    const key = askKey(envelope);
    const original = this.#asks.get(key);
    if (original) {
      if (original.envelope.bodyHash !== envelope.bodyHash) throw new AppError("idempotency_mismatch");
      return original.settle.promise;
    }
    if (this.#waiting.length >= MAX_WAITING) throw new AppError("busy");
    const ask: Ask = { envelope, settle: Promise.withResolvers(), isSuspect: false };
    this.#asks.set(key, ask);
    this.#waiting.push(ask);
    if (!this.#isWorking) void this.#work();
    return ask.settle.promise;
  }

  /** Drop the actors: the next command loads them from the store. */
  drop(): void {
    this.#activation?.actors.stop();
    this.#activation = undefined;
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    // What arrives in this turn of the event loop shares the first batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const asks = this.#waiting.splice(0, MAX_BATCH);
      await this.#carryOut(asks);
    }
    this.#isWorking = false;
  }

  /** Together if all goes well, else one at a time, so that only the culprit is hurt. Settles every ask. */
  async #carryOut(asks: Ask[]): Promise<void> {
    const timely = asks.filter((ask) => this.#isTimely(ask));
    if (timely.length === 0) return;
    try {
      await this.#commit(timely);
    } catch (thrown) {
      const error = await this.#causeOf(thrown);
      this.drop();
      if (error instanceof CommitConflict) {
        for (const ask of timely) ask.isSuspect = true;
        this.#options.metrics.conflict();
      } else if (error instanceof AppError && error.code === "unavailable") return this.#fail(timely, error);
      else if (timely.length === 1) return this.#failAlone(timely[0]!, error);
      for (const ask of timely) await this.#carryOutAlone(ask);
    }
  }

  async #carryOutAlone(ask: Ask): Promise<void> {
    for (let conflicts = 0; conflicts < MAX_CONFLICTS; conflicts++) {
      try {
        // Rule C2: after anything but a success only the receipt knows.
        if (await this.#answerFromReceipt(ask)) return;
        if (!this.#isTimely(ask)) return;
        return await this.#commit([ask]);
      } catch (thrown) {
        const error = await this.#causeOf(thrown);
        this.drop();
        if (!(error instanceof CommitConflict)) return this.#failAlone(ask, error);
        ask.isSuspect = true;
        this.#options.metrics.conflict();
      }
    }
    this.#fail([ask], new AppError("unavailable"));
  }

  /**
   * A floor that another node commits to while it is read may be read in pieces that do not fit together: what broke on
   * that is no fault of the command, and no more than a conflict.
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

  /** @throws CommitConflict, BrokenActors, AppError, or whatever the store threw; nobody is answered then */
  async #commit(asks: Ask[]): Promise<void> {
    const { tracer } = this.#options;
    if (tracer) await traceBatch(tracer, this.id, asks, () => this.#commitTogether(asks));
    else await this.#commitTogether(asks);
  }

  async #commitTogether(asks: Ask[]): Promise<"committed" | "unchanged"> {
    const activation = await this.#activate();
    const ledger = new Ledger(this.id, activation.state);
    const replies: Reply[] = [];
    const refused = new Map<Ask, Reply>();
    const unprepared = asks.filter((ask) => needsPreparation(ask, activation));
    // All of them come to their end, also where one fails: none brings anything to actors that were dropped.
    const prepared = await Promise.allSettled(
      unprepared.map(async (ask) => {
        const refusal = await this.#prepare(ask, activation, ledger);
        if (refusal) refused.set(ask, refusal);
      }),
    );
    for (const each of prepared) if (each.status === "rejected") throw each.reason;
    for (const ask of asks) {
      const reply = refused.get(ask) ?? this.#deliverOne(ask, activation, ledger);
      replies.push(reply);
      if (ask.envelope.caller !== undefined) ledger.addReceipt(this.#receipt(ask, reply));
    }
    const batch = ledger.close(activation.actors);
    if (batch) {
      const { store, clock, committing, metrics } = this.#options;
      const begunAt = clock.now();
      const outcome = store.commit(batch.change);
      const committed = committing(batch);
      if ((await outcome) === "conflict") throw new CommitConflict();
      activation.state.version += 1;
      committed();
      metrics.batch(asks.length, clock.now() - begunAt);
    } else if (!(await this.#options.store.confirm(this.id, activation.state.version))) {
      // Rule C1: an answer that changes nothing is not given from memory alone.
      throw new CommitConflict();
    }
    for (const [index, ask] of asks.entries()) this.#settle(ask, replies[index]!);
    return batch ? "committed" : "unchanged";
  }

  #deliverOne(ask: Ask, { actors, state }: Activation, ledger: Ledger): Reply {
    const { envelope } = ask;
    const { clock, newId, catalog, interactionTimeoutMs } = this.#options;
    const brought = broughtBy(envelope.command);
    // Rule C20, for a session that went earlier in this batch.
    if (brought && actors.standing(brought)?.value.lifecycle === "deleted") {
      return { ok: false, code: "idempotency_mismatch" };
    }
    state.lastNow = Math.max(state.lastNow, clock.now());
    const given: Given = { now: state.lastNow, stamp: newId(), catalog: catalog(), interactionTimeoutMs };
    const { facts, reply } = actors.deliver({ ...envelope.command, given });
    ledger.write(facts, given.now, traceOf(ask));
    if (!reply.ok || reply.sessionId === undefined || envelope.caller === undefined) return reply;
    const answered: Accepted = { ...reply, seq: ledger.seqOf(reply.sessionId) };
    return answered;
  }

  /** Bring in the session a command names. A reply here means that no actor is asked. */
  async #prepare(
    { envelope: { command }, isSuspect }: Ask,
    { actors, state }: Activation,
    ledger: Ledger,
  ): Promise<Reply | undefined> {
    const { store } = this.#options;
    const sessionId = "sessionId" in command ? command.sessionId : undefined;
    if (sessionId === undefined) return undefined;
    const brings = broughtBy(command) !== undefined;
    if (!actors.has(sessionId)) {
      // Most that are made are new, and the commit finds those that are not.
      if (brings && !isSuspect) ledger.presumeFree(sessionId);
      const where = brings && isSuspect ? await store.whereIs(sessionId) : undefined;
      // Rule C20: an id whose session was deleted is not used again while late readers may come.
      if (where?.tombstone) return { ok: false, code: "idempotency_mismatch" };
      const row = brings && !where ? undefined : await store.loadSession(sessionId);
      if (row && row.session.floorId !== this.id) {
        return { ok: false, code: brings ? "idempotency_mismatch" : "session_not_found" };
      }
      // Another command of this batch may have brought it in meanwhile.
      if (row && !actors.has(sessionId)) {
        const { session, memory, head } = row;
        state.seqs.set(sessionId, head);
        const context = recallSession(session, memory);
        actors.bring({ context, lifecycle: session.state, activity: session.activity });
      }
    }
    if (command.type !== "session.chat") return undefined;
    const { turn } = command;
    // A message that runs or waits here is known; of any other only its key, once taken, tells.
    if (!isSuspect && !hasTurn(actors.standing(sessionId)?.context, turn.messageId)) return undefined;
    const taken = await store.findMessage(sessionId, turn.messageId);
    if (!taken) return undefined;
    const isSame = taken.role === "user" && taken.content === turn.content && sameImages(taken.images, turn.images);
    if (!isSame) return { ok: false, code: "idempotency_mismatch" };
    const { runId } = taken;
    return { ok: true, sessionId, messageId: taken.id, ...(runId !== undefined && { runId }) };
  }

  async #activate(): Promise<Activation> {
    this.#activation ??= await this.#load();
    return this.#activation;
  }

  async #load(): Promise<Activation> {
    const record = await this.#options.store.loadFloor(this.id);
    if (!record) {
      const state = { version: 0, head: 0, lastNow: 0, seqs: new Map(), drafts: new Map() };
      return { actors: new FloorActors(this.id), state };
    }
    const { actors, seqs, lastNow } = readSnapshot(record);
    const drafts = new Map(
      (await this.#options.store.loadDrafts(this.id)).map((m) => [draftKey(m.sessionId, m.id), m]),
    );
    const state = { version: record.version, head: record.head, lastNow, seqs, drafts };
    try {
      return { actors: new FloorActors(this.id, actors), state };
    } catch (error) {
      throw new BrokenSnapshot("the machines refuse it", error);
    }
  }

  #receipt({ envelope }: Ask, reply: Reply): Receipt {
    return {
      floorId: this.id,
      caller: envelope.caller!,
      commandId: envelope.commandId,
      bodyHash: envelope.bodyHash,
      reply: JSON.stringify(reply),
      at: this.#options.clock.now(),
    };
  }

  async #answerFromReceipt(ask: Ask): Promise<boolean> {
    const { caller, commandId, bodyHash } = ask.envelope;
    if (caller === undefined) return false;
    const [receipt] = await this.#options.store.findReceipts([{ caller, commandId }]);
    if (!receipt) return false;
    const isSame = receipt.floorId === this.id && receipt.bodyHash === bodyHash;
    this.#settle(ask, isSame ? JSON.parse(receipt.reply) : { ok: false, code: "idempotency_mismatch" });
    return true;
  }

  #isTimely(ask: Ask): boolean {
    if (this.#options.clock.now() <= ask.envelope.deadline) return true;
    this.#fail([ask], new AppError("unavailable", "the deadline has passed"));
    return false;
  }

  #settle(ask: Ask, reply: Reply): void {
    this.#asks.delete(askKey(ask.envelope));
    ask.settle.resolve(reply);
  }

  #fail(asks: Ask[], error: AppError): void {
    for (const ask of asks) {
      this.#asks.delete(askKey(ask.envelope));
      ask.settle.reject(error);
    }
  }

  #failAlone(ask: Ask, error: unknown): void {
    if (error instanceof AppError) return this.#fail([ask], error);
    const kind = error instanceof BrokenSnapshot ? "snapshot" : error instanceof BrokenActors ? "actors" : "commit";
    this.#options.metrics.broken(kind);
    this.#options.log.error({ err: error, floorId: this.id, ...factsOf(ask.envelope) }, "a command broke its floor");
    this.#fail([ask], new AppError("internal", undefined, { cause: error }));
  }
}

/** Whether something has to be read before the actors can be asked. */
function needsPreparation({ envelope: { command } }: Ask, { actors }: Activation): boolean {
  if (command.type === "session.chat") return true;
  return "sessionId" in command && command.sessionId !== undefined && !actors.has(command.sessionId);
}

const askKey = ({ caller, commandId }: Envelope): string => `${caller ?? ""}\n${commandId}`;

/** The session that a command makes, if it is not there. */
function broughtBy(command: Command): SessionId | undefined {
  if (command.type === "session.create") return command.sessionId;
  return command.type === "session.chat" ? command.session?.sessionId : undefined;
}

/** Whether the session works on this message, or keeps it for later. */
function hasTurn(session: SessionContext | undefined, id: MessageId): boolean {
  return session?.run?.messageId === id || session?.turns.some(({ messageId }) => messageId === id) === true;
}

function sameImages(stored: readonly { hash: string }[] = [], sent: readonly { hash: string }[] = []): boolean {
  return stored.length === sent.length && stored.every((image, index) => image.hash === sent[index]!.hash);
}
