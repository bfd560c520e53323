// Rules C2 and C4 of docs/inside/correctness.md.
import { AppError } from "../../protocol/errors.ts";
import type { FloorId } from "../../protocol/ids.ts";
import { COMMAND_TYPES, type Envelope } from "../../protocol/internal/command.ts";
import type { Reply } from "../../protocol/internal/reply.ts";
import { flow } from "../../shared/flow.ts";
import type { Timer } from "../../shared/ports/clock.ts";
import { traceIdOf } from "../../shared/ports/tracer.ts";
import type { Store } from "../../store/store.ts";
import { BrokenActors } from "./floor-actors.ts";
import { type FloorOptions, isMove, LoadedFloor, type TracedCommand } from "./loaded-floor.ts";
import { BrokenSnapshot, CommitConflict } from "./snapshot.ts";

/** An unanswered command. */
interface PendingCommand extends TracedCommand {
  /** Caller and command id. */
  key: string;
  answer: PromiseWithResolvers<Reply>;
}

/** Whether the command says how much of a reply was spoken. */
const isPlayed = ({ envelope }: PendingCommand): boolean => envelope.command.type === "session.played";

/** Commands that one floor queues, and as many that say what was spoken; at the limit `add` throws `busy`. */
export const MAX_WAITING_COMMANDS = 256;
/** Commands applied together in one commit (rule C4), with all that say what was spoken, which delay none. */
export const MAX_BATCH = 64;
/** A floor commits what was spoken at most this often, in ms, unless it commits something else anyway. */
const PLAYED_MS = 1_000;
/** Tries of a command that meets conflicts; after the last it fails with `unavailable`. */
const MAX_CONFLICTS = 5;

export interface HostOptions extends FloorOptions {
  store: Store;
  /** Floors kept in memory. At the limit the host drops an idle floor that was not used lately, or answers `busy`. */
  maxFloors: number;
}

/** The floors in this process's memory. Every change of a floor passes `dispatch`. */
export class Host {
  readonly #options: HostOptions;
  /** Commands use them too often to keep them in order by deleting and adding them (ADR 24). */
  readonly #floors = new Map<FloorId, FloorQueue>();
  #unansweredCount = 0;

  constructor(options: HostOptions) {
    this.#options = options;
  }

  get floorCount(): number {
    return this.#floors.size;
  }

  /** Unanswered commands of all floors. */
  get unansweredCount(): number {
    return this.#unansweredCount;
  }

  /**
   * Find or load the command's floor, and let it carry the command out once.
   * @returns the floor's decision; a refusal is a reply too
   * @throws AppError `busy`, `unavailable` (the outcome is unknown), `internal`, or `idempotency_mismatch`
   */
  readonly dispatch = async (envelope: Envelope): Promise<Reply> => {
    const { metrics } = this.#options;
    const { type } = envelope.command;
    // The machines' internal events and XState's own events must not arrive as commands.
    if (!COMMAND_TYPES.has(type)) throw new AppError("unavailable", "this node does not know the command");
    this.#unansweredCount += 1;
    try {
      const reply = await this.#floor(envelope.floorId).add(envelope);
      metrics.command(type, reply.ok ? "ok" : reply.code);
      return reply;
    } catch (error) {
      metrics.command(type, error instanceof AppError ? error.code : "internal");
      throw error;
    } finally {
      this.#unansweredCount -= 1;
    }
  };

  /** Drop every idle floor. The store has their state. */
  retireIdle(): void {
    for (const floor of this.#floors.values()) {
      if (!floor.isIdle) continue;
      floor.drop();
      this.#floors.delete(floor.id);
    }
  }

  #floor(id: FloorId): FloorQueue {
    const known = this.#floors.get(id);
    flow.onHop?.("host", `${id} is ${known ? "" : "not "}in memory`);
    if (known) {
      known.wasUsedAgain = true;
      return known;
    }
    if (this.#floors.size >= this.#options.maxFloors) this.#makeRoom();
    const floor = new FloorQueue(id, this.#options);
    this.#floors.set(id, floor);
    return floor;
  }

  /** Drop the oldest idle floor that was not used again since it was loaded, or since it was last spared here. */
  #makeRoom(): void {
    for (const floor of this.#floors.values()) {
      // Dropping a floor with waiting commands would lose them.
      if (!floor.isIdle) continue;
      this.#floors.delete(floor.id);
      if (!floor.wasUsedAgain) return floor.drop();
      floor.wasUsedAgain = false;
      this.#floors.set(floor.id, floor);
    }
    throw new AppError("busy");
  }
}

