import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { FloorId, SessionId } from "../../../protocol/ids.ts";
import { floorHash } from "../../../protocol/internal/floor-hash.ts";
import type { AdoptedHistory, MessageWrite } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import {
  EVENT_WIDTH,
  type FlatChange,
  RECEIPT_WIDTH,
  type Rest,
  SESSION_WIDTH,
  type Value,
} from "../writer/flat-change.ts";
import type { WriteOutcome } from "../writer/writer-job.ts";
import { EventWriter, textsOf } from "./event-writer.ts";
import type { KnownFloor, KnownRows, KnownSession } from "./known-rows.ts";
import type { LogBlocks } from "./log-blocks.ts";
import { MessageRowWriter } from "./message-row-writer.ts";
import { SessionWriter } from "./session-writer.ts";
import { StagedWriter } from "./staged-writer.ts";
import { WordIndex } from "./word-index.ts";

/** The keys of the sessions that a change writes to. */
type SessionKeys = (id: SessionId) => number;
type Standings = ReadonlyMap<SessionId, KnownSession | undefined>;

const NO_MESSAGES: readonly MessageWrite[] = [];
const NO_HISTORIES: readonly AdoptedHistory[] = [];

/** Writes a floor's change, inside the open transaction. */
export class ChangeWriter {
  readonly staged: StagedWriter;
  readonly #known: KnownRows;
  readonly #sessions: SessionWriter;
  readonly #messages: MessageRowWriter;
  readonly #events: EventWriter;
  readonly #findFloor: Query<KnownFloor>;
  readonly #addFloor: StatementSync;
  readonly #putFloor: StatementSync;
  readonly #hasReceipt: StatementSync;
  readonly #hasTombstone: StatementSync;
  readonly #addReceipt: StatementSync;
  readonly #removeReceipt: StatementSync;
  readonly #addEffect: StatementSync;
  readonly #removeEffect: StatementSync;

