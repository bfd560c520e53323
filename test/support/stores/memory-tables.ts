import type { LogEntry } from "../../../src/protocol/event.ts";
import type { ConnectionId, EffectId, FloorId, MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { Effect } from "../../../src/protocol/internal/effect.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type {
  ConnectionRow,
  DeletedSession,
  FloorChange,
  FloorRecord,
  MessageWrite,
  Receipt,
  ReceiptKey,
  SessionRow,
  Whereabouts,
} from "../../../src/store/store.ts";

export const receiptKey = ({ caller, commandId }: ReceiptKey): string => `${caller}\n${commandId}`;
const sessionOf = (write: MessageWrite): SessionId => ("message" in write ? write.message.sessionId : write.sessionId);
const idOf = (write: MessageWrite): MessageId => ("message" in write ? write.message.id : write.id);
const keyOf = (write: MessageWrite): string => `${sessionOf(write)}/${idOf(write)}`;

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
export class MemoryTables {
  readonly floors = new Map<FloorId, StoredFloor>();
  readonly sessions = new Map<SessionId, StoredSession>();
  /** What is kept of deleted sessions. */
  readonly tombstones = new Map<SessionId, Whereabouts & { floorId: FloorId }>();
  readonly effects = new Map<EffectId, Effect>();
  readonly receipts = new Map<string, Receipt>();
  readonly connections = new Map<ConnectionId, ConnectionRow>();
  readonly #draftKeys = new Map<string, number>();

  /** A draft's place among all, which does not change when others finish. */
  draftKey({ sessionId, id }: Message): number {
    const name = `${sessionId} ${id}`;
    const key = this.#draftKeys.get(name) ?? this.#draftKeys.size + 1;
    this.#draftKeys.set(name, key);
    return key;
  }

  /** Whether a change contains ids that exist already, or that belong to another floor. */
  isTaken({ newIds, receipts, sessions, messages, floorId }: FloorChange): boolean {
    const keys = new Set(receipts.map(receiptKey));
    if (keys.size < receipts.length || receipts.some((receipt) => this.receipts.has(receiptKey(receipt)))) return true;
    const isElsewhere = ({ session }: SessionRow) => {
      const stored = this.sessions.get(session.id);
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
    const brought = new Set(sessions.map(({ session }) => session.id));
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
      needSession(sessionOf(write));
      if (write.kind === "put" || write.kind === "append") needMessage(sessionOf(write), idOf(write));
    }
    for (const { sessionId, messageId } of logs) needMessage(sessionId, messageId);
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
    for (const id of change.effectsRemoved) this.effects.delete(id);
    for (const effect of change.effectsAdded) this.effects.set(effect.id, effect);
    for (const receipt of change.receipts) this.receipts.set(receiptKey(receipt), receipt);
    for (const deleted of change.deleted) this.#delete(deleted, floorId);
  }

  #putSession(row: SessionRow, floorId: FloorId): void {
    const stored = this.sessions.get(row.session.id);
    if (stored) stored.row = row;
    else this.sessions.set(row.session.id, { row, floorId, messages: new Map(), events: [] });
  }

  #writeMessage(write: MessageWrite): void {
    const { messages } = this.sessions.get(sessionOf(write))!;
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
