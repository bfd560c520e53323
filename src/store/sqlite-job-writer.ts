import type { DatabaseSync, StatementSync } from "node:sqlite";
import { ChangeWriter } from "./sqlite-change.ts";
import { faultOf } from "./sqlite-fault.ts";
import type { Job, Outcome, WriterAnswer } from "./sqlite-job.ts";
import { Pruner } from "./sqlite-pruner.ts";
import type { Blob, ConnectionRow } from "./store.ts";

/** Carries jobs out, one transaction for all it is given at a time. */
export class JobWriter {
  readonly #db: DatabaseSync;
  readonly #changes: ChangeWriter;
  readonly #pruner: Pruner;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #addConnection: StatementSync;
  readonly #putConnection: StatementSync;
  readonly #putBlob: StatementSync;
  readonly #shift: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    this.#changes = new ChangeWriter(db);
    this.#pruner = new Pruner(db);
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#addConnection = db.prepare(`
      INSERT INTO connections (version, expires_at, binding, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`);
    this.#putConnection = db.prepare(`
      UPDATE connections SET version = ?, expires_at = ?, binding = ? WHERE id = ? AND version = ?`);
    // Put again, it is wanted again: its time starts anew.
    this.#putBlob = db.prepare(`
      INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET created_at = max(created_at, excluded.created_at)`);
    this.#shift = db.prepare("UPDATE effects SET due_at = due_at + ?");
  }

  /** @throws when what is left of a failed transaction cannot be cleared away: the connection is then useless */
  transact(jobs: readonly Job[]): Exclude<WriterAnswer, "ready"> {
    try {
      this.#begin.run();
      const outcomes = jobs.map((job) => this.#write(job));
      this.#commit.run();
      return { outcomes };
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      return { fault: faultOf(error), error: error as Error };
    }
  }

  #write(job: Job): Outcome {
    switch (job.kind) {
      case "change":
        return this.#changes.write(job.change);
      case "connection":
        return this.#saveConnection(job.row);
      case "blob":
        return this.#saveBlob(job.sessionId, job.blob);
      case "shift":
        this.#shift.run(job.byMs);
        return "done";
      case "prune":
        return this.#pruner.prune(job.limits) ? "more" : "done";
    }
  }

  #saveConnection({ id, version, expiresAt, ...binding }: ConnectionRow): Outcome {
    const values = [version + 1, expiresAt, JSON.stringify(binding), id];
    const { changes } =
      version === 0 ? this.#addConnection.run(...values) : this.#putConnection.run(...values, version);
    return changes === 1 ? "done" : "conflict";
  }

  #saveBlob(sessionId: string, { hash, mimeType, bytes, createdAt }: Blob): Outcome {
    this.#putBlob.run(sessionId, hash, mimeType, createdAt, bytes);
    return "done";
  }
}
