import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Clock } from "../protocol/clock.ts";
import type { Effect } from "../protocol/effect.ts";
import { AppError } from "../protocol/errors.ts";
import type { ConnectionId, FloorId, FloorSeq, MessageId, Seq, SessionId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Message } from "../protocol/message.ts";
import { GroupCommit } from "./group-commit.ts";
import type { Meta } from "./meta.ts";
import { isUnreadable } from "./sqlite-fault.ts";
import { openReader, prepareFile } from "./sqlite-file.ts";
import type { Job, Outcome } from "./sqlite-job.ts";
import { FileLock } from "./sqlite-lock.ts";
import { SessionList } from "./sqlite-session-list.ts";
import { StateReader } from "./sqlite-state.ts";
import { WriterThread } from "./sqlite-thread.ts";
import { ViewReader } from "./sqlite-views.ts";
import type {
  Blob,
  ConnectionRow,
  DueQuery,
  FloorChange,
  FloorRecord,
  FloorView,
  LogPage,
  LogSlice,
  MessagePage,
  MessageRange,
  PruneLimits,
  Receipt,
  ReceiptKey,
  SessionPage,
  SessionQuery,
  SessionRow,
  SessionView,
  Store,
  Whereabouts,
} from "./store.ts";

export interface SqliteOptions {
  /**
   * A path; its folder is made when it is missing. `:memory:` is a file in a private temporary folder that is removed
   * when the store is closed; its commits do not wait for the disk.
   */
  file: string;
  clock: Clock;
  log: Logger;
}

/**
 * Open a SQLite store: one process owns the file as long as it is open (rule C27). Writes go to a thread of their own
 * and share transactions; reads run here, on a connection that cannot write, and go on when writes are refused.
 * @throws Error with a sentence: the file is in use, no database of ours, or newer than this program
 */
export async function openSqliteStore({ file, clock, log }: SqliteOptions): Promise<Store> {
  const temporary = file === ":memory:" ? await mkdtemp(join(tmpdir(), "interlock-")) : undefined;
  const path = temporary === undefined ? resolve(file) : join(temporary, "interlock.db");
  const settings = { file: path, isDurable: temporary === undefined };
  const closing: (() => unknown)[] = [];
  if (temporary !== undefined) closing.push(() => rm(temporary, { recursive: true, force: true }));
  try {
    await mkdir(dirname(path), { recursive: true });
    const lock = FileLock.take(path);
    closing.push(() => lock.release());
    const meta = await prepareFile(settings, clock.now());
    const thread = new WriterThread(settings, clock, log);
    closing.push(() => thread.close());
    await thread.start();
    const reader = openReader(path);
    // Closed before the writer, which then is the last and leaves one tidy file.
    closing.push(() => reader.close());
    return new SqliteStore(meta, new GroupCommit(thread), reader, closing);
  } catch (error) {
    await closeAll(closing);
    throw error;
  }
}

/** In the reverse of the order in which they were opened. */
async function closeAll(closing: (() => unknown)[]): Promise<void> {
  for (const close of closing.splice(0).reverse()) await close();
}

class SqliteStore implements Store {
  readonly epoch: string;
  readonly secret: string;
  readonly #writes: GroupCommit<Job, Outcome>;
  readonly #begin: StatementSync;
  readonly #end: StatementSync;
  readonly #state: StateReader;
  readonly #views: ViewReader;
  readonly #list: SessionList;
  readonly #closing: (() => unknown)[];

  constructor(
    { epoch, secret }: Meta,
    writes: GroupCommit<Job, Outcome>,
    db: DatabaseSync,
    closing: (() => unknown)[],
  ) {
    this.epoch = epoch;
    this.secret = secret;
    this.#writes = writes;
    this.#begin = db.prepare("BEGIN");
    this.#end = db.prepare("ROLLBACK");
    this.#state = new StateReader(db);
    this.#views = new ViewReader(db);
    this.#list = new SessionList(db);
    this.#closing = closing;
  }

  async commit(change: FloorChange): Promise<"committed" | "conflict"> {
    return (await this.#writes.add({ kind: "change", change })) === "conflict" ? "conflict" : "committed";
  }

  async saveConnection(row: ConnectionRow): Promise<"saved" | "conflict"> {
    return (await this.#writes.add({ kind: "connection", row })) === "conflict" ? "conflict" : "saved";
  }

  async putBlob(sessionId: SessionId, blob: Blob): Promise<void> {
    await this.#writes.add({ kind: "blob", sessionId, blob });
  }

  async shiftEffects(byMs: number): Promise<void> {
    await this.#writes.add({ kind: "shift", byMs });
  }

  async prune(limits: PruneLimits): Promise<boolean> {
    return (await this.#writes.add({ kind: "prune", limits })) === "more";
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

  async loadDrafts(id: FloorId): Promise<Message[]> {
    return this.#read(() => this.#state.loadDrafts(id));
  }

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    return this.#read(() => this.#state.findMessage(sessionId, id));
  }

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    return this.#view(() => keys.map((key) => this.#state.findReceipt(key)).filter((receipt) => receipt !== undefined));
  }

  async dueEffects(query: DueQuery): Promise<Effect[]> {
    return this.#read(() => this.#state.dueEffects(query));
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
    // A session goes and its tombstone comes in one commit, so looking for one after the other misses neither.
    return this.#read(() => this.#views.whereIs(id));
  }

  async viewSession(id: SessionId, messages: number): Promise<SessionView | undefined> {
    return this.#view(() => this.#views.viewSession(id, messages));
  }

  async viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<FloorView> {
    return this.#view(() => this.#views.viewFloor(id, limits));
  }

  async listSessions(query: SessionQuery): Promise<SessionPage> {
    return this.#view(() => this.#list.list(query));
  }

  async listMessages(id: SessionId, range: MessageRange): Promise<MessagePage | undefined> {
    return this.#view(() => this.#views.listMessages(id, range));
  }

  async listLogs(id: SessionId, messageId: MessageId, range: { after?: string; limit: number }): Promise<LogPage> {
    return this.#view(() => this.#views.listLogs(id, messageId, range));
  }

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    return this.#view(() => this.#views.readSessionLog(id, after, limit));
  }

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    return this.#view(() => this.#views.readFloorLog(id, after, limit));
  }

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    return this.#read(() => this.#views.heads(ids));
  }

  /** What was asked for before is carried out; what comes after is `unavailable`. Closing twice is closing once. */
  async close(): Promise<void> {
    await this.#writes.close();
    await closeAll(this.#closing);
  }

  /** Several statements as one view: they see the same commits. */
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
      throw isUnreadable(error) ? new AppError("unavailable", undefined, { cause: error }) : error;
    }
  }
}
