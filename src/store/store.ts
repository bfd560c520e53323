import type { Decision } from "../protocol/decision.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { FloorState, Reservation } from "../protocol/floor.ts";
import type {
  AgentId,
  ConnectionId,
  FloorId,
  FloorSeq,
  MessageId,
  RunId,
  RunRequestId,
  Seq,
  SessionId,
} from "../protocol/ids.ts";
import type { RunRequest } from "../protocol/internal/run-request.ts";
import type { LogLine, Message, MessageStatus } from "../protocol/message.ts";
import type { Session, SessionState } from "../protocol/session.ts";
import type { RowOf } from "./columns.ts";

export interface StoreEpoch {
  /**
   * Identifies this store in positions. Changes when the store is created again. At most 6 characters of a-z and 0-9.
   */
  readonly epoch: string;
}

/** What ids are derived from. */
export interface StoreSecret {
  /** Random bytes created with the store. Ids derived from them cannot be guessed (rule C3). */
  readonly secret: string;
}

/** Floors and their sessions, as the host loads and writes them. */
export interface FloorStore {
  loadFloor(id: FloorId): Promise<FloorRecord | undefined>;
  /**
   * Commit a floor's change durably. `conflict`: W1, W3, W4 or W6 does not hold. `OverBudget`: a count is above its
   * `max` (W7). Rejects if the change refers to a missing row (W5).
   *
   * It is written twice: in TypeScript for SQLite (`sqlite/rows/`), and in PL/pgSQL (`migrations/postgres/functions/`).
   * Both keep these, which both cite, as does a test of the contract in `test/contract/store/` for each:
   * - W1: The change is committed from the version `expected` only, which becomes `expected + 1`.
   * - W2: All of the change is written, with the one `along`, or nothing of it.
   * - W3: A session's id and a receipt's key are unique in the store, and a message's id in its session. One that
   *   exists is a conflict.
   * - W4: None of `newIds` is a session's, nor that of a deleted session whose tombstone is kept.
   * - W5: Messages, log lines and events are written to sessions of the change's floor only.
   * - W6: A staged session becomes a session once, with all its messages. One that is missing is a conflict.
   * - W7: A change counts in all its budgets, or is refused and counts in none.
   * - W8: A line of a message's log that is written again is stored once.
   * - W9: A deleted session's notices go with it, before the change's own are added.
   * - W10: No change fails because of another with which it shares a transaction (rule C5).
   */
  commit(change: FloorChange): Promise<CommitOutcome>;
  /** Whether a floor still has this version (rule C1). A store with exclusive access to its data may return true. */
  confirm(id: FloorId, version: number): Promise<boolean>;
  /** The row of a session, with its machine's memory. */
  loadSession(id: SessionId): Promise<SessionRow | undefined>;
  /** The rows of these sessions that exist, in any order. */
  loadSessions(ids: readonly SessionId[]): Promise<SessionRow[]>;
  /** The floor's sessions with a deadline, the earliest first, without these. */
  loadDue(id: FloorId, except: readonly SessionId[], limit: number): Promise<SessionRow[]>;
}

/** Recorded answers of commands. `FloorStore.commit` and `DefinitionStore.changeDefinition` write them. */
export interface ReceiptStore {
  /** The existing receipts for these keys, in any order. */
  findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]>;
  /** The newest receipts of this time (ms) and after it, at most `limit`, newest first. */
  newestReceipts(since: number, limit: number): Promise<NewReceipt[]>;
}

/** What is to be done at a time: the outbox of run requests, and the floors' alarms. */
export interface RunRequestStore {
  /** The due run requests, ordered by `dueAt` and id. */
  dueRunRequests(query: DueQuery): Promise<RunRequest[]>;
  /** The floors whose alarm is due, ordered by it and their ids. */
  dueAlarms(query: DueQuery<FloorId>): Promise<{ id: FloorId; dueAt: number }[]>;
}

/**
 * The outbox of webhooks. A lane is one hook and one session, or a floor: of its notices only the oldest is sent.
 * `FloorStore.commit` adds notices. Those of a deleted session and of a forgotten user are deleted with them.
 */
