import { AppError } from "../../../src/protocol/errors.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type {
  ConnectionId,
  FloorId,
  FloorSeq,
  MessageId,
  RunRequestId,
  Seq,
  SessionId,
} from "../../../src/protocol/ids.ts";
import { floorHash } from "../../../src/protocol/internal/hash.ts";
import type { RunRequest } from "../../../src/protocol/internal/run-request.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type { Session } from "../../../src/protocol/session.ts";
import { LOG_BYTES, readPage, rowsWithin, weightOfEvent } from "../../../src/store/row-page.ts";
import { loadedSession } from "../../../src/store/rows.ts";
import {
  type BudgetCount,
  type CommitOutcome,
  type ConnectionRow,
  type DeletedSession,
  type DraftPage,
  type DueQuery,
  type FloorChange,
  type FloorRecord,
  type LogSlice,
  type MessageRange,
  type MessageWrite,
  type OverBudget,
  type Receipt,
  type ReceiptKey,
  type SessionRow,
  type SessionSqlRow,
  type Store,
  type StoredFloorPage,
  type StoredMessagePage,
  type StoredRunPage,
  type StoredSessionView,
  sessionOfWrite,
  type Whereabouts,
} from "../../../src/store/store.ts";

/**
 * The store's port over maps, for tests that only need a store: its floors, sessions, messages, logs and connections.
 * Every method is synchronous inside, so that a simulation decides when an answer arrives.
 */
export class MemoryStore implements Store {
  readonly epoch = "sim1";
  readonly secret = "a secret of the simulation, long enough";
  #open: MemoryTables | undefined = new MemoryTables();
  /** Called synchronously with every committed change. */
  onCommit: (change: FloorChange) => void = () => {};

  readonly loadJumps = without;
  readonly saveJumps = without;
  readonly forgetUser = without;
  readonly viewFloor = without;
  readonly listSessions = without;
  readonly listLogs = without;
  readonly listUsage = without;
  readonly findWindows = without;
  readonly readFloorLogBack = without;
  readonly putBlob = without;
  readonly getBlob = without;
  readonly copyBlob = without;
  readonly definitionsVersion = without;
  readonly listDefinitions = without;
  readonly changeDefinition = without;
  readonly stageMessages = without;
  readonly discardStaged = without;
  readonly prune = without;
  readonly claimNotices = without;
  readonly settleNotice = without;
  readonly countNotices = without;
  readonly dropNotices = without;
  readonly disableHook = without;
  readonly enableHook = without;
  readonly disabledHooks = without;

  /** Empty: tests read floors of this store by their ids. */
  async listFloors(): Promise<StoredFloorPage> {
    return { floors: [], hasMore: false };
  }

  get #tables(): MemoryTables {
    if (!this.#open) throw new AppError("unavailable");
    return this.#open;
  }

  // Read by the simulation without a delay.

  /** Pending run requests, in no order. */
  get runRequests(): Iterable<RunRequest> {
    return this.#tables.runRequests.values();
  }

  /** The alarm of each floor that has one, in no order. */
  get alarms(): { id: FloorId; dueAt: number }[] {
    return [...this.#tables.floors].flatMap(([id, { record }]) =>
      record.alarm === undefined ? [] : { id, dueAt: record.alarm },
    );
  }

