// Rule C5 of docs/inside/correctness.md.
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import type { SessionId } from "../../../protocol/ids.ts";
import { floorHash } from "../../../protocol/internal/hash.ts";
import { valuesOf, withColumns } from "../../columns.ts";
import { floorRowOf, receiptRowOf, runRequestRowOf } from "../../rows.ts";
import {
  type CommitOutcome,
  type FloorChange,
  type MessageWrite,
  type Receipt,
  type SessionSqlRow,
  sessionOfWrite,
} from "../../store.ts";
import { openWriter } from "../database-file.ts";
import { FileGuard } from "../file-identity.ts";
import { LogCheckpoint } from "../log-checkpoint.ts";
import { prepareQuery, type Query } from "../query.ts";
import { fileFaultOf } from "../result-code.ts";
import {
  isFailure,
  type Job,
  MAX_GROUP,
  type Result,
  type WriteFailure,
  type WriteOutcome,
  type WriterAnswer,
  type WriterMessage,
  type WriterSettings,
} from "../writer/writer-job.ts";
import { EventWriter, textsOf } from "./event-writer.ts";
import { type KnownFloor, KnownRows, type KnownSession } from "./known-rows.ts";
import { LogBlocks } from "./log-blocks.ts";
import { MessageRowWriter } from "./message-row-writer.ts";
import { NoticeWriter } from "./notice-writer.ts";
import { Pruner } from "./pruner.ts";
import { SessionWriter } from "./session-writer.ts";
import { SmallRowWriter } from "./small-row-writer.ts";
import { StagedWriter } from "./staged-writer.ts";
import { UsageWriter } from "./usage-writer.ts";
import { clearFreePages, eraseUser } from "./user-eraser.ts";
import { WordIndex } from "./word-index.ts";

/**
 * The work of the thread that owns the writing connection, because a commit waits for the disk and the main thread must
 * not. Jobs that arrive during a transaction go into the next one. The thread ends when its connection is no longer
 * reliable.
 */
export function serveJobs(port: MessagePort, settings: WriterSettings): void {
  const guard = new FileGuard(settings.file, settings.opened);
  guard.checkFile();
  const db = openWriter(settings);
  const writer = new JobWriter(db, guard);
  const answer = (words: WriterAnswer) => port.postMessage(words);
  const waiting: Job[] = [];
  let isEnding = false;

  function receive(message: WriterMessage): void {
    if (message === "close") isEnding = true;
    else waiting.push(...message);
  }

  function receiveWaiting(): void {
    while (!isEnding && waiting.length < MAX_GROUP) {
      const come = receiveMessageOnPort(port);
      if (!come) return;
      receive(come.message);
    }
  }

  port.on("message", (message: WriterMessage) => {
    receive(message);
    receiveWaiting();
    while (waiting.length > 0) {
      answer(writer.commit(waiting.splice(0, MAX_GROUP)));
      receiveWaiting();
    }
    if (!isEnding) return;
    db.close();
    port.close();
  });
  // Jobs can no longer be answered. End, so that a new thread takes over.
  port.on("messageerror", (error) => {
    throw error;
  });
  answer("ready");
}

/** Runs jobs, one transaction for each batch. */
export class JobWriter {
  readonly #db: DatabaseSync;
  readonly #guard: FileGuard;
  readonly #checkpoint: LogCheckpoint;
  readonly #known = new KnownRows();
  readonly #changes: ChangeWriter;
  readonly #notices: NoticeWriter;
  readonly #small: SmallRowWriter;
  readonly #pruner: Pruner;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;

