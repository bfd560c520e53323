import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { AppError } from "../../protocol/errors.ts";
import {
  type AgentId,
  type ConnectionId,
  type FloorId,
  type FloorSeq,
  floorOfUser,
  type MessageId,
  type Seq,
  type SessionId,
} from "../../protocol/ids.ts";
import type { RunEffect } from "../../protocol/internal/effect.ts";
import type { Message } from "../../protocol/message.ts";
import { flow } from "../../shared/flow.ts";
import { LogThrottle } from "../../shared/log-throttle.ts";
import { LoopBudget } from "../../shared/loop-budget.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import type { Logger } from "../../shared/ports/logger.ts";
import type { Meta } from "../meta.ts";
import { sessionRowsOf } from "../rows.ts";
import type {
  Blob,
  CommitOutcome,
  ConnectionRow,
  DefinitionRow,
  DraftPage,
  DueQuery,
  FloorChange,
  FloorRecord,
  Forgotten,
  Jumps,
  LogSlice,
  MessageRange,
  PruneLimits,
  Receipt,
  ReceiptKey,
  SessionRow,
  StagedId,
  Store,
  StoredDefinitionChange,
  StoredFloorPage,
  StoredFloorQuery,
  StoredFloorView,
  StoredLogPage,
  StoredMessagePage,
  StoredSessionPage,
  StoredSessionQuery,
  StoredSessionView,
  Whereabouts,
} from "../store.ts";
import { damageAdvice, openReader, prepareFile } from "./database-file.ts";
import { identityOf, lockOf } from "./file-identity.ts";
import { FileLock } from "./file-lock.ts";
import { keepPrivate, preparePath } from "./file-path.ts";
import { FloorList } from "./floor-list.ts";
import { PageCheck } from "./page-check.ts";
import { fileFaultOf, isUnreadable } from "./result-code.ts";
import { SqliteSessionList } from "./session-list.ts";
import { StateReader } from "./state-reader.ts";
import { ViewReader } from "./view-reader.ts";
import { WriterThread } from "./writer/writer-thread.ts";

export interface SqliteOptions {
  /**
   * The path of the database. A missing folder is created. `:memory:` is a file in a private temporary folder that is
   * removed when the store is closed; its commits do not wait for the disk.
   */
  file: string;
  clock: Clock;
  log: Logger;
  /** The largest database whose pages are checked before it is served, in bytes. Default: `START_CHECK_SIZE`. */
  startCheckSize?: number;
}

/**
 * The check of this many bytes takes a tenth of a second. A larger database is checked in the background while it is
 * served.
 */
const START_CHECK_SIZE = 67_108_864;
const FREE_PAGES =
  "Free pages of the database may still hold deleted data, because it could not be written anew: repeat it when the disk has room.";
/** Bytes of pages that are read in one iteration of the event loop. */
const LOOP_BYTES = 1_048_576;

/**
 * Open a SQLite store. One process owns the file while it is open (rule C27). Writes go to a thread of their own and
 * share transactions. Reads run on this thread, on a read-only connection, and continue while writes are refused.
 * @throws Error with a sentence if the file is in use, is not a store, is newer than this program, or is damaged
 */
export async function openSqliteStore({
  file,
  clock,
  log,
  startCheckSize = START_CHECK_SIZE,
}: SqliteOptions): Promise<SqliteStore> {
  const temporary = file === ":memory:" ? await mkdtemp(join(tmpdir(), "interlock-")) : undefined;
  const named = temporary === undefined ? resolve(file) : join(temporary, "interlock.db");
  await using opened = new AsyncDisposableStack();
  if (temporary !== undefined) opened.defer(() => rm(temporary, { recursive: true, force: true }));
  const path = await preparePath(named);
  const lock = FileLock.acquire(path);
  opened.defer(() => lock.release());
  const files = { database: identityOf(path), lock: identityOf(lockOf(path)) };
  const settings = { file: path, opened: files, isDurable: temporary === undefined };
  const checksPages = (await stat(path)).size <= startCheckSize;
  const meta = await prepareFile(settings, { now: clock.now(), checksPages });
  await keepPrivate(path);
  const damage = new Damage(path, log);
  const onDamage = (fault: string) => damage.report(fault);
  const thread = new WriterThread(settings, clock, log, onDamage);
  opened.defer(() => thread.close());
  await thread.start();
  const reader = openReader(path);
  // Closed before the writer, whose connection is then the last one and leaves a single file.
  opened.defer(() => reader.close());
  if (!checksPages) {
    const check = new PageCheck({ file: path, log, onDamage });
    opened.defer(() => check.close());
  }
  const release = () => parts.disposeAsync();
  const failedReads = new FailedReads({ file: path, clock, log }, damage);
  const faults = () => [
    ...(damage.isFound ? ["the database is damaged: the log says what to do"] : []),
    ...(identityOf(path) === files.database ? [] : ["the database's file was moved, removed or replaced: put it back"]),
    ...(thread.isRefusing ? ["the database refuses writes: the log says why"] : []),
  ];
  const store = new SqliteStore({ meta, thread, reader, failedReads, faults, release });
  const parts = opened.move();
  return store;
}