  sessionsOf(floorId: FloorId): Session[] {
    return [...this.#tables.sessions.values()].flatMap((each) => (each.floorId === floorId ? [each.row.session] : []));
  }

  rowOf(id: SessionId): SessionRow | undefined {
    return this.#tables.sessions.get(id)?.row;
  }

  messagesOf(id: SessionId): Message[] {
    return [...(this.#tables.sessions.get(id)?.messages.values() ?? [])];
  }

  receiptOf(key: ReceiptKey): Receipt | undefined {
    return this.#tables.receipts.get(receiptKey(key));
  }

  versionOf(id: FloorId): number {
    return this.#tables.floors.get(id)?.record.version ?? 0;
  }

  headOf(id: FloorId): FloorSeq {
    return this.#tables.floors.get(id)?.record.head ?? 0;
  }

  // The port.

  async loadFloor(id: FloorId): Promise<FloorRecord | undefined> {
    const floor = this.#tables.floors.get(id);
    return floor && { ...floor.record };
  }

  async commit(change: FloorChange): Promise<CommitOutcome> {
    const changes = change.along ? [change, change.along] : [change];
    for (const each of changes)
      if (this.versionOf(each.floorId) !== each.expected || this.#tables.isTaken(each)) return "conflict";
    for (const each of changes) this.#tables.checkWhole(each);
    const over = this.#tables.count(change.budgets ?? []);
    if (over) return over;
    for (const each of changes) {
      this.#tables.write(each);
      this.onCommit(each);
    }
    return "committed";
  }

  async confirm(id: FloorId, version: number): Promise<boolean> {
    return this.versionOf(id) === version;
  }

  async loadSession(id: SessionId): Promise<SessionRow | undefined> {
    const row = this.rowOf(id);
    return row && { ...row, session: { ...row.session } };
  }

  async loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]> {
    const rows = await Promise.all(ids.map((id) => this.loadSession(id)));
    return rows.filter((row) => row !== undefined);
  }

  async loadDrafts(id: FloorId, after = 0): Promise<DraftPage> {
    const sessions = [...this.#tables.sessions.values()].filter(({ floorId }) => floorId === id);
    const messages = sessions.flatMap((session) => [...session.messages.values()]);
    const drafts = messages.filter(({ status }) => status === "running");
    const keyed = drafts.map((message) => ({ message, key: this.#tables.draftKey(message) }));
    const rest = keyed.filter(({ key }) => key > after).sort((a, b) => a.key - b.key);
    const { page, hasMore } = readPage(rest, rest.length, ({ message }) => message.content.length);
    return { messages: page.map(({ message }) => ({ ...message })), next: hasMore ? page.at(-1)!.key : undefined };
  }

  async findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined> {
    const message = this.#tables.sessions.get(sessionId)?.messages.get(id);
    return message && { ...message };
  }

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    return keys.flatMap((key) => this.receiptOf(key) ?? []).map((receipt) => ({ ...receipt }));
  }

  async newestReceipts(since: number, limit: number): Promise<Receipt[]> {
    const newest = [...this.#tables.receipts.values()].filter(({ at }) => at >= since).slice(-limit);
    return newest.reverse();
  }

  async newestTime(): Promise<number> {
    return Math.max(0, ...[...this.#tables.receipts.values()].map(({ at }) => at));
  }

  /** All sessions: who asks looks for those that have runs. */
  async listRuns(): Promise<StoredRunPage> {
    const rows = await this.loadSessions([...this.#tables.sessions.keys()]);
    return { sessions: rows.map(({ session, memory }) => ({ session, memory, at: 0 })), hasMore: false };
  }

  async dueRunRequests(query: DueQuery): Promise<RunRequest[]> {
    return dueBy(this.#tables.runRequests.values(), query, ({ floorId }) => floorId);
  }

  async dueAlarms(query: DueQuery<FloorId>) {
    return dueBy(this.alarms, query, ({ id }) => id);
  }

  async loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]> {
    return [...this.#tables.sessions.values()]
      .filter(({ floorId, row }) => floorId === id && row.dueAt !== undefined && !except.includes(row.session.id))
      .map(({ row }) => ({ id: row.session.id, dueAt: row.dueAt!, row }))
      .sort(byTime)
      .slice(0, limit)
      .map(({ row }) => ({ ...row, session: { ...row.session } }));
  }

  async whereIs(id: SessionId): Promise<Whereabouts | undefined> {
    const session = this.#tables.sessions.get(id);
    if (!session) return this.#tables.tombstones.get(id);
    const { floorId, row } = session;
    const { ownerId } = row.session;
    return { floorId, ...(ownerId !== undefined && { ownerId }) };
  }

  async viewSession(id: SessionId, messages: number): Promise<StoredSessionView | undefined> {
    const stored = this.#tables.sessions.get(id);
    if (!stored) return undefined;
    const { session, head } = stored.row;
    return { session: { ...session }, head, ...newest([...stored.messages.values()], messages) };
  }

  async listMessages(
    id: SessionId,
    { after, before, fromStart, limit }: MessageRange,
  ): Promise<StoredMessagePage | undefined> {
    const session = this.#tables.sessions.get(id);
    if (!session) return undefined;
    const { head } = session.row;
    const all = [...session.messages.values()].map((message) => ({ ...message }));
    const indexOf = (messageId: MessageId) => {
      const index = all.findIndex((message) => message.id === messageId);
      if (index < 0) throw new AppError("not_found", `There is no message ${messageId} in this session.`);
      return index;
    };
    const end = before === undefined ? all.length : indexOf(before);
    if (after === undefined && !fromStart) return { head, ...newest(all.slice(0, end), limit) };
    const from = after === undefined ? 0 : indexOf(after) + 1;
    return { head, ...firstOf(all.slice(from, end), limit) };
  }

  async readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined> {
    const session = this.#tables.sessions.get(id);
    if (!session) return undefined;
    const later = session.events.filter(({ seq }) => seq! > after);
    return { entries: logPage(later, limit), head: session.row.head, lowWater: 0 };
  }

  async readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice> {
    const later = this.#tables.floors.get(id)?.events.filter(({ floorSeq }) => floorSeq > after) ?? [];
    return { entries: logPage(later, limit), head: this.headOf(id), lowWater: 0 };
  }

  async heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>> {
    return new Map(ids.filter((id) => this.#tables.floors.has(id)).map((id) => [id, this.headOf(id)]));
  }

  async loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined> {
    const row = this.#tables.connections.get(id);
    return row && { ...row };
  }

  async saveConnection(row: ConnectionRow): Promise<"saved" | "conflict"> {
    const { connections } = this.#tables;
    if ((connections.get(row.id)?.version ?? 0) !== row.version) return "conflict";
    connections.set(row.id, { ...row, version: row.version + 1 });
    return "saved";
  }

  async close(): Promise<void> {
    this.#open = undefined;
  }
}

/** What nothing asks this store for. */
function without(): never {
  throw new Error("this store has floors, sessions, messages, logs and connections only");
}

interface Dated {
  id: string;
  dueAt: number;
}

function byTime(one: Dated, other: Dated): number {
  if (one.dueAt !== other.dueAt) return one.dueAt - other.dueAt;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

function dueBy<T extends Dated>(
  all: Iterable<T>,
  { until, after, floorHashes, limit }: DueQuery<T["id"]>,
  floorOf: (each: T) => FloorId,
): T[] {
  return [...all]
    .filter((each) => each.dueAt <= until && (!floorHashes || floorHashes.includes(floorHash(floorOf(each)))))
    .filter((each) => !after || byTime(after, each) < 0)
    .sort(byTime)
    .slice(0, limit);
}

/** The last rows up to a number and a page's size, oldest first. */
function newest(messages: Message[], limit: number): { messages: Message[]; hasMore: boolean } {
  if (limit === 0) return { messages: [], hasMore: messages.length > 0 };
  const page = firstOf(messages.toReversed(), limit);
  return { messages: page.messages.reverse(), hasMore: page.hasMore };
}

/** The first rows up to a number and a page's size. */
function firstOf(messages: readonly Message[], limit: number): { messages: Message[]; hasMore: boolean } {
  const { page, hasMore } = readPage(messages, limit, ({ content }) => Buffer.byteLength(content));
  return { messages: page.map((message) => ({ ...message })), hasMore };
}

/** The first entries of a log up to a page's size. */
function logPage(entries: readonly LogEntry[], limit: number): LogEntry[] {
  return rowsWithin(entries.slice(0, limit), LOG_BYTES, weightOfEvent).map((entry) => ({ ...entry }));
}

const receiptKey = ({ caller, commandId }: ReceiptKey): string => `${caller}\n${commandId}`;
const idOf = (write: MessageWrite): MessageId => ("message" in write ? write.message.id : write.id);
const keyOf = (write: MessageWrite): string => `${sessionOfWrite(write)}/${idOf(write)}`;

/** A session with everything that is deleted with it. */
interface StoredSession {
  row: SessionRow;
  floorId: FloorId;
  messages: Map<MessageId, Message>;
  events: LogEntry[];
}

interface StoredFloor {
  record: FloorRecord;
  events: LogEntry[];
}

/** The floors of a `MemoryStore`, and how a change is written to them. */
class MemoryTables {
  readonly floors = new Map<FloorId, StoredFloor>();
  readonly sessions = new Map<SessionId, StoredSession>();
  /** What is kept of deleted sessions. */
  readonly tombstones = new Map<SessionId, Whereabouts & { floorId: FloorId }>();
  readonly runRequests = new Map<RunRequestId, RunRequest>();
  readonly receipts = new Map<string, Receipt>();
  readonly connections = new Map<ConnectionId, ConnectionRow>();
  readonly #windows = new Map<string, { endsAt: number; used: number }>();
  readonly #draftKeys = new Map<string, number>();

  /** A draft's place among all, which does not change when others finish. */
  draftKey({ sessionId, id }: Message): number {
    const name = `${sessionId} ${id}`;
    const key = this.#draftKeys.get(name) ?? this.#draftKeys.size + 1;
    this.#draftKeys.set(name, key);
    return key;
  }

  /** Add to the windows of budgets, all or nothing. @returns those that are used up */
  count(counts: readonly BudgetCount[]): OverBudget | undefined {
    const sums = counts.map((count) => {
      const { scope, time, withinMs, add } = count;
      const known = this.#windows.get(scope);
      const { endsAt, used } = known && known.endsAt > time ? known : { endsAt: time + withinMs, used: 0 };
      return { count, window: { endsAt: Math.min(endsAt, time + withinMs), used: used + add } };
    });
    const over = sums.flatMap(({ count: { scope, max, add }, window: { used, endsAt } }) =>
      max === undefined || used <= max ? [] : [{ scope, room: Math.max(0, max - (used - add)), freeAt: endsAt }],
    );
    if (over.length > 0) return { over };
    for (const { count, window } of sums) this.#windows.set(count.scope, window);
    return undefined;
  }

  /** Whether a change contains ids that exist already, or that belong to another floor. */
  isTaken({ newIds, receipts, sessions, messages, floorId }: FloorChange): boolean {
    const keys = new Set(receipts.map(receiptKey));
    if (keys.size < receipts.length || receipts.some((receipt) => this.receipts.has(receiptKey(receipt)))) return true;
    const isElsewhere = ({ id }: SessionSqlRow) => {
      const stored = this.sessions.get(id);
      return stored !== undefined && stored.floorId !== floorId;
    };
    if (sessions.some(isElsewhere)) return true;
    if (newIds.some((id) => this.sessions.has(id) || this.tombstones.has(id))) return true;
    return messages.some(
      (write) => write.kind === "add" && this.sessions.get(write.message.sessionId)?.messages.has(write.message.id),
    );
  }

  /**
   * All of a change or nothing: every id that it names exists, or is created by it.
   * @throws Error for a missing one
   */
  checkWhole({ sessions, messages, logs, events, floorId }: FloorChange): void {
    const brought = new Set(sessions.map(({ id }) => id));
    const added = new Set(messages.flatMap((write) => (write.kind === "add" ? [keyOf(write)] : [])));
    const needSession = (id: SessionId) => {
      if (brought.has(id) || this.sessions.get(id)?.floorId === floorId) return;
      throw new Error(`there is no session ${id} on this floor`);
    };
    const needMessage = (sessionId: SessionId, id: MessageId) => {
      if (added.has(`${sessionId}/${id}`) || this.sessions.get(sessionId)?.messages.has(id)) return;
      throw new Error(`there is no message ${id} in session ${sessionId}`);
    };
    for (const write of messages) {
      needSession(sessionOfWrite(write));
      if (write.kind === "put" || write.kind === "append") needMessage(sessionOfWrite(write), idOf(write));
    }
    for (const { sessionId, messageId } of logs) {
      needSession(sessionId);
      needMessage(sessionId, messageId);
    }
    for (const { sessionId } of events) if (sessionId !== undefined) needSession(sessionId);
  }

  /** Write a change that passed `isTaken` and `checkWhole`. */
  write(change: FloorChange): void {
    const { floorId, expected, head, alarm, snapshot, format } = change;
    const events = this.floors.get(floorId)?.events ?? [];
    this.floors.set(floorId, { record: { version: expected + 1, head, alarm, snapshot, format }, events });
    for (const row of change.sessions) this.#putSession(row, floorId);
    for (const write of change.messages) this.#writeMessage(write);
    for (const entry of change.events) this.#log(entry, floorId);
    for (const id of change.runRequestsRemoved) this.runRequests.delete(id);
    for (const each of change.runRequestsAdded) this.runRequests.set(each.id, each);
    for (const receipt of change.receipts) this.receipts.set(receiptKey(receipt), receipt);
    for (const deleted of change.deleted) this.#delete(deleted, floorId);
  }

  #putSession({ id, due_at: dueAt, ...of }: SessionSqlRow, floorId: FloorId): void {
    const stored = this.sessions.get(id);
    const row = { ...loadedSession(of), dueAt };
    if (stored) stored.row = row;
    else this.sessions.set(id, { row, floorId, messages: new Map(), events: [] });
  }

  #writeMessage(write: MessageWrite): void {
    const { messages } = this.sessions.get(sessionOfWrite(write))!;
    if (write.kind === "add" || write.kind === "put") {
      messages.set(write.message.id, write.message);
      this.draftKey(write.message);
      return;
    }
    if (write.kind === "remove") {
      messages.delete(write.id);
      return;
    }
    const message = messages.get(write.id);
    if (!message) return;
    const changed = write.kind === "append" ? { content: message.content + write.text } : { status: write.status };
    messages.set(write.id, { ...message, ...changed });
  }

  #log(entry: LogEntry, floorId: FloorId): void {
    this.floors.get(floorId)!.events.push(entry);
    if (entry.sessionId !== undefined) this.sessions.get(entry.sessionId)!.events.push(entry);
  }

  #delete({ sessionId, last }: DeletedSession, floorId: FloorId): void {
    const ownerId = this.sessions.get(sessionId)?.row.session.ownerId;
    this.sessions.delete(sessionId);
    const floor = this.floors.get(floorId)!;
    floor.events = floor.events.filter((entry) => entry.sessionId !== sessionId);
    floor.events.push(last);
    floor.events.sort((one, other) => one.floorSeq - other.floorSeq);
    const tombstone = { head: last.seq!, last };
    this.tombstones.set(sessionId, { floorId, ...(ownerId !== undefined && { ownerId }), tombstone });
  }
}