  constructor(db: DatabaseSync, guard: FileGuard) {
    this.#db = db;
    this.#guard = guard;
    this.#checkpoint = new LogCheckpoint(db);
    const blocks = new LogBlocks(db, this.#known);
    this.#notices = new NoticeWriter(db);
    this.#changes = new ChangeWriter(db, this.#known, blocks, this.#notices);
    this.#small = new SmallRowWriter(db);
    this.#pruner = new Pruner(db, this.#changes.staged, this.#changes.usage, blocks);
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
  }

  /**
   * Run jobs of many floors in one transaction. If one of them makes it fail, each runs again in a transaction of its
   * own, so that no job fails because of another (W10, rule C5).
   */
  commit(jobs: readonly Job[]): Result[] {
    const outcomes = this.transact(jobs);
    if (!isFailure(outcomes)) return outcomes;
    // If the engine fails for all of them, it would fail for each one.
    if (outcomes.fault === "engine" || jobs.length === 1) return jobs.map(() => outcomes);
    return jobs.flatMap((job) => this.commit([job]));
  }

  /**
   * Run jobs in one transaction: all become durable, each with its own outcome, or none does.
   * @throws Error if a failed transaction cannot be rolled back: the connection is then unusable
   */
  transact(jobs: readonly Job[]): WriteOutcome[] | WriteFailure {
    const outcomes = this.#try(jobs);
    return isFailure(outcomes) && this.#checkpoint.makeRoomAfter(outcomes.error) ? this.#try(jobs) : outcomes;
  }

  #try(jobs: readonly Job[]): WriteOutcome[] | WriteFailure {
    try {
      this.#guard.checkFile();
      this.#begin.run();
      const outcomes = jobs.map((job) => this.#write(job));
      this.#commit.run();
      // Only acknowledge what a restart will find.
      this.#guard.check();
      const hasForgotten = jobs.some(({ kind }, index) => kind === "forget" && outcomes[index] === "done");
      if (!hasForgotten || clearFreePages(this.#db)) return outcomes;
      return outcomes.map((outcome, index) =>
        jobs[index]!.kind === "forget" && outcome === "done" ? "more" : outcome,
      );
    } catch (error) {
      // The remembered rows may not have been written.
      this.#known.forget();
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      return { fault: fileFaultOf(error), error: error as Error };
    }
  }

  #write(job: Job): WriteOutcome {
    switch (job.kind) {
      case "change":
        return this.#changes.write(job.change);
      case "connection":
        return this.#small.saveConnection(job.row);
      case "blob":
        this.#small.saveBlob(job.sessionId, job.blob);
        return "done";
      case "stage":
        this.#changes.staged.stage(job.stagedAs, job.messages, job.now);
        return "done";
      case "discard":
        this.#changes.staged.discard(job.stagedAs);
        return "done";
      case "copy":
        return this.#changes.staged.copyBlob(job.from, job.to, job.hash, job.now) ? "done" : "missing";
      case "definition":
        return this.#small.changeDefinition(job.change);
      case "claim":
        this.#notices.claim(job);
        return "done";
      case "settle":
        this.#notices.settle(job);
        return "done";
      case "drop":
        this.#notices.drop(job);
        return "done";
      case "disable":
        return this.#notices.disable(job) ? "done" : "missing";
      case "enable":
        return this.#notices.enable(job) ? "done" : "missing";
      case "jumps":
        this.#small.saveJumps(job.jumps);
        return "done";
      case "forget":
        this.#known.forget();
        return eraseUser(this.#db, job) ? "done" : "conflict";
      case "probe":
        this.#small.probe();
        return "done";
      case "prune":
        this.#known.forget();
        return this.#pruner.prune(job.limits) ? "more" : "done";
    }
  }
}

/** The keys of the sessions that a change writes to. */
type SessionKeys = (id: SessionId) => number;
type StoredSessions = ReadonlyMap<SessionId, KnownSession | undefined>;

/** Writes a floor's change, inside the open transaction. */
class ChangeWriter {
  readonly #db: DatabaseSync;
  readonly staged: StagedWriter;
  readonly usage: UsageWriter;
  readonly #known: KnownRows;
  readonly #sessions: SessionWriter;
  readonly #messages: MessageRowWriter;
  readonly #events: EventWriter;
  readonly #notices: NoticeWriter;
  readonly #findFloor: Query<KnownFloor>;
  readonly #addFloor: StatementSync;
  readonly #putFloor: StatementSync;
  readonly #hasReceipt: StatementSync;
  readonly #hasTombstone: StatementSync;
  readonly #addReceipt: StatementSync;
  readonly #removeReceipt: StatementSync;
  readonly #addRunRequest: StatementSync;
  readonly #removeRunRequest: StatementSync;

  constructor(db: DatabaseSync, known: KnownRows, blocks: LogBlocks, notices: NoticeWriter) {
    const words = new WordIndex(db);
    this.#db = db;
    this.#known = known;
    this.#notices = notices;
    this.#sessions = new SessionWriter(db, words, known, blocks);
    this.#events = new EventWriter(db, blocks);
    this.#messages = new MessageRowWriter(db, words, this.#events);
    this.staged = new StagedWriter(db, this.#messages);
    this.usage = new UsageWriter(db);
    this.#findFloor = prepareQuery(db, "SELECT floor_key AS key, version FROM floors WHERE id = ?");
    this.#addFloor = db.prepare(
      withColumns(`
      INSERT INTO floors (version, {{floors: $name}}, rings_at, id, floor_hash) VALUES (?, {{floors: ?}}, ?, ?, ?)`),
    );
    this.#putFloor = db.prepare(
      withColumns(`
      UPDATE floors SET version = ?, {{floors: $name = ?}}, rings_at = ? WHERE floor_key = ? AND version = ?`),
    );
    this.#hasReceipt = db.prepare("SELECT 1 FROM receipts WHERE caller = ? AND command_id = ?");
    this.#hasTombstone = db.prepare("SELECT 1 FROM tombstones WHERE session_id = ?");
    this.#addReceipt = db.prepare(
      withColumns(`
      INSERT INTO receipts (floor_key, {{receipts: $name}}) VALUES (?, {{receipts: ?}}) ON CONFLICT DO NOTHING`),
    );
    this.#removeReceipt = db.prepare("DELETE FROM receipts WHERE caller = ? AND command_id = ?");
    this.#addRunRequest = db.prepare(
      withColumns("INSERT INTO effects (floor_key, floor_hash, {{effects: $name}}) VALUES (?, ?, {{effects: ?}})"),
    );
    this.#removeRunRequest = db.prepare("DELETE FROM effects WHERE id = ?");
  }

