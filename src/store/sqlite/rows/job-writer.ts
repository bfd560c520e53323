// Rule C5 of docs/inside/correctness.md.
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import type { Blob, ConnectionRow } from "../../store.ts";
import { openWriter } from "../database-file.ts";
import { FileGuard } from "../file-identity.ts";
import { LogCheckpoint } from "../log-checkpoint.ts";
import { fileFaultOf } from "../result-code.ts";
import {
  isFailure,
  type Job,
  MAX_GROUP,
  type Result,
  type WriteFailure,
  type WriteOutcome,
  type WriterAnswer,
  type WriterMessage,
  type WriterSettings,
} from "../writer/writer-job.ts";
import { ChangeWriter } from "./change-writer.ts";
import { DefinitionWriter } from "./definition-writer.ts";
import { KnownRows } from "./known-rows.ts";
import { LogBlocks } from "./log-blocks.ts";
import { NoticeWriter } from "./notice-writer.ts";
import { Pruner } from "./pruner.ts";
import { clearFreePages, eraseUser } from "./user-eraser.ts";

/**
 * The work of the thread that owns the writing connection, because a commit waits for the disk and the main thread must
 * not. Jobs that arrive during a transaction go into the next one. The thread ends when its connection is no longer
 * reliable.
 */
export function serveJobs(port: MessagePort, settings: WriterSettings): void {
  const guard = new FileGuard(settings.file, settings.opened);
  guard.checkFile();
  const db = openWriter(settings);
  const writer = new JobWriter(db, guard);
  const answer = (words: WriterAnswer) => port.postMessage(words);
  const waiting: Job[] = [];
  let isEnding = false;

  function receive(message: WriterMessage): void {
    if (message === "close") isEnding = true;
    else waiting.push(...message);
  }

  function receiveWaiting(): void {
    while (!isEnding && waiting.length < MAX_GROUP) {
      const come = receiveMessageOnPort(port);
      if (!come) return;
      receive(come.message);
    }
  }

  port.on("message", (message: WriterMessage) => {
    receive(message);
    receiveWaiting();
    while (waiting.length > 0) {
      answer(writer.commit(waiting.splice(0, MAX_GROUP)));
      receiveWaiting();
    }
    if (!isEnding) return;
    db.close();
    port.close();
  });
  // Jobs can no longer be answered. End, so that a new thread takes over.
  port.on("messageerror", (error) => {
    throw error;
  });
  answer("ready");
}

/** Runs jobs, one transaction for each batch. */
export class JobWriter {
  readonly #db: DatabaseSync;
  readonly #guard: FileGuard;
  readonly #checkpoint: LogCheckpoint;
  readonly #known = new KnownRows();
  readonly #changes: ChangeWriter;
  readonly #notices: NoticeWriter;
  readonly #definitions: DefinitionWriter;
  readonly #pruner: Pruner;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #addConnection: StatementSync;
  readonly #putConnection: StatementSync;
  readonly #putBlob: StatementSync;
  readonly #saveJumps: StatementSync;
  readonly #probe: StatementSync;

