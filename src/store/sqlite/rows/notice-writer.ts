import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { SessionId } from "../../../protocol/ids.ts";
import type { WebhookNotice } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";
import type { Job } from "../writer/writer-job.ts";

type JobOf<Kind extends Job["kind"]> = Extract<Job, { kind: Kind }>;

/** Writes the outbox of webhooks: lanes, and their notices. */
export class NoticeWriter {
  readonly #addLane: Query<{ key: number }>;
  readonly #addNotice: StatementSync;
  readonly #removeLanes: StatementSync;
  readonly #claim: StatementSync;
  readonly #claimOf: Query<{ claim: string | null }>;
  readonly #postpone: StatementSync;
  readonly #removeNotice: StatementSync;
  readonly #hasNotice: StatementSync;
  readonly #continueLane: StatementSync;
  readonly #removeLane: StatementSync;
  readonly #dropNotices: Query<{ laneKey: number }>;
  readonly #restartLane: StatementSync;
  readonly #disable: StatementSync;
  readonly #enable: StatementSync;

  constructor(db: DatabaseSync) {
    this.#addLane = prepareQuery(
      db,
      `
      INSERT INTO webhook_lanes (subject, hook, floor_key, due_at) VALUES (?, ?, ?, ?)
      ON CONFLICT (subject, hook) DO UPDATE SET floor_key = excluded.floor_key RETURNING lane_key AS key`,
    );
    this.#addNotice = db.prepare("INSERT INTO webhook_notices (lane_key, id, added_at, payload) VALUES (?, ?, ?, ?)");
    this.#removeLanes = db.prepare("DELETE FROM webhook_lanes WHERE subject = ?");
    this.#claim = db.prepare(`
      UPDATE webhook_lanes SET due_at = ?, claim = ? WHERE lane_key IN (
        SELECT lane_key FROM webhook_lanes WHERE hook = ? AND due_at <= ? ORDER BY due_at LIMIT ?)`);
    this.#claimOf = prepareQuery(db, "SELECT claim FROM webhook_lanes WHERE lane_key = ?");
    this.#postpone = db.prepare(`
      UPDATE webhook_lanes SET due_at = ?, claim = NULL, failures = ?, reason = ? WHERE lane_key = ? AND claim = ?`);
    this.#removeNotice = db.prepare("DELETE FROM webhook_notices WHERE lane_key = ? AND id = ?");
    this.#hasNotice = db.prepare("SELECT 1 FROM webhook_notices WHERE lane_key = ? LIMIT 1");
    this.#continueLane = db.prepare(
      "UPDATE webhook_lanes SET due_at = ?, claim = NULL, failures = 0, reason = NULL WHERE lane_key = ?",
    );
    this.#removeLane = db.prepare("DELETE FROM webhook_lanes WHERE lane_key = ?");
    this.#dropNotices = prepareQuery(
      db,
      `
      DELETE FROM webhook_notices
      WHERE lane_key IN (SELECT lane_key FROM webhook_lanes WHERE hook = ?) AND notice_key <= ?
      RETURNING lane_key AS laneKey`,
    );
    this.#restartLane = db.prepare(`
      UPDATE webhook_lanes SET due_at = ?, failures = 0, reason = NULL WHERE lane_key = ? AND claim IS NULL`);
    this.#disable = db.prepare("INSERT OR IGNORE INTO webhooks_disabled (hook, receiver, at) VALUES (?, ?, ?)");
    this.#enable = db.prepare("DELETE FROM webhooks_disabled WHERE hook = ?");
  }

  /** Add a notice to the end of its lane. */
  add({ id, hook, subject, at, payload }: WebhookNotice, floorKey: number): void {
    const { key } = this.#addLane.get(subject, hook, floorKey, at)!;
    this.#addNotice.run(key, id, at, payload);
  }

  /** Delete the lanes of a session with their notices. */
  removeLanes(sessionId: SessionId): void {
    this.#removeLanes.run(sessionId);
  }

  claim({ hook, claim, now, until, limit }: JobOf<"claim">): void {
    this.#claim.run(until, claim, hook, now, limit);
  }

  settle({ claimed: { laneKey, claim, id }, now, failed }: JobOf<"settle">): void {
    if (failed) {
      this.#postpone.run(failed.dueAt, failed.failures, failed.reason, laneKey, claim);
      return;
    }
    this.#removeNotice.run(laneKey, id);
    if (this.#claimOf.get(laneKey)?.claim !== claim) return;
    if (this.#hasNotice.get(laneKey)) this.#continueLane.run(now, laneKey);
    else this.#removeLane.run(laneKey);
  }

  /** A lane whose oldest notice goes begins anew with the next one, unless it is being sent. */
  drop({ hook, upTo, now }: JobOf<"drop">): void {
    const lanes = new Set(this.#dropNotices.all(hook, upTo).map(({ laneKey }) => laneKey));
    for (const laneKey of lanes) {
      if (this.#hasNotice.get(laneKey)) this.#restartLane.run(now, laneKey);
      else this.#removeLane.run(laneKey);
    }
  }

  /** Returns whether it was enabled. */
  disable({ disabled: { hook, receiver, at } }: JobOf<"disable">): boolean {
    return this.#disable.run(hook, receiver, at).changes > 0;
  }

  /** Returns whether it was disabled. */
  enable({ hook }: JobOf<"enable">): boolean {
    return this.#enable.run(hook).changes > 0;
  }
}