  /**
   * Write the change, with what it counts in budgets and with the change of another floor beside it, or nothing of all
   * (W2, W7). The transaction is rolled back after an error.
   * @throws Error if the id of a session or message occurs twice in the change, or it refers to a missing row
   */
  write(change: FloorChange): CommitOutcome {
    const { budgets, along } = change;
    if (!budgets && !along) return this.#writeFloor(change);
    this.#db.exec("SAVEPOINT whole");
    let outcome = (budgets && this.usage.count(budgets)) ?? this.#writeFloor(change);
    if (along && outcome === "committed") {
      outcome = this.#writeFloor(along);
      // The rows of the first change are remembered, and are not written.
      if (outcome !== "committed") this.#known.forget();
    }
    if (outcome !== "committed") this.#db.exec("ROLLBACK TO whole");
    this.#db.exec("RELEASE whole");
    return outcome;
  }

  #writeFloor(change: FloorChange): CommitOutcome {
    const { floorId, expected, newIds, sessions, messages, staged = [] } = change;
    const floor = this.#known.floors.get(floorId) ?? this.#findFloor.get(floorId);
    // W1.
    if ((floor?.version ?? 0) !== expected) return this.#conflict(floorId);
    // W6.
    if (!staged.every((history) => this.staged.isThere(history))) return "conflict";
    let stored = this.#find(sessions);
    if (this.#conflicts(newIds, messages, floor?.key, stored)) return "conflict";
    const floorKey = floor ? this.#continueFloor(change, floor) : this.#beginFloor(change);
    if (floorKey === undefined) return this.#conflict(floorId);

    for (const history of staged) this.staged.publish(history, floorKey);
    if (staged.length > 0) stored = this.#find(sessions);
    const sessionKeys = this.#writeSessions(sessions, stored, floorKey);
    for (const write of messages) this.#messages.write(sessionKeys(sessionOfWrite(write)), floorKey, write);
    for (const log of change.logs) this.#messages.addLog(sessionKeys(log.sessionId), log);
    this.#writeEvents(change, floorKey, sessionKeys);
    this.#writeEnds(change, floorKey);
    if (change.usage) this.usage.add(floorKey, change.usage);
    return "committed";
  }

