import type { Effect } from "../protocol/effect.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { EffectId, FloorId, FloorSeq, MessageId, RunId, Seq, SessionId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { RunSignal } from "../protocol/run.ts";
import type { Trace } from "../protocol/tracer.ts";
import type { FloorChange, LogRow, MessageWrite, Receipt } from "../store/store.ts";
import type { DraftClose, Fact } from "./facts.ts";
import type { FloorActors } from "./floor-actors.ts";
import { memoryOf } from "./session-context.ts";
import { SNAPSHOT_FORMAT, writeSnapshot } from "./snapshot.ts";

/** Where a floor stands: as committed, and for the length of one batch ahead of that. */
export interface LedgerState {
  version: number;
  head: FloorSeq;
  /** The newest `now` the machines were given: they never get an older one (rule C9). */
  lastNow: number;
  /** The head of each session among the actors. */
  seqs: Map<SessionId, Seq>;
  /** Messages that are being written, with the text they have so far. */
  drafts: Map<string, Message>;
}

/** Text that becomes durable with a commit, for followers with a gap. */
export interface Checkpoint {
  sessionId: SessionId;
  messageId: MessageId;
  runId: RunId;
  length: number;
}

/** What one batch made of a floor: the change to commit, and what to tell afterwards. */
export interface Batch {
  change: FloorChange;
  /** Where the floor's log stood before. */
  prev: FloorSeq;
  entries: LogEntry[];
  checkpoints: Checkpoint[];
  signals: { runId: RunId; signal: RunSignal }[];
}

export const draftKey = (sessionId: SessionId, id: MessageId): string => `${sessionId}/${id}`;

/**
 * Turns what machines say into rows: numbers the events, keeps the text of unfinished messages, and gathers everything
 * of one batch into one change. When its commit fails it is worth nothing, and the floor drops it with its actors.
 */
export class Ledger {
  readonly #floorId: FloorId;
  readonly #state: LedgerState;
  readonly #entries: LogEntry[] = [];
  readonly #messages = new Map<string, MessageWrite>();
  readonly #logs: LogRow[] = [];
  readonly #added = new Map<EffectId, Effect>();
  readonly #removed = new Set<EffectId>();
  readonly #receipts: Receipt[] = [];
  readonly #free = new Set<SessionId>();
  readonly #signals: Batch["signals"] = [];
  readonly #checkpoints = new Map<string, Checkpoint>();
  /** Sessions whose log grew. */
  readonly #logged = new Set<SessionId>();
  readonly #prev: FloorSeq;

  /** For one batch; `state` is carried on from one to the next. */
  constructor(floorId: FloorId, state: LedgerState) {
    this.#floorId = floorId;
    this.#state = state;
    this.#prev = state.head;
  }

  /** Write down what a command made of the floor. `trace`: what the runs it wishes for are part of. */
  write(facts: readonly Exclude<Fact, { type: "reply" }>[], now: number, trace?: Trace): void {
    for (const fact of facts) this.#take(fact, now, trace);
  }

  addReceipt(receipt: Receipt): void {
    this.#receipts.push(receipt);
  }

  /** What is delivered goes by this id being nobody's: the commit is to find out whether it is. */
  presumeFree(sessionId: SessionId): void {
    this.#free.add(sessionId);
  }

  seqOf(sessionId: SessionId): Seq {
    return this.#state.seqs.get(sessionId) ?? 0;
  }

