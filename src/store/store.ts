import type { Decision } from "../protocol/decision.ts";
import type { Effect } from "../protocol/effect.ts";
import type { LogEntry } from "../protocol/event.ts";
import type { AgentId, ConnectionId, EffectId, FloorId, FloorSeq, MessageId, Seq, SessionId } from "../protocol/ids.ts";
import type { LogLine, Message, MessageStatus } from "../protocol/message.ts";
import type { Session, SessionState } from "../protocol/session.ts";

/**
 * Memory: the truth behind everything that was acknowledged. One implementation per database, one contract suite for
 * all. A method that cannot reach the database, or may not write to it, throws `AppError("unavailable")`.
 */
export interface Store {
  /** Names this store in positions; changes when it is made anew. At most 6 of a-z 0-9. */
  readonly epoch: string;
  /** Random bytes made with the store: ids derived with them cannot be guessed (rule C3). */
  readonly secret: string;

  // Floors: what the host writes.

  loadFloor(id: FloorId): Promise<FloorRecord | undefined>;
  /**
   * Commit a floor's change: all of it, durably, or nothing. `conflict`: the floor's version is not the expected one,
   * or a key of the change (session, message, receipt) is taken. Changes of several floors may share a transaction;
   * none fails by another's fault (rule C5).
   */
  commit(change: FloorChange): Promise<"committed" | "conflict">;
  /** Whether a floor still has this version (rule C1). A store that has its data to itself need not look. */
  confirm(id: FloorId, version: number): Promise<boolean>;
  /** The row of a session, with what its machine remembers. */
  loadSession(id: SessionId): Promise<SessionRow | undefined>;
  /** The messages of a floor that are still being written, with the text they have so far. */
  loadDrafts(id: FloorId): Promise<Message[]>;
  findMessage(sessionId: SessionId, id: MessageId): Promise<Message | undefined>;
  /** Receipts that are there for these keys, in no order. */
  findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]>;
  /** Effects that are due, by `dueAt` and id. */
  dueEffects(query: DueQuery): Promise<Effect[]>;
  /** When the newest event was logged, ms since 1970; 0 for a new store. A clock that starts before it is wrong. */
  newestTime(): Promise<number>;
  /** Move every effect's `dueAt` by so many ms: the wall clock jumped (rule C9). */
  shiftEffects(byMs: number): Promise<void>;

  // What answers and streams read. Each is one consistent view: `head` and the rest belong together.

  whereIs(id: SessionId): Promise<Whereabouts | undefined>;
  /** With its newest `messages`, oldest first. */
  viewSession(id: SessionId, messages: number): Promise<SessionView | undefined>;
  viewFloor(id: FloorId, limits: { sessions: number; decisions: number }): Promise<FloorView>;
  listSessions(query: SessionQuery): Promise<SessionPage>;
  /** Oldest first; with neither `after` nor `before` the newest. Undefined without such a session. */
  listMessages(id: SessionId, range: MessageRange): Promise<MessagePage | undefined>;
  listLogs(id: SessionId, messageId: MessageId, range: { after?: string; limit: number }): Promise<LogPage>;
  /** Events of a session's log after a place, in order. Undefined without such a session. */
  readSessionLog(id: SessionId, after: Seq, limit: number): Promise<LogSlice | undefined>;
  /** Events of a floor's log after a place, in order. A floor nobody has used yet has an empty log. */
  readFloorLog(id: FloorId, after: FloorSeq, limit: number): Promise<LogSlice>;
  /** Where each floor's log stands: one query, however many. Floors without a row are left out. */
  heads(ids: readonly FloorId[]): Promise<Map<FloorId, FloorSeq>>;

  // Connections (rule C19) and blobs (rule C22): what a gateway writes.

  loadConnection(id: ConnectionId): Promise<ConnectionRow | undefined>;
  /** Compare-and-set on `version` (0: there must be none); the row is kept with `version + 1`. */
  saveConnection(row: ConnectionRow): Promise<"saved" | "conflict">;
  putBlob(sessionId: SessionId, blob: Blob): Promise<void>;
  getBlob(sessionId: SessionId, hash: string): Promise<Blob | undefined>;

  /** Forget what is past its time, a bounded piece at a time; true while there is more. */
  prune(limits: PruneLimits): Promise<boolean>;
  close(): Promise<void>;
}

export interface FloorRecord {
  version: number;
  /** Where the floor's log stands. */
  head: FloorSeq;
  /** Written and read by the host alone. */
  snapshot: string;
  format: number;
}