/**
 * One floor in this process's memory: a bounded queue of commands, processed in batches, one batch at a time (rule C4).
 * A command is answered after its commit, and the next batch starts after the outcome of that commit is known.
 */
class FloorQueue {
  readonly id: FloorId;
  readonly #options: FloorOptions;
  readonly #loaded: LoadedFloor;
  readonly #waiting: PendingCommand[] = [];
  /** How many of these are `session.played`, which wait for another command to be committed with. */
  #played = 0;
  #delay: Timer | undefined;
  /** Whether what was spoken waits no longer. */
  #isDelayOver = false;
  /** Unanswered commands: a repeat joins its original (rule C2). They come and go too often for a `Map` (ADR 24). */
  readonly #pending: PendingCommand[] = [];
  #isWorking = false;
  /** Whether it was used again since it was loaded or last spared: the host then spares it once when it makes room. */
  wasUsedAgain = false;

  constructor(id: FloorId, options: FloorOptions) {
    this.id = id;
    this.#options = options;
    this.#loaded = new LoadedFloor(id, options);
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
  add(envelope: Envelope): Promise<Reply> {
    const key = commandKey(envelope);
    const original = this.#pending.find((pending) => pending.key === key);
    if (original) {
      if (original.envelope.bodyHash !== envelope.bodyHash) throw new AppError("idempotency_mismatch");
      return original.answer.promise;
    }
    const pending: PendingCommand = { envelope, key, answer: Promise.withResolvers(), isSuspect: false };
    const waiting = isPlayed(pending) ? this.#played : this.#waiting.length - this.#played;
    if (waiting >= MAX_WAITING_COMMANDS) throw new AppError("busy");
    this.#pending.push(pending);
    this.#waiting.push(pending);
    if (!isPlayed(pending)) this.#begin();
    else {
      this.#played += 1;
      if (!this.#delay) this.#commitDelayed();
    }
    return pending.answer.promise;
  }

  /** Commit what has waited for a second, and wait for another one. */
  #commitDelayed(): void {
    this.#delay = undefined;
    if (this.#played === 0) return;
    this.#delay = this.#options.clock.after(PLAYED_MS, () => this.#commitDelayed());
    this.#isDelayOver = true;
    this.#begin();
  }

  #begin(): void {
    if (!this.#isWorking) void this.#work();
  }

  /** Drop the actors. The next command loads them from the store. */
  drop(): void {
    this.#loaded.drop();
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    // Commands that arrive in this iteration of the event loop share the first batch.
    await Promise.resolve();
    while (this.#waiting.length > this.#played || (this.#isDelayOver && this.#played > 0)) {
      this.#isDelayOver = false;
      const commands = this.#nextBatch();
      flow.onHop?.("floor", `a batch of ${commands.length}`);
      await this.#commitOrSplit(commands);
    }
    this.#isWorking = false;
  }

  /** The commands that have waited longest, with what was spoken between them. A move has a batch of its own. */
  #nextBatch(): PendingCommand[] {
    let [end, played] = [0, 0];
    for (const pending of this.#waiting) {
      if (isMove(pending) && end > 0) break;
      if (isPlayed(pending)) played += 1;
      else if (end - played === MAX_BATCH) break;
      end += 1;
      if (isMove(pending)) break;
    }
    this.#played -= played;
    return this.#waiting.splice(0, end);
  }

  /** Commit the commands together, or else one at a time, so that only the faulty one fails. Answers every command. */
  async #commitOrSplit(commands: PendingCommand[]): Promise<void> {
    const timely = this.#failLate(commands);
    if (timely.length === 0) return;
    try {
      const replies = await this.#loaded.commit(timely);
      for (const [index, pending] of timely.entries()) this.#answer(pending, replies[index]!);
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
        return this.#answer(pending, (await this.#loaded.commit([pending]))[0]!);
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
    const { version } = this.#loaded;
    if (error instanceof CommitConflict || error instanceof AppError || version === undefined) return error;
    try {
      const isCurrent = await this.#options.store.confirm(this.id, version);
      return isCurrent ? error : new CommitConflict();
    } catch (unconfirmed) {
      return unconfirmed;
    }
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

/** The fields of a command in a log line. */
function fieldsOf({ command, commandId, trace }: Envelope): object {
  return {
    command: command.type,
    commandId,
    ...("sessionId" in command && { sessionId: command.sessionId }),
    ...("runId" in command && { runId: command.runId }),
    ...(trace !== undefined && { traceId: traceIdOf(trace) }),
  };
}

const commandKey = ({ caller, commandId }: Envelope): string => `${caller ?? ""}\n${commandId}`;