  /** All of it as one change; undefined when there is nothing to commit. Lets go of sessions that no longer matter. */
  close(actors: FloorActors): Batch | undefined {
    const standings = new Map(actors.takeTouched().map((standing) => [standing.context.id, standing]));
    for (const id of this.#logged) standings.set(id, actors.standing(id)!);
    if (standings.size === 0 && this.#receipts.length === 0 && this.#isUnwritten) return undefined;

    const deleted = [...standings.values()].filter(({ value }) => value.lifecycle === "deleted");
    const gone = new Set(deleted.map(({ context }) => context.id));
    for (const id of gone) standings.delete(id);
    const stays = (sessionId: SessionId | undefined) => sessionId === undefined || !gone.has(sessionId);
    const sessions = [...standings.values()].map((standing) => ({
      session: standing.view,
      memory: memoryOf(standing.context),
      head: this.seqOf(standing.context.id),
    }));

    actors.release();
    const { seqs, lastNow, version, head } = this.#state;
    for (const id of seqs.keys()) if (!actors.has(id)) seqs.delete(id);
    const kept = [...actors.mattering()].map((id): [SessionId, Seq] => [id, this.seqOf(id)]);
    const change: FloorChange = {
      floorId: this.#floorId,
      expected: version,
      free: [...this.#free],
      snapshot: writeSnapshot(actors.persist(), kept, lastNow),
      format: SNAPSHOT_FORMAT,
      head,
      flags: actors.context.flags,
      sessions,
      messages: [...this.#messages.values()].filter((write) => stays(sessionOf(write))),
      logs: this.#logs.filter((log) => stays(log.sessionId)),
      events: this.#entries.filter((entry) => stays(entry.sessionId)),
      effectsAdded: [...this.#added.values()],
      effectsRemoved: [...this.#removed],
      receipts: this.#receipts,
      deleted: [...gone].map((sessionId) => {
        const last = this.#entries.findLast((entry) => entry.sessionId === sessionId)!;
        return { sessionId, last, at: last.at };
      }),
    };
    const checkpoints = [...this.#checkpoints.values()].filter((checkpoint) => stays(checkpoint.sessionId));
    return { change, prev: this.#prev, entries: this.#entries, checkpoints, signals: this.#signals };
  }

  get #isUnwritten(): boolean {
    return (
      [this.#entries, this.#logs, this.#signals].every((list) => list.length === 0) &&
      [this.#messages, this.#added, this.#removed, this.#free].every((set) => set.size === 0)
    );
  }

  #take(fact: Exclude<Fact, { type: "reply" }>, now: number, trace: Trace | undefined): void {
    switch (fact.type) {
      case "event":
        return this.#log(fact.event, now);
      case "message.add":
        this.#add(fact.message);
        return this.#logMessage(fact.message, now);
      case "message.status":
        return this.#setStatus(fact);
      case "message.remove":
        return this.#remove(fact);
      case "draft.open":
        return this.#open(fact.message);
      case "draft.append":
        return this.#append(fact);
      case "draft.close":
        return this.#close(fact.sessionId, fact.messageId, fact.close, now);
      case "log":
        this.#logs.push({ sessionId: fact.sessionId, messageId: fact.messageId, line: fact.line });
        return;
      case "effect.add":
        this.#added.set(fact.effect.id, trace && fact.effect.kind === "run" ? { ...fact.effect, trace } : fact.effect);
        return;
      case "effect.remove":
        // What was asked for and taken back in one batch never was.
        if (!this.#added.delete(fact.id)) this.#removed.add(fact.id);
        return;
      case "signal":
        this.#signals.push({ runId: fact.runId, signal: fact.signal });
    }
  }

  #log({ type, data, sessionId, requestId }: Extract<Fact, { type: "event" }>["event"], at: number): void {
    const state = this.#state;
    state.head += 1;
    const entry: LogEntry = { floorSeq: state.head, type, at, json: JSON.stringify(data) };
    if (sessionId !== undefined) {
      entry.sessionId = sessionId;
      entry.seq = this.seqOf(sessionId) + 1;
      state.seqs.set(sessionId, entry.seq);
      this.#logged.add(sessionId);
    }
    if (requestId !== undefined) entry.requestId = requestId;
    this.#entries.push(entry);
  }

  #logMessage(message: Message, now: number): void {
    this.#log({ type: "message", sessionId: message.sessionId, data: { ...message, streaming: false } }, now);
  }

  #add(message: Message): void {
    const key = draftKey(message.sessionId, message.id);
    // The second of one batch: delivered again in a commit of its own, it meets the first one's key.
    if (this.#messages.has(key)) throw new RangeError(`message ${message.id} is there already`);
    this.#messages.set(key, { kind: "add", message });
  }

  #setStatus({ sessionId, messageId, status }: Extract<Fact, { type: "message.status" }>): void {
    const key = draftKey(sessionId, messageId);
    const pending = this.#messages.get(key);
    if (pending && "message" in pending) {
      this.#messages.set(key, { ...pending, message: { ...pending.message, status } });
    } else {
      this.#messages.set(key, { kind: "status", sessionId, id: messageId, status });
    }
  }

  #remove({ sessionId, messageId }: Extract<Fact, { type: "message.remove" }>): void {
    const key = draftKey(sessionId, messageId);
    if (this.#messages.get(key)?.kind === "add") this.#messages.delete(key);
    else this.#messages.set(key, { kind: "remove", sessionId, id: messageId });
  }

  #open(message: Message): void {
    const key = draftKey(message.sessionId, message.id);
    this.#state.drafts.set(key, message);
    this.#messages.set(key, { kind: "add", message });
  }

  #append({ sessionId, messageId, offset, text }: Extract<Fact, { type: "draft.append" }>): void {
    const key = draftKey(sessionId, messageId);
    const draft = this.#state.drafts.get(key);
    // Reports come once and in order, so anything else would be a worker's fault.
    if (!draft || draft.content.length !== offset) throw new RangeError(`message ${messageId} has no place ${offset}`);
    const longer = { ...draft, content: draft.content + text };
    this.#state.drafts.set(key, longer);
    const pending = this.#messages.get(key);
    if (pending?.kind === "add") this.#messages.set(key, { kind: "add", message: longer });
    else {
      const before = pending?.kind === "append" ? pending.text : "";
      this.#messages.set(key, { kind: "append", sessionId, id: messageId, text: before + text });
    }
    this.#checkpoints.set(key, { sessionId, messageId, runId: longer.runId!, length: longer.content.length });
  }

  #close(sessionId: SessionId, messageId: MessageId, close: DraftClose, now: number): void {
    const key = draftKey(sessionId, messageId);
    const draft = this.#state.drafts.get(key);
    if (!draft) throw new RangeError(`message ${messageId} is not being written`);
    const message: Message = { ...draft };
    for (const [name, value] of Object.entries(close)) {
      if (value !== undefined) Object.assign(message, { [name]: value });
    }
    this.#state.drafts.delete(key);
    this.#checkpoints.delete(key);
    this.#messages.set(key, { kind: this.#messages.get(key)?.kind === "add" ? "add" : "put", message });
    this.#logMessage(message, now);
  }
}

const sessionOf = (write: MessageWrite): SessionId => ("message" in write ? write.message.sessionId : write.sessionId);