export interface NoticeStore {
  /**
   * Claim lanes of a hook whose oldest notice is due at `now`, in any order: until `until` no other node gets them.
   * None while the hook is disabled for this receiver. `claim` is new for each call.
   */
  claimNotices(query: {
    hook: string;
    receiver: string;
    claim: string;
    now: number;
    until: number;
    limit: number;
  }): Promise<ClaimedNotice[]>;
  /**
   * End the sending of a claimed notice. One that was not accepted is due again at `failed.dueAt`; any other is
   * deleted, and the next one of its lane is due at `now`. If another node has claimed the lane since, only an accepted
   * notice is deleted.
   */
  settleNotice(claimed: ClaimedNotice, now: number, failed?: FailedNotice): Promise<void>;
  /** What each hook's receiver is still to be sent, of one hook after the other. Hooks without notices are left out. */
  countNotices(): Promise<NoticeBacklog[]>;
  /**
   * Delete the oldest notices of a hook, at most `limit` of those added before `before`, while more than `keep` are
   * left: two nodes that find too many at once do not delete twice as many.
   * @returns how many were deleted
   */
  dropNotices(query: { hook: string; before: number; keep: number; now: number; limit: number }): Promise<number>;
  /** Disable a hook until it is enabled or has another receiver. @returns false if it was already */
  disableHook(disabled: DisabledHook): Promise<boolean>;
  /** Enable a hook, whichever receivers it had. @returns false if it was not disabled */
  enableHook(hook: string): Promise<boolean>;
  /** The hooks that are disabled, and for which receivers. */
  disabledHooks(): Promise<DisabledHook[]>;
}

export interface DisabledHook {
  hook: string;
  receiver: string;
  /** Since when, in the floors' time, ms. */
  at: number;
}

/** A notice to add to the end of its lane. Times are in the floors' time, ms. */
export interface WebhookNotice {
  /** The same each time it is sent. */
  id: string;
  hook: string;
  /** A session's id; a floor's for what belongs to no session. */
  subject: string;
  at: number;
  /** The body of the request, as JSON. */
  payload: string;
}

export interface ClaimedNotice extends Pick<WebhookNotice, "id" | "at" | "payload" | "subject"> {
  laneKey: number;
  claim: string;
  /** How often it was not accepted. */
  failures: number;
}

export interface FailedNotice {
  dueAt: number;
  failures: number;
  /** Why it was not accepted. */
  reason: string;
}

export interface NoticeBacklog {
  hook: string;
  pending: number;
  /** When the oldest one was added, in the floors' time, ms. */
  oldestAt: number;
  /** Of the lane that failed most often; 0: none has failed. */
  failures: number;
  reason?: string | undefined;
}

/** Messages of sessions. A page is one consistent snapshot, and ends as in `ViewStore`. */
export interface MessageStore {
  findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined>;
  /** Oldest first; without `after` and `before`, the newest. Undefined for an unknown session. */
  listMessages(id: SessionId, range: MessageRange): Promise<StoredMessagePage | undefined>;
}

/**
 * What streams show: logs, and messages that are being written. A page is one consistent snapshot, and ends as in
 * `ViewStore`.
 */
export interface LogStore extends StoreEpoch {
  /** The floor whose log has the session's events; for a deleted session, with its last one. */
  whereIs(id: SessionId): Promise<Whereabouts | undefined>;
  /** Events of a session's log after a `seq`, in order. Undefined for an unknown session. */
  readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined>;
  /** Events of a floor's log after a `floorSeq`, in order. Empty for an unused floor. */
  readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice>;
  /** Events of a floor's log before a `floorSeq`, newest first; without `before`, from the end. */
  readFloorLogBack(id: FloorId, before: FloorSeq | undefined, limit: number): Promise<LogSlice>;
  /** The head of each floor's log, in one query. Floors without a row are left out. */
  heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>>;
  /**
   * The messages of a floor that are being written, with their text so far, oldest first.
   * @param after the `next` of the page before
   */
  loadDrafts(id: FloorId, after?: number): Promise<DraftPage>;
}

/**
 * Sessions and floors as answers show them. Each read is one consistent snapshot. A page ends after `limit` rows, or
 * with the row that reaches the size limit in row-page.ts; it has at least one row if there is any (C30).
 */
export interface ViewStore {
  /** A session with its newest `messages` messages, oldest first. */
  viewSession(id: SessionId, messages: number): Promise<StoredSessionView | undefined>;
  /** Each list, and the decisions, end like a page. */
  viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<StoredFloorView>;
  listSessions(query: StoredSessionQuery): Promise<StoredSessionPage>;
  /** Sessions with unfinished runs, that with the oldest first; or of which a run failed, the newest failure first. */
  listRuns(query: StoredRunQuery): Promise<StoredRunPage>;
  listLogs(id: SessionId, messageId: MessageId, range: { after?: string; limit: number }): Promise<StoredLogPage>;
  /** Used floors, by id. */
  listFloors(query: StoredFloorQuery): Promise<StoredFloorPage>;
}

