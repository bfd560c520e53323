import { type LogEntry, subjectOf } from "../../protocol/event.ts";
import { isReply } from "../../protocol/heard.ts";
import type { FloorId, FloorSeq, MessageId, RunId, RunRequestId, Seq, SessionId } from "../../protocol/ids.ts";
import type { CommittedEvents } from "../../protocol/internal/committed-events.ts";
import type { RunSignal } from "../../protocol/internal/run.ts";
import type { RunRequest } from "../../protocol/internal/run-request.ts";
import type { Message } from "../../protocol/message.ts";
import { earliest, type FloorTime } from "../../shared/floor-time.ts";
import { flow } from "../../shared/flow.ts";
import type { Trace } from "../../shared/ports/tracer.ts";
import { newsOf, sessionRowOf } from "../../store/rows.ts";
import type {
  FloorChange,
  LogLineWrite,
  MessageWrite,
  Receipt,
  SessionSqlRow,
  StagedSession,
  WebhookNotice,
} from "../../store/store.ts";
import type { BegunTurn, CountedTurns, DeadlineSources, DraftClose, Fact, UsedTokens } from "../facts.ts";
import { reservationOf } from "../floor/floor-state.ts";
import { lastFailedAt, oldestRunAt } from "../session/listed-runs.ts";
import { READ_APART_MS } from "../session/session-schedule.ts";
import { usageCounts } from "./budgets.ts";
import type { FloorActors } from "./floor-actors.ts";
import type { SessionMachineState } from "./session-actor.ts";
import { draftKey, type LedgerState, SNAPSHOT_FORMAT, writeSnapshot } from "./snapshot.ts";

/** The durable length of an unfinished message, in UTF-16 units: a follower with a gap reads the text up to there. */
export interface Checkpoint {
  sessionId: SessionId;
  messageId: MessageId;
  runId: RunId;
  length: number;
}

/** The result of one batch: the change to commit, and what to publish after the commit. */
export interface Batch {
  change: FloorChange;
  /** The floor's last sequence number before this batch. */
  prev: FloorSeq;
  entries: LogEntry[];
  checkpoints: Checkpoint[];
  signals: { runId: RunId; signal: RunSignal }[];
  /** Sessions whose lease ran out. */
  lapses: number;
  /** The floor's alarm, if it has changed and is not off. */
  alarm: number | undefined;
  /** The turns that begin with it, and the tokens that it counts. */
  counted: CountedTurns;
}

/** What the receivers of webhooks are to be sent of a commit; undefined: nothing. */
export type NoticesOf = (events: CommittedEvents) => WebhookNotice[] | undefined;

/**
 * Turns the machines' facts into rows: numbers the events, keeps the text of unfinished messages, and collects one
 * batch into one change. If the commit fails, the floor drops the ledger's state together with the actors.
 */
export class Ledger {
  readonly #floorId: FloorId;
  readonly #state: LedgerState;
  readonly #entries: LogEntry[] = [];
  readonly #messages = new Map<string, MessageWrite>();
  readonly #finished = new Map<string, Message>();
  /** The ids of the stored replies of a session's newest turn, in order. */
  readonly #replies = new Map<SessionId, readonly MessageId[]>();
  readonly #logs: LogLineWrite[] = [];
  readonly #added = new Map<RunRequestId, RunRequest>();
  readonly #removed = new Set<RunRequestId>();
  readonly #receipts: Receipt[] = [];
  readonly #newIds = new Set<SessionId>();
  readonly #staged: StagedSession[] = [];
  readonly #signals: Batch["signals"] = [];
  readonly #checkpoints = new Map<string, Checkpoint>();
  readonly #prev: FloorSeq;
  readonly #begun: BegunTurn[] = [];
  readonly #used: UsedTokens[] = [];
  #lapses = 0;

  /** @param state shared by the ledgers of successive batches; this one updates it in place */
  constructor(floorId: FloorId, state: LedgerState) {
    this.#floorId = floorId;
    this.#state = state;
    this.#prev = state.head;
  }

  /**
   * Add the facts of one command.
   * @param now when they happened, up to a fact that says otherwise
   * @param trace the trace that the runs it starts belong to
   */
  write(facts: readonly Exclude<Fact, { type: "reply" }>[], now: number, trace?: Trace): void {
    let at = now;
    for (const fact of facts) {
      if (fact.type === "at") at = fact.now;
      else this.#apply(fact, at, trace);
    }
  }

  addReceipt(receipt: Receipt): void {
    this.#receipts.push(receipt);
  }

  /** Assume the id is unused; the commit checks. */
  expectNew(sessionId: SessionId): void {
    this.#newIds.add(sessionId);
  }

  /** Provide a finished message, as stored, that this batch may extend. */
  recall(message: Message): void {
    this.#finished.set(draftKey(message.sessionId, message.id), message);
  }

