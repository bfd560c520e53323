import type { DatabaseSync, StatementSync } from "node:sqlite";
import { BLOB_GRACE_MS, BLOB_UNUSED_MS } from "../../retention.ts";
import type { PruneLimits } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import { isInBlock, type LogBlocks } from "./log-blocks.ts";
import type { StagedWriter } from "./staged-writer.ts";
import type { UsageWriter } from "./usage-writer.ts";

interface PrunableSession {
  key: number;
  floorKey: number;
}

interface PrunableEvent {
  seq: number;
  floorSeq: number;
  at: number;
}

/** Deletes expired rows, inside the open transaction. */
export class Pruner {
  readonly #staged: StagedWriter;
  readonly #blocks: LogBlocks;
  readonly #receipts: StatementSync;
  readonly #tombstones: StatementSync;
  readonly #connections: StatementSync;
  readonly #blobs: StatementSync;
  readonly #usage: UsageWriter;
  readonly #oldestSession: Query<PrunableSession>;
  readonly #prunableEvents: Query<PrunableEvent>;
  readonly #setSession: StatementSync;
  readonly #setFloor: StatementSync;

  constructor(db: DatabaseSync, staged: StagedWriter, usage: UsageWriter, blocks: LogBlocks) {
    this.#staged = staged;
    this.#usage = usage;
    this.#blocks = blocks;
    this.#receipts = db.prepare(`
      DELETE FROM receipts WHERE receipt_key IN
        (SELECT receipt_key FROM (SELECT receipt_key, at FROM receipts ORDER BY receipt_key LIMIT ?2) WHERE at < ?1)`);
    this.#tombstones = db.prepare(`
      DELETE FROM tombstones WHERE session_id IN
        (SELECT session_id FROM tombstones WHERE deleted_at < ? ORDER BY deleted_at LIMIT ?)`);
    this.#connections = db.prepare(`
      DELETE FROM connections WHERE id IN
        (SELECT id FROM connections WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`);
    this.#blobs = db.prepare(`
      DELETE FROM blobs WHERE blob_key IN (
        SELECT blob_key FROM blobs
        WHERE uses = 0 AND created_at < ?
          AND (created_at < ? OR NOT EXISTS (SELECT 1 FROM sessions WHERE id = blobs.session_id))
        ORDER BY created_at LIMIT ?)`);
    this.#oldestSession = prepareQuery(
      db,
      `
      SELECT session_key AS key, floor_key AS floorKey FROM sessions
      WHERE state = 'archived' AND oldest_at IS NOT NULL AND oldest_at < ? ORDER BY oldest_at LIMIT 1`,
    );
    this.#prunableEvents = prepareQuery(
      db,
      `
      SELECT e.seq, e.event_key & 0xffffffff AS floorSeq, e.at FROM session_blocks b CROSS JOIN events e
      WHERE b.session_key = ?1 AND ${isInBlock("e.event_key", "b.block")} AND +e.session_key = ?1
      ORDER BY b.seq, e.event_key LIMIT ?2`,
    );
    this.#setSession = db.prepare(
      "UPDATE sessions SET low_water = max(low_water, ?), oldest_at = ? WHERE session_key = ?",
    );
    this.#setFloor = db.prepare("UPDATE floors SET low_water = max(low_water, ?) WHERE floor_key = ?");
  }

  /** True while more may remain. */
  prune({ now, eventsBefore, receiptsBefore, stagedBefore, usage, limit }: PruneLimits): boolean {
    const deleted = [
      this.#receipts.run(receiptsBefore, limit).changes,
      this.#tombstones.run(receiptsBefore, limit).changes,
      this.#connections.run(now, limit).changes,
      this.#blobs.run(now - BLOB_GRACE_MS, now - BLOB_UNUSED_MS, limit).changes,
      stagedBefore === undefined ? 0 : this.#staged.prune(stagedBefore, limit),
      eventsBefore === undefined ? 0 : this.#pruneEvents(eventsBefore, limit),
      usage === undefined ? 0 : this.#usage.prune(usage, limit),
    ];
    return deleted.some((count) => Number(count) >= limit);
  }

  /** Returns the number of rows touched. */
  #pruneEvents(before: number, limit: number): number {
    let touched = 0;
    while (touched < limit) {
      const session = this.#oldestSession.get(before);
      if (!session) break;
      touched += this.#pruneLog(session, before, limit - touched);
    }
    return touched;
  }

  #pruneLog({ key, floorKey }: PrunableSession, before: number, limit: number): number {
    const events = this.#prunableEvents.all(key, limit + 1);
    const kept = events.findIndex(({ at }, index) => at >= before || index === limit);
    const count = kept === -1 ? events.length : kept;
    const last = events[count - 1];
    // Raise the low-water mark first, so that a reader from before it learns of the gap.
    this.#setSession.run(last?.seq ?? 0, events[count]?.at ?? null, key);
    if (last) {
      this.#setFloor.run(last.floorSeq, floorKey);
      this.#blocks.removeEvents(floorKey, key, last.seq);
    }
    return Math.max(count, 1);
  }
}