/** What turns used: by day, owner and agent, and in the windows of budgets. */
export interface UsageStore {
  /** The newest windows of these budgets; of one in which nothing was counted, none. */
  findWindows(scopes: readonly string[]): Promise<BudgetWindow[]>;
  /** Newest day first, then by owner and agent. */
  listUsage(query: StoredUsageQuery): Promise<StoredUsagePage>;
}

/** The connections of clients (rule C19): written by a gateway. */
export interface ConnectionStore {
  loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined>;
  /** Compare-and-set on `version` (0: no row may exist). The row is stored with `version + 1`. */
  saveConnection(row: ConnectionRow): Promise<"saved" | "conflict">;
}

/** Images of messages (rule C22): written by a gateway. */
export interface BlobStore {
  putBlob(sessionId: SessionId, blob: Blob): Promise<void>;
  getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined>;
  /** Copy an image for a session that is being staged. @returns false if there is no such image */
  copyBlob(from: SessionId, to: SessionId, hash: string, now: number): Promise<boolean>;
}

/** Staged sessions: histories that are copied or imported in pieces, before a commit makes their sessions. */
export interface StagedCopies {
  /**
   * Add finished messages to a staged session, in this order; the first call makes it. Readers do not see it. It
   * becomes a session by `FloorChange.staged`, or is pruned. The messages have the id that their session is to have,
   * and their images are stored under that id before.
   */
  stageMessages(stagedAs: StagedId, messages: readonly Message[], now: number): Promise<void>;
  /** Let the next pruning delete it. Does nothing for a staged session that is unknown or has become a session. */
  discardStaged(stagedAs: StagedId): Promise<void>;
}

/** Definitions of agents: written by a gateway, read by every node. */
export interface DefinitionStore {
  /** A number that rises with each change of a definition. */
  definitionsVersion(): Promise<number>;
  /** By id, after this one. Empty after the last one. */
  listDefinitions(after?: AgentId): Promise<DefinitionRow[]>;
  /**
   * Compare-and-set on the definition's version, with the receipt of the write. `conflict`: the version is another one,
   * or the receipt's key exists; nothing is written.
   */
  changeDefinition(change: StoredDefinitionChange): Promise<"saved" | "conflict">;
}

/** Deletes what has expired. */
export interface RetentionStore {
  /** Delete expired rows, a limited number at a time. True while more remain. */
  prune(limits: PruneLimits): Promise<boolean>;
  /** What was saved of the wall clock's jumps (rule C9). */
  loadJumps(): Promise<Jumps>;
  saveJumps(jumps: Jumps): Promise<void>;
}

/**
 * The system of record: it holds everything that was acknowledged. One implementation per database, and one contract
 * suite for all. Other parts take the ports that they need. Any method throws `AppError("unavailable")` if it cannot
 * reach the database or write to it.
 */
export interface Store
  extends StoreSecret,
    FloorStore,
    ReceiptStore,
    RunRequestStore,
    NoticeStore,
    MessageStore,
    LogStore,
    ViewStore,
    UsageStore,
    ConnectionStore,
    BlobStore,
    StagedCopies,
    DefinitionStore,
    RetentionStore {
  /** When the newest event was logged, in ms since 1970; 0 for a new store. A clock that starts before it is wrong. */
  newestTime(): Promise<number>;
  /**
   * Delete all that is about a user whose sessions are deleted: the events and decisions of its floors, receipts,
   * images, tombstones and connections. Of a floor its id, version and head stay, because none of them may begin again.
   * `conflict`: the user has sessions; nothing is deleted. It may take seconds, and other writes wait for it.
   */
  forgetUser(userId: string): Promise<"conflict" | Forgotten>;
  close(): Promise<void>;
}

export interface Forgotten {
  /** What still has data of the user, as sentences for operators. */
  remains: string[];
}

/** The jumps of the wall clock so far. */
export interface Jumps {
  /** Their sum, in ms: by as much a floor's time is behind the wall clock. */
  jumpedMs: number;
  /** Until when pruning is paused because of them, in ms since 1970; 0: no doubt. */
  doubtUntil: number;
}