  /** Read the floor again, because the remembered version may be out of date. */
  #conflict(floorId: string): "conflict" {
    this.#known.floors.delete(floorId);
    return "conflict";
  }

  #find(sessions: readonly SessionSqlRow[]): StoredSessions {
    return new Map(sessions.map(({ id }) => [id, this.#sessions.find(id)]));
  }

  /** Whether an id of the change is in use (W3, W4). */
  #conflicts(
    newIds: readonly SessionId[],
    messages: readonly MessageWrite[],
    floorKey: number | undefined,
    stored: StoredSessions,
  ): boolean {
    if (newIds.some((id) => this.#sessions.find(id) || this.#hasTombstone.get(id))) return true;
    for (const session of stored.values()) if (session && session.floorKey !== floorKey) return true;
    return messages.some((write) => {
      if (write.kind !== "add") return false;
      const { sessionId, id } = write.message;
      const session = stored.get(sessionId) ?? this.#sessions.find(sessionId);
      return session !== undefined && this.#messages.keyOf(session.key, id) !== undefined;
    });
  }

  /**
   * Insert a new floor's row and return its key; undefined if a receipt's key exists. The row is never removed, so
   * receipts are checked first.
   */
  #beginFloor(change: FloorChange): number | undefined {
    const { floorId, receipts } = change;
    if (receipts.some(({ caller, commandId }) => this.#hasReceipt.get(caller, commandId))) return undefined;
    if (new Set(receipts.map(({ caller, commandId }) => `${caller}\n${commandId}`)).size < receipts.length)
      return undefined;
    const { lastInsertRowid } = this.#addFloor.run(...floorValues(change), floorId, floorHash(floorId));
    const key = Number(lastInsertRowid);
    this.#addReceipts(receipts, key);
    this.#known.floors.set(floorId, { key, version: change.expected + 1 });
    return key;
  }

  /** The same for an existing floor. The update compares the version once more (W1). */
  #continueFloor(change: FloorChange, { key }: KnownFloor): number | undefined {
    const { floorId, expected, receipts } = change;
    if (!this.#addReceipts(receipts, key)) return undefined;
    if (this.#putFloor.run(...floorValues(change), key, expected).changes === 0) {
      this.#removeReceipts(receipts);
      return undefined;
    }
    this.#known.floors.set(floorId, { key, version: expected + 1 });
    return key;
  }

  /** Add all receipts, or none if one key exists (W3). */
  #addReceipts(receipts: readonly Receipt[], floorKey: number): boolean {
    for (const [index, receipt] of receipts.entries()) {
      if (this.#addReceipt.run(floorKey, ...valuesOf("receipts", receiptRowOf(receipt))).changes === 1) continue;
      this.#removeReceipts(receipts.slice(0, index));
      return false;
    }
    return true;
  }

  #removeReceipts(receipts: readonly Receipt[]): void {
    for (const { caller, commandId } of receipts) this.#removeReceipt.run(caller, commandId);
  }

  #writeSessions(sessions: readonly SessionSqlRow[], stored: StoredSessions, floorKey: number): SessionKeys {
    const keys = new Map<SessionId, number>();
    for (const row of sessions) keys.set(row.id, this.#sessions.put(row, stored.get(row.id), floorKey));
    return (id) => {
      const known = keys.get(id);
      if (known !== undefined) return known;
      const session = this.#sessions.find(id);
      // W5.
      if (session?.floorKey !== floorKey) throw new Error(`there is no session ${id} on this floor`);
      keys.set(id, session.key);
      return session.key;
    };
  }

  #writeEvents({ events, messages }: FloorChange, floorKey: number, sessionKeys: SessionKeys): void {
    const texts = textsOf(messages, (sessionId, id) => this.#messages.keyOf(sessionKeys(sessionId), id)!);
    for (const event of events) {
      const { sessionId } = event;
      if (sessionId === undefined) this.#events.add(event, floorKey, null, []);
      else this.#events.add(event, floorKey, sessionKeys(sessionId), texts.get(sessionId) ?? []);
    }
  }

  /** What no other row needs: run requests, deleted sessions, and the notices of webhooks after them (W9). */
  #writeEnds({ runRequestsRemoved, runRequestsAdded, deleted, notices }: FloorChange, floorKey: number): void {
    for (const id of runRequestsRemoved) this.#removeRunRequest.run(id);
    for (const each of runRequestsAdded) {
      this.#addRunRequest.run(floorKey, floorHash(each.floorId), ...valuesOf("effects", runRequestRowOf(each)));
    }
    for (const each of deleted) {
      this.#sessions.remove(each, floorKey);
      this.#notices.removeLanes(each.sessionId);
    }
    if (notices) for (const notice of notices) this.#notices.add(notice, floorKey);
  }
}

/** The version of a floor's row after a change, and the other columns that it sets, as the statements list them. */
const floorValues = (change: FloorChange) =>
  [change.expected + 1, ...valuesOf("floors", floorRowOf(change)), change.rings ?? null] as const;