/** A floor's whole change. What it does not name stays as it is. */
export interface FloorChange {
  floorId: FloorId;
  /** The version it was made from; 0 for a floor without a row. Committed as `expected + 1`. */
  expected: number;
  /** Ids that it takes to be nobody's: a session with one of them, or the tombstone of one, is a conflict. */
  free: SessionId[];
  snapshot: string;
  format: number;
  /** The floor's log after the change. */
  head: FloorSeq;
  flags: Record<string, boolean>;
  /** Put whole: as they are after the change. */
  sessions: SessionRow[];
  messages: MessageWrite[];
  logs: LogRow[];
  events: LogEntry[];
  effectsAdded: Effect[];
  effectsRemoved: EffectId[];
  receipts: Receipt[];
  deleted: DeletedSession[];
}

export interface SessionRow {
  session: Session;
  /** What its machine remembers beside what answers show, as JSON. */
  memory: string;
  /** Where its log stands. */
  head: Seq;
}

export type MessageWrite =
  /** A new message; its id being taken is a conflict. */
  | { kind: "add"; message: Message }
  /** A message that is there, put whole. */
  | { kind: "put"; message: Message }
  | { kind: "append"; sessionId: SessionId; id: MessageId; text: string }
  | { kind: "status"; sessionId: SessionId; id: MessageId; status: MessageStatus }
  | { kind: "remove"; sessionId: SessionId; id: MessageId };

export interface LogRow {
  sessionId: SessionId;
  messageId: MessageId;
  line: LogLine;
}

export interface ReceiptKey {
  caller: string;
  commandId: string;
}

/** The recorded outcome of a command. The key is unique over all floors (rule C2). */
export interface Receipt extends ReceiptKey {
  floorId: FloorId;
  bodyHash: string;
  /** The reply, as JSON. */
  reply: string;
  at: number;
}

/** A session that is gone: its rows go, a tombstone stays for late readers (rule C20). */
export interface DeletedSession {
  sessionId: SessionId;
  /** Its last event; the session's head is that event's `seq`. */
  last: LogEntry;
  at: number;
}

export interface DueQuery {
  /** Due at or before it. */
  until: number;
  /** Those that come after this one. */
  after?: Pick<Effect, "id" | "dueAt"> | undefined;
  /** Those of floors in these partitions (rule C8); undefined: all. */
  partitions?: readonly number[] | undefined;
  limit: number;
}

export interface Whereabouts {
  floorId: FloorId;
  ownerId?: string | undefined;
  /** There when the session is deleted, for a day. */
  tombstone?: { head: Seq; last: LogEntry } | undefined;
}

export interface SessionView {
  session: Session;
  head: Seq;
  messages: Message[];
  hasMore: boolean;
}

export interface FloorView {
  head: FloorSeq;
  flags: Record<string, boolean>;
  holder?: Session | undefined;
  /** The one paused last comes first. */
  paused: Session[];
  /** The one that has waited longest comes first. */
  queued: Session[];
  /** The newest last. */
  decisions: Decision[];
}

export interface SessionQuery {
  page: number;
  pageSize: number;
  /** Words in titles, summaries and messages, or a session's id. */
  q?: string | undefined;
  state?: SessionState | undefined;
  agentId?: AgentId | undefined;
  userId?: string | undefined;
  workspaceId?: string | undefined;
  ownerId?: string | undefined;
  includeArchived: boolean;
}

export interface SessionPage {
  /** Newest activity first. */
  sessions: Session[];
  total: number;
}

export interface MessageRange {
  after?: MessageId | undefined;
  before?: MessageId | undefined;
  limit: number;
}

export interface MessagePage {
  messages: Message[];
  hasMore: boolean;
  /** Where the session's log stands. */
  head: Seq;
}

export interface LogPage {
  logs: LogLine[];
  hasMore: boolean;
}

export interface LogSlice {
  entries: LogEntry[];
  /** Where the log stands. */
  head: number;
  /** Events at or below are pruned: reading from before it has a hole. */
  lowWater: number;
}

/** Which sessions a client's connection is bound to. */
export interface ConnectionRow {
  id: ConnectionId;
  ownerId?: string | undefined;
  /** Where sessions made through it belong, unless they say otherwise. */
  userId?: string | undefined;
  zone?: string | undefined;
  /** Appended, never reordered or reused: positions name them by index. */
  slots: Slot[];
  /** ms since 1970; the row goes then. */
  expiresAt: number;
  version: number;
}

export interface Slot {
  sessionId: SessionId;
  floorId: FloorId;
  /** The place its events start after. */
  from: Seq;
  /** Its last event was sent: the slot is free, and no position names it. */
  ended?: true | undefined;
}

export interface Blob {
  /** SHA-256 of the bytes, in hex. */
  hash: string;
  mimeType: string;
  bytes: Uint8Array;
  createdAt: number;
}

export interface PruneLimits {
  now: number;
  /** Events of archived sessions that are older go; undefined keeps everything. */
  eventsBefore?: number | undefined;
  /** Receipts and tombstones that are older go. */
  receiptsBefore: number;
  /** At most so many rows of each kind. */
  limit: number;
}