export interface FloorRecord {
  version: number;
  /** The head of the floor's log. */
  head: FloorSeq;
  /** The floor's earliest deadline, in its time, ms. */
  alarm?: number | undefined;
  /** Written and read by the host only. */
  snapshot: string;
  format: number;
}

/** A conflict changed nothing: the floor has another version, or a key of the change exists. */
export type CommitOutcome = "committed" | "conflict" | OverBudget;

/** The counts that are above their `max`, or would be with the change. Nothing was written. */
export interface OverBudget {
  over: {
    scope: string;
    /** How much could be added; 0 if nothing. */
    room: number;
    /** When the window ends, in the floors' time, ms. */
    freeAt: number;
  }[];
}

/**
 * What a change adds to the window of a budget. A window begins with the first count after the one before has ended,
 * and lasts `withinMs`; then counting begins again at 0.
 */
export interface BudgetCount {
  /** Names the budget, and whose it is. */
  scope: string;
  /** Whose it is, to forget it with the owner. */
  ownerId?: string | undefined;
  withinMs: number;
  /** The present, in the floors' time, ms. */
  time: number;
  add: number;
  /** The change is refused if the sum would be larger. Undefined: nothing is refused. */
  max?: number | undefined;
}

/** What was counted in a window of a budget. After its end it no longer counts. */
export interface BudgetWindow {
  scope: string;
  used: number;
  /** In the floors' time, ms. */
  endsAt: number;
}

/** What a change adds to the usage of a day. */
export interface UsageCount {
  /** UTC days since 1970. */
  day: number;
  ownerId: string;
  agentId: AgentId;
  /** Turns that began. */
  runs: number;
  input: number;
  output: number;
  /** All tokens. */
  tokens: number;
}

/** All changes of one commit to a floor. Rows that are not listed stay unchanged. */
export interface FloorChange {
  floorId: FloorId;
  /** The version that the change is based on; 0 for a floor without a row. Committed as `expected + 1`. */
  expected: number;
  /** Ids expected to be unused. An existing session or tombstone with one of them is a conflict. */
  newIds: SessionId[];
  snapshot: string;
  format: number;
  /** The head of the floor's log after the change. */
  head: FloorSeq;
  /** The floor's earliest deadline, in its time, ms; undefined: none. */
  alarm?: number | undefined;
  /**
   * When the first of its sessions that wait for their time asks, on the wall clock, ms; undefined: none waits. A store
   * keeps it if its floors' time is not the wall clock's: PostgreSQL does not, because `alarm` says the same.
   */
  rings?: number | undefined;
  flags: Record<string, boolean>;
  reserved?: Reservation | undefined;
  /** The whole rows, as they are after the change. */
  sessions: SessionSqlRow[];
  messages: MessageWrite[];
  logs: LogLineWrite[];
  events: LogEntry[];
  runRequestsAdded: RunRequest[];
  runRequestsRemoved: RunRequestId[];
  receipts: Receipt[];
  deleted: DeletedSession[];
  /** What receivers of webhooks are to be sent, in order. Absent: nothing. */
  notices?: WebhookNotice[] | undefined;
  /** Staged sessions that become sessions with this change, with their messages. A missing one is a conflict. */
  staged?: StagedSession[] | undefined;
  usage?: readonly UsageCount[] | undefined;
  /** Of this floor and of `along`. Absent if nothing counts towards a budget. */
  budgets?: readonly BudgetCount[] | undefined;
  /** A change of another floor: both are committed, or neither (rule C34). It has none of its own. */
  along?: FloorChange | undefined;
}

/** The id of a staged session. It begins with `~`, so it is no session's id. */
export type StagedId = `~${string}`;

export interface StagedSession {
  sessionId: SessionId;
  stagedAs: StagedId;
}

export interface SessionRow {
  session: Session;
  /** The machine's internal state that answers do not show, as JSON. */
  memory: string;
  /** The head of the session's log. */
  head: Seq;
  /** The session's earliest deadline, in the floor's time, ms; undefined: none. */
  dueAt?: number | undefined;
}

/** A session's row: its columns (columns.ts), and what becomes columns of other rows. Undefined: null. */
export interface SessionSqlRow extends RowOf<"sessions">, RowOf<"session_content"> {
  id: SessionId;
  head: number;
  view: string;
  memory: string;
  /**
   * When its oldest unfinished run was accepted. The row keeps the earliest until none is left: its place in a list of
   * runs stays while some of them end, so that no page repeats a run of the page before.
   */
  runs_at: number | undefined;
  /** When the session's first event of the change happened: its oldest one, if the row has none yet. */
  oldest_at: number | undefined;
  /** The place of its last transition of the change in the floor's log. */
  paused_at: number | undefined;
  /** The text of its words. */
  text: string;
}