  constructor(db: DatabaseSync, guard: FileGuard) {
    this.#db = db;
    this.#guard = guard;
    this.#checkpoint = new LogCheckpoint(db);
    const blocks = new LogBlocks(db, this.#known);
    this.#notices = new NoticeWriter(db);
    this.#changes = new ChangeWriter(db, this.#known, blocks, this.#notices);
    this.#definitions = new DefinitionWriter(db);
    this.#pruner = new Pruner(db, this.#changes.staged, this.#changes.usage, blocks);
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#addConnection = db.prepare(`
      INSERT INTO connections (version, expires_at, binding, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`);
    this.#putConnection = db.prepare(`
      UPDATE connections SET version = ?, expires_at = ?, binding = ? WHERE id = ? AND version = ?`);
    // Storing a blob again restarts its grace period.
    this.#putBlob = db.prepare(`
      INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET created_at = max(created_at, excluded.created_at)`);
    this.#saveJumps = db.prepare("UPDATE meta SET jumped_ms = ?, doubt_until = ? WHERE id = 1");
    this.#probe = db.prepare("UPDATE meta SET doubt_until = doubt_until WHERE id = 1");
  }

  /**
   * Run jobs of many floors in one transaction. If one of them makes it fail, each runs again in a transaction of its
   * own, so that no job fails because of another (W10, rule C5).
   */
  commit(jobs: readonly Job[]): Result[] {
    const outcomes = this.transact(jobs);
    if (!isFailure(outcomes)) return outcomes;
    // If the engine fails for all of them, it would fail for each one.
    if (outcomes.fault === "engine" || jobs.length === 1) return jobs.map(() => outcomes);
    return jobs.flatMap((job) => this.commit([job]));
  }

  /**
   * Run jobs in one transaction: all become durable, each with its own outcome, or none does.
   * @throws Error if a failed transaction cannot be rolled back: the connection is then unusable
   */
  transact(jobs: readonly Job[]): WriteOutcome[] | WriteFailure {
    const outcomes = this.#try(jobs);
    return isFailure(outcomes) && this.#checkpoint.makeRoomAfter(outcomes.error) ? this.#try(jobs) : outcomes;
  }

  #try(jobs: readonly Job[]): WriteOutcome[] | WriteFailure {
    try {
      this.#guard.checkFile();
      this.#begin.run();
      const outcomes = jobs.map((job) => this.#write(job));
      this.#commit.run();
      // Only acknowledge what a restart will find.
      this.#guard.check();
      const hasForgotten = jobs.some(({ kind }, index) => kind === "forget" && outcomes[index] === "done");
      if (!hasForgotten || clearFreePages(this.#db)) return outcomes;
      return outcomes.map((outcome, index) =>
        jobs[index]!.kind === "forget" && outcome === "done" ? "more" : outcome,
      );
    } catch (error) {
      // The remembered rows may not have been written.
      this.#known.forget();
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      return { fault: fileFaultOf(error), error: error as Error };
    }
  }

  #write(job: Job): WriteOutcome {
    switch (job.kind) {
      case "change":
        return this.#changes.write(job.change);
      case "connection":
        return this.#saveConnection(job.row);
      case "blob":
        return this.#saveBlob(job.sessionId, job.blob);
      case "stage":
        this.#changes.staged.stage(job.stagedAs, job.messages, job.now);
        return "done";
      case "discard":
        this.#changes.staged.discard(job.stagedAs);
        return "done";
      case "copy":
        return this.#changes.staged.copyBlob(job.from, job.to, job.hash, job.now) ? "done" : "missing";
      case "definition":
        return this.#definitions.write(job.change);
      case "claim":
        this.#notices.claim(job);
        return "done";
      case "settle":
        this.#notices.settle(job);
        return "done";
      case "drop":
        this.#notices.drop(job);
        return "done";
      case "disable":
        return this.#notices.disable(job) ? "done" : "missing";
      case "enable":
        return this.#notices.enable(job) ? "done" : "missing";
      case "jumps":
        this.#saveJumps.run(job.jumps.jumpedMs, job.jumps.doubtUntil);
        return "done";
      case "forget":
        this.#known.forget();
        return eraseUser(this.#db, job) ? "done" : "conflict";
      case "probe":
        this.#probe.run();
        return "done";
      case "prune":
        this.#known.forget();
        return this.#pruner.prune(job.limits) ? "more" : "done";
    }
  }

  #saveConnection({ id, version, expiresAt, ...binding }: ConnectionRow): WriteOutcome {
    const values = [version + 1, expiresAt, JSON.stringify(binding), id];
    const { changes } =
      version === 0 ? this.#addConnection.run(...values) : this.#putConnection.run(...values, version);
    return changes === 1 ? "done" : "conflict";
  }

  #saveBlob(sessionId: string, { hash, mimeType, bytes, createdAt }: Blob): WriteOutcome {
    this.#putBlob.run(sessionId, hash, mimeType, createdAt, bytes);
    return "done";
  }
}
