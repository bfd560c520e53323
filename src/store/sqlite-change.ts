import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Effect } from "../protocol/effect.ts";
import type { SessionId } from "../protocol/ids.ts";
import { partitionOf } from "../protocol/partition.ts";
import { newsOf } from "./rows.ts";
import { EventWriter, textsOf } from "./sqlite-events.ts";
import type { Outcome } from "./sqlite-job.ts";
import { MessageWriter } from "./sqlite-messages.ts";
import { type SessionStanding, SessionWriter } from "./sqlite-sessions.ts";
import { WordIndex } from "./sqlite-words.ts";
import type { FloorChange, MessageWrite } from "./store.ts";

/** The keys of the sessions a change writes to. */
type SessionKeys = (id: SessionId) => number;

/** Writes a floor's change, inside the transaction that is open. */
export class ChangeWriter {
  readonly #sessions: SessionWriter;
  readonly #messages: MessageWriter;
  readonly #events: EventWriter;
  readonly #findFloor: StatementSync;
  readonly #addFloor: StatementSync;
  readonly #putFloor: StatementSync;
  readonly #hasReceipt: StatementSync;
  readonly #hasTombstone: StatementSync;
  readonly #addReceipt: StatementSync;
  readonly #addEffect: StatementSync;
  readonly #removeEffect: StatementSync;

  constructor(db: DatabaseSync) {
    const words = new WordIndex(db);
    this.#sessions = new SessionWriter(db, words);
    this.#events = new EventWriter(db);
    this.#messages = new MessageWriter(db, words, this.#events);
    this.#findFloor = db.prepare("SELECT floor_key AS key, version FROM floors WHERE id = ?");
    this.#addFloor = db.prepare(
      "INSERT INTO floors (version, head, format, flags, snapshot, id) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#putFloor = db.prepare(
      "UPDATE floors SET version = ?, head = ?, format = ?, flags = ?, snapshot = ? WHERE floor_key = ?",
    );
    this.#hasReceipt = db.prepare("SELECT 1 FROM receipts WHERE caller = ? AND command_id = ?");
    this.#hasTombstone = db.prepare("SELECT 1 FROM tombstones WHERE session_id = ?");
    this.#addReceipt = db.prepare(
      "INSERT INTO receipts (caller, command_id, floor_key, body_hash, at, reply) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#addEffect = db.prepare(
      "INSERT INTO effects (id, partition, floor_key, kind, due_at, payload) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#removeEffect = db.prepare("DELETE FROM effects WHERE id = ?");
  }

  /**
   * A conflict is found before the first row is written, so it leaves nothing to take back.
   * @throws when a key is taken twice in the change itself, or the change names what is not there
   */
  write(change: FloorChange): Outcome {
    const floor = this.#findFloor.get(change.floorId) as { key: number; version: number } | undefined;
    if ((floor?.version ?? 0) !== change.expected) return "conflict";
    const standings = new Map(change.sessions.map(({ session: { id } }) => [id, this.#sessions.find(id)]));
    if (this.#isTaken(change, floor?.key, standings)) return "conflict";

    const floorKey = this.#writeFloor(change, floor?.key);
    const sessionKeys = this.#writeSessions(change, standings, floorKey);
    for (const write of change.messages) {
      this.#messages.write(sessionKeys(sessionOf(write)), floorKey, write);
    }
    for (const log of change.logs) this.#messages.addLog(sessionKeys(log.sessionId), log);
    this.#writeEvents(change, floorKey, sessionKeys);
    for (const id of change.effectsRemoved) this.#removeEffect.run(id);
    for (const effect of change.effectsAdded) this.#writeEffect(effect, floorKey);
    for (const { caller, commandId, bodyHash, at, reply } of change.receipts) {
      this.#addReceipt.run(caller, commandId, floorKey, bodyHash, at, reply);
    }
    for (const deleted of change.deleted) this.#sessions.remove(deleted, floorKey);
    return "done";
  }

  #isTaken(
    { free, receipts, messages }: FloorChange,
    floorKey: number | undefined,
    standings: ReadonlyMap<SessionId, SessionStanding | undefined>,
  ): boolean {
    if (receipts.some(({ caller, commandId }) => this.#hasReceipt.get(caller, commandId))) return true;
    if (free.some((id) => this.#sessions.find(id) || this.#hasTombstone.get(id))) return true;
    if (standings.values().some((standing) => standing && standing.floorKey !== floorKey)) return true;
    return messages.some((write) => {
      if (write.kind !== "add") return false;
      const { sessionId, id } = write.message;
      const session = standings.get(sessionId) ?? this.#sessions.find(sessionId);
      return session !== undefined && this.#messages.keyOf(session.key, id) !== undefined;
    });
  }

  #writeFloor(change: FloorChange, key: number | undefined): number {
    const { expected, head, format, flags, snapshot, floorId } = change;
    const values = [expected + 1, head, format, JSON.stringify(flags), snapshot];
    if (key === undefined) return Number(this.#addFloor.run(...values, floorId).lastInsertRowid);
    this.#putFloor.run(...values, key);
    return key;
  }

  #writeSessions(
    { sessions, events }: FloorChange,
    standings: ReadonlyMap<SessionId, SessionStanding | undefined>,
    floorKey: number,
  ): SessionKeys {
    const keys = new Map<SessionId, number>();
    const news = newsOf(events);
    for (const row of sessions) {
      const { id } = row.session;
      keys.set(id, this.#sessions.put(row, standings.get(id), floorKey, news.get(id)));
    }
    return (id) => {
      const known = keys.get(id);
      if (known !== undefined) return known;
      const standing = this.#sessions.find(id);
      if (standing?.floorKey !== floorKey) throw new Error(`there is no session ${id} on this floor`);
      keys.set(id, standing.key);
      return standing.key;
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

  #writeEffect({ id, floorId, kind, dueAt, ...payload }: Effect, floorKey: number): void {
    this.#addEffect.run(id, partitionOf(floorId), floorKey, kind, dueAt, JSON.stringify(payload));
  }
}

const sessionOf = (write: MessageWrite): SessionId => ("message" in write ? write.message.sessionId : write.sessionId);