export type MessageWrite =
  /** A new message. An existing id is a conflict. */
  | { kind: "add"; message: Message }
  /** An existing message, replaced as a whole. */
  | { kind: "put"; message: Message }
  | { kind: "append"; sessionId: SessionId; id: MessageId; text: string }
  | { kind: "status"; sessionId: SessionId; id: MessageId; status: MessageStatus }
  | { kind: "remove"; sessionId: SessionId; id: MessageId };

export const sessionOfWrite = (write: MessageWrite): SessionId =>
  "message" in write ? write.message.sessionId : write.sessionId;

export interface LogLineWrite {
  sessionId: SessionId;
  messageId: MessageId;
  line: LogLine;
  /** Of the run that wrote it: for live readers, not stored. */
  runId?: RunId | undefined;
}

export interface ReceiptKey {
  caller: string;
  commandId: string;
}

/** The recorded outcome of a command. The key is unique across floors (rule C2). */
export interface Receipt extends ReceiptKey {
  floorId: FloorId;
  bodyHash: string;
  /** The reply, as JSON. */
  reply: string;
  at: number;
}

/** What a receipt says without its body. */
export type NewReceipt = Omit<Receipt, "bodyHash">;

/** A deleted session: its rows are removed, and a tombstone remains for late readers (rule C20). */
export interface DeletedSession {
  sessionId: SessionId;
  /** The session's last event. Its `seq` is the head of the session's log. */
  last: LogEntry;
  at: number;
}

export interface DueQuery<Id extends string = RunRequestId> {
  /** What is due at or before this time, in the floors' time, ms. */
  until: number;
  /** What comes after this one. */
  after?: { id: Id; dueAt: number } | undefined;
  /** What belongs to floors with these hashes (rule C8), each `floorHash`; undefined: all. */
  floorHashes?: readonly number[] | undefined;
  limit: number;
}

export interface Whereabouts {
  floorId: FloorId;
  ownerId?: string | undefined;
  /** Present for a day after the session is deleted. */
  tombstone?: { head: Seq; last: LogEntry } | undefined;
}

export interface StoredSessionView {
  session: Session;
  head: Seq;
  messages: Message[];
  hasMore: boolean;
}

export interface StoredFloorView {
  head: FloorSeq;
  flags: Record<string, boolean>;
  /** For whom the idle floor is reserved. */
  reserved?: Reservation | undefined;
  holder?: Session | undefined;
  /** The sessions audible alongside the holder, highest priority first. */
  ducked: Session[];
  /** Most recently paused first. */
  paused: Session[];
  /** Longest waiting first. */
  queued: Session[];
  /** Newest last. */
  decisions: Decision[];
}

/** Which sessions have runs that a list may show. Times in ms since 1970. */
export interface StoredRunQuery {
  kind: "unfinished" | "failed";
  ownerId?: string | undefined;
  userId?: string | undefined;
  /** Of unfinished runs: only the session that has this one. */
  runId?: RunId | undefined;
  /** Sessions whose oldest run, or whose failure, is not before, and not after. */
  from?: number | undefined;
  to?: number | undefined;
  /** The session after which the page begins. */
  after?: RunListPlace | undefined;
  limit: number;
}

/** A session's place in a list of runs. */
export interface RunListPlace {
  at: number;
  sessionId: SessionId;
}

export interface StoredRunPage {
  sessions: (Pick<SessionRow, "session" | "memory"> & { at: number })[];
  hasMore: boolean;
}

export interface StoredFloorQuery {
  after?: FloorId | undefined;
  /** Only these floors. */
  ids?: readonly FloorId[] | undefined;
  state?: FloorState | undefined;
  /** Floors with a session of this owner. */
  ownerId?: string | undefined;
  limit: number;
}

export interface StoredUsageQuery {
  /** UTC days since 1970, both included. */
  from: number;
  to: number;
  ownerId?: string | undefined;
  agentId?: AgentId | undefined;
  /** What comes after this row. */
  after?: Pick<UsageCount, "day" | "ownerId" | "agentId"> | undefined;
  limit: number;
}