/** Damage that was found while the store is open, by the check, a read or a write. It is logged once. */
class Damage {
  readonly #file: string;
  readonly #log: Logger;
  isFound = false;

  constructor(file: string, log: Logger) {
    this.#file = file;
    this.#log = log;
  }

  report(fault: string): void {
    if (this.isFound) return;
    this.isFound = true;
    this.#log.error({ file: this.#file }, damageAdvice(this.#file, fault));
  }
}

/** Reads that failed because of the database or the disk. They are logged once a minute, and damage once. */
class FailedReads {
  readonly #options: SqliteOptions;
  readonly #damage: Damage;
  readonly #notes = new LogThrottle();

  constructor(options: SqliteOptions, damage: Damage) {
    this.#options = options;
    this.#damage = damage;
  }

  report(error: Error): void {
    if (fileFaultOf(error) === "damage") return this.#damage.report(error.message);
    const { file, clock, log } = this.#options;
    if (this.#notes.isDue(clock.now())) log.error({ err: error, file }, "the database cannot be read");
  }
}

interface SqliteParts {
  meta: Meta;
  thread: WriterThread;
  reader: DatabaseSync;
  failedReads: FailedReads;
  faults: () => string[];
  /** Called when all writes are done: closes the reader, ends the threads, and releases the file. */
  release: () => Promise<void>;
}

class SqliteStore implements Store {
  readonly epoch: string;
  readonly secret: string;
  readonly #thread: WriterThread;
  readonly #reader: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #end: StatementSync;
  readonly #state: StateReader;
  readonly #views: ViewReader;
  readonly #budget = new LoopBudget(LOOP_BYTES);
  readonly #list: SqliteSessionList;
  readonly #floors: FloorList;
  readonly #release: () => Promise<void>;
  readonly #failedReads: FailedReads;
  /**
   * Why requests fail, as sentences for `/ready` without the file's name. A file may be gone before a write finds out.
   */
  readonly faults: () => string[];

  constructor({ meta: { epoch, secret }, thread, reader, failedReads, faults, release }: SqliteParts) {
    this.epoch = epoch;
    this.secret = secret;
    this.#thread = thread;
    this.#reader = reader;
    this.#begin = reader.prepare("BEGIN");
    this.#end = reader.prepare("ROLLBACK");
    const onRead = (bytes: number) => this.#budget.spend(bytes);
    this.#state = new StateReader(reader, onRead);
    this.#views = new ViewReader(reader, onRead);
    this.#list = new SqliteSessionList(reader);
    this.#floors = new FloorList(reader);
    this.#release = release;
    this.faults = faults;
    this.#failedReads = failedReads;
  }