  constructor(db: DatabaseSync, known: KnownRows, blocks: LogBlocks) {
    const words = new WordIndex(db);
    this.#known = known;
    this.#sessions = new SessionWriter(db, words, known, blocks);
    this.#events = new EventWriter(db, blocks);
    this.#messages = new MessageRowWriter(db, words, this.#events);
    this.staged = new StagedWriter(db, this.#messages);
    this.#findFloor = prepareQuery(db, "SELECT floor_key AS key, version FROM floors WHERE id = ?");
    this.#addFloor = db.prepare(
      "INSERT INTO floors (version, head, format, flags, reserved, snapshot, alarm, id, partition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    );
    this.#putFloor = db.prepare(`
      UPDATE floors SET version = ?, head = ?, format = ?, flags = ?, reserved = ?, snapshot = ?, alarm = ?
      WHERE floor_key = ? AND version = ?`);
    this.#hasReceipt = db.prepare("SELECT 1 FROM receipts WHERE caller = ? AND command_id = ?");
    this.#hasTombstone = db.prepare("SELECT 1 FROM tombstones WHERE session_id = ?");
    this.#addReceipt = db.prepare(`
      INSERT INTO receipts (caller, command_id, floor_key, body_hash, at, reply) VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`);
    this.#removeReceipt = db.prepare("DELETE FROM receipts WHERE caller = ? AND command_id = ?");
    this.#addEffect = db.prepare(
      "INSERT INTO effects (id, partition, floor_key, due_at, payload) VALUES (?, ?, ?, ?, ?)",
    );
    this.#removeEffect = db.prepare("DELETE FROM effects WHERE id = ?");
  }

  /**
   * Write the change. A conflict writes nothing.
   * @throws Error if a key occurs twice in the change, or the change refers to a missing row
   */
  write(change: FlatChange): WriteOutcome {
    const [floorId, expected, , , , , , , newIds, sessions, events, , rest] = change;
    const floor = this.#known.floors.get(floorId) ?? this.#findFloor.get(floorId);
    if ((floor?.version ?? 0) !== expected) return this.#conflict(floorId);
    const adopted = rest?.adopted ?? NO_HISTORIES;
    if (!adopted.every((history) => this.staged.isThere(history))) return "conflict";
    let standings = this.#find(sessions);
    const messages = rest?.messages ?? NO_MESSAGES;
    if (this.#isTaken(newIds, messages, floor?.key, standings)) return "conflict";
    const floorKey = floor ? this.#continueFloor(change, floor) : this.#beginFloor(change);
    if (floorKey === undefined) return this.#conflict(floorId);

    for (const history of adopted) this.staged.adopt(history, floorKey);
    if (adopted.length > 0) standings = this.#find(sessions);
    const sessionKeys = this.#writeSessions(sessions, standings, floorKey);
    for (const write of messages) this.#messages.write(sessionKeys(sessionOf(write)), floorKey, write);
    for (const log of rest?.logs ?? []) this.#messages.addLog(sessionKeys(log.sessionId), log);
    this.#writeEvents(events, messages, floorKey, sessionKeys);
    if (rest) this.#writeEnds(rest, floorKey);
    return "done";
  }

  /** Read the floor again, because the remembered version may be out of date. */
  #conflict(floorId: string): "conflict" {
    this.#known.floors.delete(floorId);
    return "conflict";
  }

  #find(sessions: readonly Value[]): Standings {
    const standings = new Map<SessionId, KnownSession | undefined>();
    for (let from = 0; from < sessions.length; from += SESSION_WIDTH) {
      const id = sessions[from] as SessionId;
      standings.set(id, this.#sessions.find(id));
    }
    return standings;
  }

  #isTaken(
    newIds: readonly SessionId[],
    messages: readonly MessageWrite[],
    floorKey: number | undefined,
    standings: Standings,
  ): boolean {
    if (newIds.some((id) => this.#sessions.find(id) || this.#hasTombstone.get(id))) return true;
    for (const standing of standings.values()) if (standing && standing.floorKey !== floorKey) return true;
    return messages.some((write) => {
      if (write.kind !== "add") return false;
      const { sessionId, id } = write.message;
      const session = standings.get(sessionId) ?? this.#sessions.find(sessionId);
      return session !== undefined && this.#messages.keyOf(session.key, id) !== undefined;
    });
  }

  /**
   * Insert a new floor's row and return its key; undefined if a receipt's key exists. The row is never removed, so
   * receipts are checked first.
   */
  #beginFloor(change: FlatChange): number | undefined {
    const [floorId, expected, head, format, flags, reserved, snapshot, alarm, , , , receipts] = change;
    const keys = new Set<string>();
    for (let from = 0; from < receipts.length; from += RECEIPT_WIDTH) {
      const [caller, commandId] = receipts.slice(from, from + 2);
      if (this.#hasReceipt.get(caller!, commandId!)) return undefined;
      keys.add(`${caller}\n${commandId}`);
    }
    if (keys.size * RECEIPT_WIDTH < receipts.length) return undefined;
    const version = expected + 1;
    const partition = floorHash(floorId as FloorId);
    const row = [version, head, format, flags, reserved, snapshot, alarm, floorId, partition];
    const { lastInsertRowid } = this.#addFloor.run(...row);
    const key = Number(lastInsertRowid);
    this.#addReceipts(receipts, key);
    this.#known.floors.set(floorId, { key, version });
    return key;
  }

  /** The same for an existing floor. The update compares the version once more. */
  #continueFloor(change: FlatChange, { key }: KnownFloor): number | undefined {
    const [floorId, expected, head, format, flags, reserved, snapshot, alarm, , , , receipts] = change;
    if (!this.#addReceipts(receipts, key)) return undefined;
    const version = expected + 1;
    const row = [version, head, format, flags, reserved, snapshot, alarm];
    if (this.#putFloor.run(...row, key, expected).changes === 0) {
      this.#removeReceipts(receipts, receipts.length);
      return undefined;
    }
    this.#known.floors.set(floorId, { key, version });
    return key;
  }

  /** Add all receipts, or none if one key exists. */
  #addReceipts(receipts: readonly Value[], floorKey: number): boolean {
    for (let from = 0; from < receipts.length; from += RECEIPT_WIDTH) {
      const [caller, commandId, bodyHash, at, reply] = receipts.slice(from, from + RECEIPT_WIDTH);
      if (this.#addReceipt.run(caller!, commandId!, floorKey, bodyHash!, at!, reply!).changes === 1) continue;
      this.#removeReceipts(receipts, from);
      return false;
    }
    return true;
  }

  #removeReceipts(receipts: readonly Value[], until: number): void {
    for (let from = 0; from < until; from += RECEIPT_WIDTH) {
      this.#removeReceipt.run(receipts[from]!, receipts[from + 1]!);
    }
  }

  #writeSessions(sessions: readonly Value[], standings: Standings, floorKey: number): SessionKeys {
    const keys = new Map<SessionId, number>();
    for (let from = 0; from < sessions.length; from += SESSION_WIDTH) {
      const id = sessions[from] as SessionId;
      keys.set(id, this.#sessions.put(sessions, from, standings.get(id), floorKey));
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

  #writeEvents(
    events: readonly Value[],
    messages: readonly MessageWrite[],
    floorKey: number,
    sessionKeys: SessionKeys,
  ): void {
    const texts = textsOf(messages, (sessionId, id) => this.#messages.keyOf(sessionKeys(sessionId), id)!);
    for (let from = 0; from < events.length; from += EVENT_WIDTH) {
      const sessionId = events[from + 1] as SessionId | null;
      if (sessionId === null) this.#events.add(events, from, floorKey, null, []);
      else this.#events.add(events, from, floorKey, sessionKeys(sessionId), texts.get(sessionId) ?? []);
    }
  }

  /** What no other row of the change needs: effects and deleted sessions. */
  #writeEnds({ effectsRemoved, effectsAdded, deleted }: Rest, floorKey: number): void {
    for (const id of effectsRemoved) this.#removeEffect.run(id);
    for (const { id, floorId, kind: _, dueAt, ...payload } of effectsAdded) {
      this.#addEffect.run(id, floorHash(floorId as FloorId), floorKey, dueAt, JSON.stringify(payload));
    }
    for (const each of deleted) this.#sessions.remove(each, floorKey);
  }
}

const sessionOf = (write: MessageWrite): SessionId => ("message" in write ? write.message.sessionId : write.sessionId);