export interface StoredUsagePage {
  usage: UsageCount[];
  hasMore: boolean;
}

export interface StoredFloorPage {
  /** By id. */
  floors: FloorRow[];
  hasMore: boolean;
}

/** A floor and the number of its sessions by state. */
export interface FloorRow {
  floorId: FloorId;
  /** The session's owner; set only for a floor of a single session. */
  ownerId?: string | undefined;
  head: FloorSeq;
  flags: Record<string, boolean>;
  reserved?: Reservation | undefined;
  holder?: { sessionId: SessionId; agentId: AgentId } | undefined;
  ducked: number;
  paused: number;
  queued: number;
}

export interface StoredSessionQuery {
  page: number;
  pageSize: number;
  /** Words in titles, summaries and messages, or a session's id. */
  q?: string | undefined;
  /** With `q`: the id of a session that matches regardless of its words. Default: `q` itself. */
  id?: string | undefined;
  state?: SessionState | undefined;
  agentId?: AgentId | undefined;
  userId?: string | undefined;
  workspaceId?: string | undefined;
  ownerId?: string | undefined;
  includeArchived: boolean;
}

export interface StoredSessionPage {
  /** Newest activity first. */
  sessions: Session[];
  total: number;
}

export interface MessageRange {
  after?: MessageId | undefined;
  before?: MessageId | undefined;
  /** Without `after`: the oldest messages, in place of the newest. */
  fromStart?: boolean | undefined;
  limit: number;
}

export interface StoredMessagePage {
  messages: Message[];
  hasMore: boolean;
  /** The head of the session's log. */
  head: Seq;
}

export interface DraftPage {
  messages: Message[];
  /** Where the next page begins; undefined for the last page. */
  next?: number | undefined;
}

export interface StoredLogPage {
  logs: LogLine[];
  hasMore: boolean;
}

export interface LogSlice {
  entries: LogEntry[];
  /** The head of the log. */
  head: number;
  /** Events up to this number are pruned, so a read from before it has a gap. */
  lowWater: number;
}

/** The sessions that a client's connection is bound to. */
export interface ConnectionRow {
  id: ConnectionId;
  ownerId?: string | undefined;
  /** Defaults for sessions that are created through this connection. */
  userId?: string | undefined;
  zone?: string | undefined;
  /** Appended, never reordered or reused: positions name slots by index. */
  slots: Slot[];
  /** Reservations for sessions that are about to be created, until a time in ms since 1970. */
  reserved?: { sessionId: SessionId; until: number }[] | undefined;
  /** When the row expires, in ms since 1970. */
  expiresAt: number;
  version: number;
}

export interface Slot {
  sessionId: SessionId;
  floorId: FloorId;
  /** The session's events after this `seq` are sent. */
  from: Seq;
  /** When the session was created, in ms since 1970: a later session with this id is another one. Absent: unknown. */
  sessionCreatedAt?: number | undefined;
  /** The slot's last event was sent: the slot is free, and no position names it. */
  ended?: true | undefined;
}

/** An agent that operators defined. */
export interface DefinitionRow {
  id: AgentId;
  version: number;
  /** The fields of the definition, as JSON. */
  body: string;
}

export interface StoredDefinitionChange {
  id: AgentId;
  /** The version that this change is based on; 0: no definition with this id may exist. Saved as `expected + 1`. */
  expected: number;
  /** Undefined: delete the definition. */
  body: string | undefined;
  receipt: Omit<Receipt, "floorId">;
}

export interface Blob {
  /** SHA-256 of the bytes, in hex. */
  hash: string;
  mimeType: string;
  bytes: Uint8Array;
  createdAt: number;
}

export interface UsageLimits {
  /** Usage of earlier days is deleted. UTC days since 1970. */
  day: number;
  /** The rows of earlier days are summed over the floors, because no commit writes them any more. */
  sumDay: number;
  /** Windows of budgets that ended by then are deleted, in the floors' time, ms. */
  time: number;
}

export interface PruneLimits {
  now: number;
  /** Older events of archived sessions are deleted; undefined keeps all. */
  eventsBefore?: number | undefined;
  /** Older receipts and tombstones are deleted. */
  receiptsBefore: number;
  /** Staged sessions without an addition since then are deleted; undefined keeps all. */
  stagedBefore?: number | undefined;
  /** Undefined keeps all that turns used. */
  usage?: UsageLimits | undefined;
  /** At most this many rows of each kind. */
  limit: number;
}