  async commit(change: FloorChange): Promise<CommitOutcome> {
    flow.onHop?.("sqlite", `${change.floorId}, to the writer's thread`);
    const job = { kind: "change", change: { ...change, sessions: sessionRowsOf(change) } } as const;
    return (await this.#thread.add(job)) === "conflict" ? "conflict" : "committed";
  }

  async saveConnection(row: ConnectionRow): Promise<"saved" | "conflict"> {
    return (await this.#thread.add({ kind: "connection", row })) === "conflict" ? "conflict" : "saved";
  }

  async putBlob(sessionId: SessionId, blob: Blob): Promise<void> {
    await this.#thread.add({ kind: "blob", sessionId, blob });
  }

  async stageMessages(stagedAs: StagedId, messages: readonly Message[], now: number): Promise<void> {
    const outcome = await this.#thread.add({ kind: "stage", stagedAs, messages, now });
    if (outcome === "conflict") throw new Error(`the staged session ${stagedAs} already has one of these messages`);
  }

  async discardStaged(stagedAs: StagedId): Promise<void> {
    await this.#thread.add({ kind: "discard", stagedAs });
  }

  async copyBlob(from: SessionId, to: SessionId, hash: string, now: number): Promise<boolean> {
    return (await this.#thread.add({ kind: "copy", from, to, hash, now })) === "done";
  }

  async definitionsVersion(): Promise<number> {
    return this.#read(() => this.#state.definitionsVersion());
  }

  async listDefinitions(after?: AgentId): Promise<DefinitionRow[]> {
    return this.#page(() => this.#state.listDefinitions(after));
  }

  async changeDefinition(change: StoredDefinitionChange): Promise<"saved" | "conflict"> {
    return (await this.#thread.add({ kind: "definition", change })) === "conflict" ? "conflict" : "saved";
  }

  async loadJumps(): Promise<Jumps> {
    return this.#read(() => this.#state.loadJumps());
  }

  async saveJumps(jumps: Jumps): Promise<void> {
    await this.#thread.add({ kind: "jumps", jumps });
  }

  async forgetUser(userId: string): Promise<"conflict" | Forgotten> {
    const outcome = await this.#thread.add({ kind: "forget", userId, floorId: floorOfUser(userId) });
    if (outcome === "conflict") return "conflict";
    return { remains: outcome === "more" ? [FREE_PAGES] : [] };
  }

  async prune(limits: PruneLimits): Promise<boolean> {
    return (await this.#thread.add({ kind: "prune", limits })) === "more";
  }

  async loadFloor(id: FloorId): Promise<FloorRecord | undefined> {
    return this.#read(() => this.#state.loadFloor(id));
  }

  async confirm(id: FloorId, version: number): Promise<boolean> {
    return this.#read(() => this.#state.confirm(id, version));
  }

  async loadSession(id: SessionId): Promise<SessionRow | undefined> {
    return this.#read(() => this.#state.loadSession(id));
  }

  async loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]> {
    return this.#view(() => ids.map((id) => this.#state.loadSession(id)).filter((row) => row !== undefined));
  }

  async loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> {
    return this.#read(() => this.#state.loadDue(id, except, limit));
  }

  async loadDrafts(id: FloorId, after = 0): Promise<DraftPage> {
    return this.#page(() => this.#state.loadDrafts(id, after));
  }

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    return this.#read(() => this.#state.findMessage(sessionId, id));
  }

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    return this.#view(() => keys.map((key) => this.#state.findReceipt(key)).filter((receipt) => receipt !== undefined));
  }

  async dueEffects(query: DueQuery): Promise<RunEffect[]> {
    return this.#read(() => this.#state.dueEffects(query));
  }

  async dueAlarms(query: DueQuery<FloorId>): Promise<{ id: FloorId; dueAt: number }[]> {
    return this.#read(() => this.#state.dueAlarms(query));
  }

  async newestTime(): Promise<number> {
    return this.#read(() => this.#state.newestTime());
  }

  async loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined> {
    return this.#read(() => this.#state.loadConnection(id));
  }

  async getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined> {
    return this.#read(() => this.#state.getBlob(sessionId, hash));
  }

  async whereIs(id: SessionId): Promise<Whereabouts | undefined> {
    // A session and its tombstone change places in one commit, so reading one after the other misses neither.
    return this.#read(() => this.#views.whereIs(id));
  }

  async viewSession(id: SessionId, messages: number): Promise<StoredSessionView | undefined> {
    return this.#page(() => this.#views.viewSession(id, messages));
  }

  async listFloors(query: StoredFloorQuery): Promise<StoredFloorPage> {
    return this.#view(() => this.#floors.list(query));
  }

  async readFloorLogBack(id: FloorId, before: FloorSeq | undefined, limit: number): Promise<LogSlice> {
    return this.#page(() => this.#views.readFloorLogBack(id, before, limit));
  }

  async viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView> {
    return this.#page(() => this.#views.viewFloor(id, limits));
  }

  async listSessions(query: StoredSessionQuery): Promise<StoredSessionPage> {
    return this.#view(() => this.#list.list(query));
  }

  async listMessages(id: SessionId, range: MessageRange): Promise<StoredMessagePage | undefined> {
    return this.#page(() => this.#views.listMessages(id, range));
  }

  async listLogs(
    id: SessionId,
    messageId: MessageId,
    range: { after?: string; limit: number },
  ): Promise<StoredLogPage> {
    return this.#page(() => this.#views.listLogs(id, messageId, range));
  }

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    return this.#page(() => this.#views.readSessionLog(id, after, limit));
  }

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    return this.#page(() => this.#views.readFloorLog(id, after, limit));
  }

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    return this.#read(() => this.#views.heads(ids));
  }

  /** Finish pending writes and refuse new ones as `unavailable`. Further calls do nothing. */
  async close(): Promise<void> {
    await this.#thread.finish();
    await this.#release();
  }

  /** Read a page as one snapshot, in an iteration of the event loop that has budget left. */
  #page<T>(read: () => T): Promise<T> {
    return this.#budget.read(() => this.#view(read));
  }

  /** Run several statements on one snapshot. */
  #view<T>(read: () => T): T {
    return this.#read(() => {
      this.#begin.run();
      try {
        return read();
      } finally {
        this.#end.run();
      }
    });
  }

  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      if (this.#reader.isOpen) this.#failedReads.report(error as Error);
      throw new AppError("unavailable", undefined, { cause: error });
    }
  }
}