  /** Provide the replies of a session's newest turn, as stored and in order. */
  recallReplies(sessionId: SessionId, replies: readonly Message[]): void {
    for (const reply of replies) this.recall(reply);
    this.#replies.set(
      sessionId,
      replies.map(({ id }) => id),
    );
  }

  /** The replies of a run, in order: those that were recalled, and those that this batch has begun. */
  repliesOf(sessionId: SessionId, runId: RunId): Message[] {
    const begun = Array.from(this.#messages.values(), (write) => (write.kind === "add" ? write.message : undefined));
    const ids = new Set(this.#replies.get(sessionId));
    for (const message of begun) if (message?.sessionId === sessionId) ids.add(message.id);
    return Array.from(ids, (id) => this.find(sessionId, id)!).filter(
      (message) => message.runId === runId && isReply(message),
    );
  }

  /** A message that is being written, that this batch has changed, or that was recalled: as it is by now. */
  find(sessionId: SessionId, messageId: MessageId): Message | undefined {
    const key = draftKey(sessionId, messageId);
    const pending = this.#messages.get(key);
    if (pending && "message" in pending) return pending.message;
    return this.#state.drafts.get(key) ?? this.#finished.get(key);
  }

  seqOf(sessionId: SessionId): Seq {
    return this.#state.seqs.get(sessionId) ?? 0;
  }

  /**
   * Collect the batch into one change, and release sessions that the floor does not need.
   * @param aheadMs by how much the wall clock is ahead of the floors' time
   * @param noticesOf absent: nobody is to be sent anything
   * @returns undefined if there is nothing to commit
   */
  close(
    actors: FloorActors,
    sources: DeadlineSources,
    { aheadMs, noticesOf }: { aheadMs: number; noticesOf?: NoticesOf | undefined },
  ): Batch | undefined {
    const state = this.#state;
    const before = state.alarmAt;
    state.outsideDueAt = earlier(state.outsideDueAt, actors.nextDueOutside(sources));
    const rings = actors.nextRing();
    const ringAt = rings === undefined ? undefined : ((rings - aheadMs) as FloorTime);
    // Two readings of the clocks differ by a millisecond, for which no floor is written.
    const isKnown = before !== undefined && ringAt !== undefined && Math.abs(before - ringAt) <= READ_APART_MS;
    const due = earlier(state.outsideDueAt, actors.nextDue(sources));
    state.alarmAt = earlier(due, isKnown ? before : ringAt);
    const { alarmAt: alarm, outsideDueAt: outside } = state;
    const machineStates = new Map<SessionId, SessionMachineState>();
    for (const machineState of actors.drainTouched()) machineStates.set(machineState.context.id, machineState);
    const news = newsOf(this.#entries);
    for (const id of news.keys()) machineStates.set(id, actors.machineState(id)!);
    if (machineStates.size === 0 && this.#receipts.length === 0 && this.#isUnwritten && alarm === before) {
      return undefined;
    }

    const gone = new Set<SessionId>();
    const sessions: SessionSqlRow[] = [];
    for (const [id, machineState] of machineStates) {
      const { value, view, memory, context } = machineState;
      const dueAt = machineState.deadline(sources)?.at;
      if (value.lifecycle === "deleted") gone.add(id);
      else {
        const listed = { runsAt: oldestRunAt(context), failedAt: lastFailedAt(context) };
        const changed = { session: view, memory, head: this.seqOf(id), dueAt, ...listed };
        sessions.push(sessionRowOf(changed, news.get(id)));
      }
    }
    const staying = <T>(rows: T[], sessionOf: (row: T) => SessionId | undefined): T[] =>
      gone.size === 0 ? rows : rows.filter((row) => !gone.has(sessionOf(row)!));

    const { seqs, lastNow, version, head } = state;
    for (const id of actors.evict()) seqs.delete(id);
    const change: FloorChange = {
      floorId: this.#floorId,
      expected: version,
      newIds: [...this.#newIds],
      snapshot: writeSnapshot(actors.persist(), actors.neededIds(), lastNow, outside),
      format: SNAPSHOT_FORMAT,
      head,
      alarm,
      rings,
      flags: actors.context.flags,
      reserved: reservationOf(actors.context.floor),
      sessions,
      messages: staying(
        [...this.#messages.values()],
        (write) => ("message" in write ? write.message : write).sessionId,
      ),
      logs: staying(this.#logs, ({ sessionId }) => sessionId),
      events: staying(this.#entries, ({ sessionId }) => sessionId),
      runRequestsAdded: [...this.#added.values()],
      runRequestsRemoved: [...this.#removed],
      receipts: this.#receipts,
      deleted: [...gone].map((sessionId) => {
        const last = this.#entries.findLast((entry) => entry.sessionId === sessionId)!;
        return { sessionId, last, at: last.at };
      }),
      staged: staying(this.#staged, ({ sessionId }) => sessionId),
      notices: noticesOf?.({
        floorId: this.#floorId,
        entries: this.#entries,
        sessionOf: (id) => machineStates.get(id)?.view,
        deleted: gone,
      }),
    };
    const counted = { begun: this.#begun, used: this.#used };
    if (counted.begun.length + counted.used.length > 0) change.usage = usageCounts(counted, lastNow);
    const checkpoints = staying([...this.#checkpoints.values()], ({ sessionId }) => sessionId);
    flow.onHop?.("change", `version ${version + 1}, ${head - this.#prev} events up to ${head}`);
    return {
      change,
      prev: this.#prev,
      entries: this.#entries,
      checkpoints,
      signals: this.#signals,
      lapses: this.#lapses,
      alarm: alarm === before ? undefined : alarm,
      counted,
    };
  }

  get #isUnwritten(): boolean {
    return (
      this.#entries.length + this.#logs.length + this.#signals.length === 0 &&
      this.#messages.size + this.#added.size + this.#removed.size + this.#newIds.size === 0
    );
  }

  #apply(fact: Exclude<Fact, { type: "reply" | "at" }>, now: number, trace: Trace | undefined): void {
    switch (fact.type) {
      case "event":
        return this.#log(fact.event, now);
      case "history.staged":
        this.#staged.push({ sessionId: fact.sessionId, stagedAs: fact.stagedAs });
        return;
      case "message.add":
        this.#add(fact.message);
        if (!fact.isLogOver) this.#logMessage(fact.message, now);
        return;
      case "message.extend":
        return this.#extend(fact, now);
      case "message.status":
        return this.#setStatus(fact);
      case "message.played":
        return this.#play(fact);
      case "message.remove":
        return this.#remove(fact);
      case "draft.open":
        return this.#open(fact.message);
      case "draft.append":
        return this.#append(fact);
      case "draft.close":
        return this.#close(fact.sessionId, fact.messageId, fact.close, now);
      case "log":
        this.#logs.push({
          sessionId: fact.sessionId,
          messageId: fact.messageId,
          line: fact.line,
          runId: fact.runId,
        });
        return;
      case "run_request.add":
        this.#added.set(fact.request.id, trace ? { ...fact.request, trace } : fact.request);
        return;
      case "run_request.remove":
        // A run request added and removed in the same batch is never written.
        if (!this.#added.delete(fact.id)) this.#removed.add(fact.id);
        return;
      case "signal":
        this.#signals.push({ runId: fact.runId, signal: fact.signal });
        return;
      case "lease.lapsed":
        this.#lapses += 1;
        return;
      case "turn.begun":
        this.#begun.push(fact.turn);
        return;
      case "tokens.used":
        this.#used.push(fact.used);
    }
  }

  #log({ type, data, sessionId, requestId }: Extract<Fact, { type: "event" }>["event"], at: number): void {
    const state = this.#state;
    state.head += 1;
    const entry: LogEntry = { floorSeq: state.head, type, at, json: JSON.stringify(data) };
    const subject = subjectOf(type, data);
    if (subject) entry.subject = subject;
    if (sessionId !== undefined) {
      entry.sessionId = sessionId;
      entry.seq = this.seqOf(sessionId) + 1;
      state.seqs.set(sessionId, entry.seq);
    }
    if (requestId !== undefined) entry.requestId = requestId;
    this.#entries.push(entry);
  }

  #logMessage(message: Message, now: number): void {
    this.#log({ type: "message", sessionId: message.sessionId, data: { ...message, streaming: false } }, now);
  }

  #add(message: Message): void {
    const key = draftKey(message.sessionId, message.id);
    // Two commands of one batch add the same message. Retried alone, the second one conflicts with the first one's row.
    if (this.#messages.has(key)) throw new RangeError(`message ${message.id} already exists`);
    this.#messages.set(key, { kind: "add", message });
  }

  #extend(fact: Extract<Fact, { type: "message.extend" }>, now: number): void {
    const { sessionId, messageId, offset, text, parts, isLogOver } = fact;
    const key = draftKey(sessionId, messageId);
    const pending = this.#messages.get(key);
    const known = this.find(sessionId, messageId);
    // A part that adds reasoning only has an empty text, and its offset does not count.
    if (!known || (text !== "" && known.content.length !== offset)) return;
    const message: Message = { ...known, content: known.content + text, ...(parts && { parts }) };
    this.#messages.set(key, { kind: pending?.kind === "add" ? "add" : "put", message });
    if (!isLogOver) this.#logMessage(message, now);
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

  #play({ sessionId, messageId, upTo }: Extract<Fact, { type: "message.played" }>): void {
    const known = this.find(sessionId, messageId);
    if (!known) throw new RangeError(`message ${messageId} was not recalled`);
    const key = draftKey(sessionId, messageId);
    const message = { ...known, playedUpTo: upTo };
    if (this.#state.drafts.has(key)) this.#state.drafts.set(key, message);
    this.#messages.set(key, { kind: this.#messages.get(key)?.kind === "add" ? "add" : "put", message });
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
    // The machines pass reports on once and in order, so another offset is a worker's fault.
    if (!draft || draft.content.length !== offset)
      throw new RangeError(`message ${messageId} does not continue at ${offset}`);
    const longer = { ...draft, content: draft.content + text };
    this.#state.drafts.set(key, longer);
    const pending = this.#messages.get(key);
    if (pending && "message" in pending) this.#messages.set(key, { kind: pending.kind, message: longer });
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

/** The earlier of two times; undefined: never. */
function earlier(one: FloorTime | undefined, other: FloorTime | undefined): FloorTime | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return earliest(one, other);
}
