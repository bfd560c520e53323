import type { DatabaseSync, StatementSync } from "node:sqlite";
import { prepareQuery, type Query } from "../query.ts";
import type { KnownRows } from "./known-rows.ts";

/** A block is 32 numbers of a floor's log: `floor_seq >> 5` on its floor, `event_key >> 5` in the database. */
const BLOCK_BITS = 5;

/** SQL: whether an event's key is in a block. */
export const isInBlock = (key: string, block: string): string =>
  `${key} BETWEEN ${block} << ${BLOCK_BITS} AND ${block} << ${BLOCK_BITS} | ${2 ** BLOCK_BITS - 1}`;

/** A `floorSeq` beyond that of any event. */
export const AFTER_ALL = Number.MAX_SAFE_INTEGER - 1;

/**
 * Keeps which blocks of a floor's log hold events of a session, and which hold decisions. It is a sparse index: a
 * reader finds the blocks by it and looks through their events, 32 at most in each. An index entry for each event would
 * make nearly every commit write one more page of the database.
 */
export class LogBlocks {
  readonly #known: KnownRows;
  readonly #lastOf: Query<{ block: number }>;
  readonly #add: StatementSync;
  readonly #addDecisions: StatementSync;
  readonly #removeEvents: StatementSync;
  readonly #removeDecisions: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync, known: KnownRows) {
    this.#known = known;
    this.#lastOf = prepareQuery(
      db,
      `
      SELECT block & 0x7ffffff AS block FROM session_blocks WHERE session_key = ? ORDER BY seq DESC LIMIT 1`,
    );
    this.#add = db.prepare("INSERT INTO session_blocks (session_key, seq, block) VALUES (?, ?, ? << 27 | ?)");
    this.#addDecisions = db.prepare("INSERT INTO decision_blocks (block) VALUES (? << 27 | ?) ON CONFLICT DO NOTHING");
    this.#removeEvents = db.prepare(`
      DELETE FROM events WHERE event_key IN (
        SELECT e.event_key FROM session_blocks b CROSS JOIN events e
        WHERE b.session_key = ?1 AND b.seq <= ?2 AND ${isInBlock("e.event_key", "b.block")}
          AND +e.session_key = ?1 AND e.seq <= ?2)`);
    this.#removeDecisions = db.prepare(`
      DELETE FROM decision_blocks
      WHERE block IN (SELECT block FROM session_blocks WHERE session_key = ? AND seq <= ?)
        AND NOT EXISTS (
          SELECT 1 FROM events WHERE ${isInBlock("event_key", "block")} AND +type = 'arbitration')`);
    // The last of them may hold later events too.
    this.#remove = db.prepare(`
      DELETE FROM session_blocks WHERE session_key = ?1
        AND seq < (SELECT max(seq) FROM session_blocks WHERE session_key = ?1 AND seq <= ?2 + 1)`);
  }

  /** Call it for each event of a session. */
  noteEvent(floorKey: number, floorSeq: number, sessionKey: number, seq: number): void {
    const block = floorSeq >>> BLOCK_BITS;
    const last = this.#known.sessionBlocks.get(sessionKey) ?? this.#lastOf.get(sessionKey)?.block;
    if (last !== block) this.#add.run(sessionKey, seq, floorKey, block);
    this.#known.sessionBlocks.set(sessionKey, block);
  }

  /** Call it for each decision. */
  noteDecision(floorKey: number, floorSeq: number): void {
    const block = floorSeq >>> BLOCK_BITS;
    if (this.#known.decisionBlocks.get(floorKey) !== block) this.#addDecisions.run(floorKey, block);
    this.#known.decisionBlocks.set(floorKey, block);
  }

  /** Delete a session's events up to a `seq`. */
  removeEvents(floorKey: number, sessionKey: number, upTo: number): void {
    this.#removeEvents.run(sessionKey, upTo);
    this.#removeDecisions.run(sessionKey, upTo);
    this.#remove.run(sessionKey, upTo);
    this.#known.sessionBlocks.delete(sessionKey);
    this.#known.decisionBlocks.delete(floorKey);
  }
}
