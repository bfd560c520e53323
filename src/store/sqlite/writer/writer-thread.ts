import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { AppError } from "../../../protocol/errors.ts";
import { flow } from "../../../shared/flow.ts";
import type { Clock, Timer } from "../../../shared/ports/clock.ts";
import type { Logger } from "../../../shared/ports/logger.ts";
import type { CommitOutcome, FloorChange } from "../../store.ts";
import {
  isFailure,
  type Job,
  type Result,
  type WriteOutcome,
  type WriterAnswer,
  type WriterMessage,
  type WriterSettings,
} from "./writer-job.ts";

/**
 * The maximum number of unanswered jobs, more than a working store accumulates. Beyond it, writes are `unavailable`.
 */
export const MAX_WAITING_WRITES = 16_384;
/**
 * Jobs that are sent in one message before the loop's end. The thread begins with them while the main thread prepares
 * the others. Each message costs both threads some µs, so single jobs are not sent alone.
 */
const BATCH = 8;

/** The pause after a lost thread, in ms. It doubles with each further loss, up to the second value. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** While the database refuses writes, it is asked this often whether it takes them again, in ms. */
const PROBE_MS = 5_000;

const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "./writer-main.ts" : "./writer-main.js", import.meta.url);

/** The job itself is at fault: no other job is affected, and it would fail again. */
export class JobFailed extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "JobFailed";
  }
}

/** An unanswered job. */
interface UnansweredJob extends PromiseWithResolvers<WriteOutcome> {
  job: Job;
}

/**
 * The main thread's handle of the writer's thread, with the bounded queue to it. Jobs of one iteration of the event
 * loop are sent in batches, and the rest at its end, without waiting for earlier answers, because the thread commits
 * whatever has arrived in its next transaction. A job is answered only after its commit.
 *
 * If the thread is lost, its unanswered jobs fail as an engine error. The next jobs start a new thread, or fail too
 * during the pause after the last loss.
 */
export class WriterThread {
  readonly #settings: WriterSettings;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onDamage: (fault: string) => void;
  #worker: Worker | undefined;
  /** Set while a new thread is starting. */
  #starting: Promise<Worker> | undefined;
  /** Jobs that the thread has not got yet. */
  #batch: UnansweredJob[] = [];
  #isScheduled = false;
  /** Unanswered jobs that the thread has, oldest first. It answers them in this order. */
  #sent: UnansweredJob[] = [];
  #unanswered = 0;
  #finished: PromiseWithResolvers<void> | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #pausedUntil = 0;
  /** Whether the last transaction had an engine error. It is logged once, not for every write. */
  #isRefused = false;
  #probing: Timer | undefined;

  /** @param onDamage called with what SQLite says, each time a write needs a damaged page */
  constructor(settings: WriterSettings, clock: Clock, log: Logger, onDamage: (fault: string) => void) {
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#onDamage = onDamage;
  }

  /** Whether the last transaction had an engine error, or the thread was lost and its successor does not write yet. */
  get isRefusing(): boolean {
    return this.#isRefused || !this.#worker;
  }

  /** Resolves when the thread is ready to write. Rejects with the error that ended it. */
  async start(): Promise<Worker> {
    const worker = new Worker(ENTRY, { workerData: this.#settings });
    const ready = Promise.withResolvers<Worker>();
    let cause: unknown;
    worker.on("message", (answer: WriterAnswer) => {
      if (answer === "ready") ready.resolve(worker);
      else this.#answerLot(answer);
    });
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", (code) => {
      const error = cause ?? new Error(`the writer's thread ended with code ${code}`);
      ready.reject(error);
      if (this.#worker === worker) this.#lose(error);
    });
    this.#worker = await ready.promise;
    return worker;
  }

  /** Commit a change, or nothing of it. @throws as `add` */
  readonly commit = (change: FloorChange): Promise<CommitOutcome> => {
    flow.onHop?.("sqlite", change.floorId);
    // A change has no other outcome (`ChangeWriter.write`).
    return this.add({ kind: "change", change }) as Promise<CommitOutcome>;
  };

  /**
   * Resolves when the job is durable; to `conflict` also if a unique key exists.
   * @throws AppError `unavailable`: the outcome is unknown
   * @throws JobFailed
   */
  add(job: Job): Promise<WriteOutcome> {
    const waiting = { job, ...Promise.withResolvers<WriteOutcome>() };
    if (this.#finished) waiting.reject(new AppError("unavailable", "the store is closed"));
    else if (this.#unanswered >= MAX_WAITING_WRITES) {
      waiting.reject(new AppError("unavailable", "too many writes are waiting"));
    } else {
      this.#unanswered += 1;
      const size = this.#batch.push(waiting);
      if (size === BATCH) this.#sendBatch();
      else if (!this.#isScheduled) this.#schedule();
    }
    return waiting.promise;
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#batch.length > 0) this.#sendBatch();
    });
  }

  #sendBatch(): void {
    const batch = this.#batch;
    this.#batch = [];
    if (this.#worker && !this.#starting) return this.#post(this.#worker, batch);
    if (!this.#starting && this.#clock.now() < this.#pausedUntil) return this.#failAll(batch, notThere());
    this.#starting ??= this.#startAgain();
    this.#starting.then(
      (worker) => this.#post(worker, batch),
      (error) => this.#failAll(batch, error),
    );
  }

  #post(worker: Worker, batch: UnansweredJob[]): void {
    if (this.#worker !== worker) return this.#failAll(batch, notThere());
    try {
      worker.postMessage(batch.map(({ job }) => job) satisfies WriterMessage);
      this.#sent.push(...batch);
    } catch (error) {
      // One of the jobs cannot be cloned to a thread.
      if (batch.length === 1) return this.#answer(batch[0]!, { fault: "data", error: error as Error });
      for (const waiting of batch) this.#post(worker, [waiting]);
    }
  }

  /** Refuse new jobs; resolves when all accepted jobs are answered. */
  async finish(): Promise<void> {
    if (!this.#finished) {
      this.#finished = Promise.withResolvers();
      if (this.#unanswered === 0) this.#finished.resolve();
    }
    await this.#finished.promise;
  }

  /** End the thread. Call it when no jobs are pending. */
  async close(): Promise<void> {
    this.#probing?.cancel();
    const worker = this.#worker;
    if (!worker) return;
    this.#worker = undefined;
    const ended = once(worker, "exit");
    worker.postMessage("close" satisfies WriterMessage);
    await ended;
  }

  #answerLot(results: Result[]): void {
    this.#report(results);
    for (const [index, waiting] of this.#sent.splice(0, results.length).entries())
      this.#answer(waiting, results[index]!);
  }

  #answer(waiting: UnansweredJob, result: Result): void {
    this.#unanswered -= 1;
    if (!isFailure(result)) waiting.resolve(result);
    else if (result.fault === "taken") waiting.resolve("conflict");
    else if (result.fault === "data") waiting.reject(new JobFailed(result.error));
    else waiting.reject(new AppError("unavailable", undefined, { cause: result.error }));
    if (this.#unanswered === 0) this.#finished?.resolve();
  }

  #failAll(batch: readonly UnansweredJob[], error: unknown): void {
    for (const waiting of batch) this.#answer(waiting, { fault: "engine", error: error as Error });
  }

  /** Log when the database begins and stops refusing writes, and report damage. */
  #report(results: readonly Result[]): void {
    const failures = results.filter((result) => isFailure(result));
    const damaged = failures.find(({ fault }) => fault === "damage");
    if (damaged) this.#onDamage(damaged.error.message);
    const refused = failures.find(({ fault }) => fault === "engine");
    const { file } = this.#settings;
    if (refused && !this.#isRefused) this.#log.error({ err: refused.error, file }, "the database refuses writes");
    if (!refused && this.#isRefused) this.#log.info({ file }, "the database takes writes again");
    this.#isRefused = refused !== undefined;
    if (this.#isRefused) this.#probe();
    if (!refused) this.#pauseMs = FIRST_PAUSE_MS;
  }

  /** Nothing else may be written for a minute, after which the log would still say that writes are refused. */
  #probe(): void {
    this.#probing ??= this.#clock.after(PROBE_MS, () => {
      this.#probing = undefined;
      if (this.#isRefused && this.#worker) this.add({ kind: "probe" }).catch(() => {});
    });
  }

  #lose(error: unknown): void {
    this.#worker = undefined;
    this.#pause();
    this.#log.error({ err: error, file: this.#settings.file }, "the writer's thread was lost");
    this.#failAll(this.#sent.splice(0), error);
  }

  async #startAgain(): Promise<Worker> {
    const { file } = this.#settings;
    try {
      const worker = await this.start();
      this.#log.info({ file }, "the writer's thread was started again");
      return worker;
    } catch (error) {
      this.#pause();
      this.#log.error({ err: error, file }, "the writer's thread could not be started");
      throw error;
    } finally {
      this.#starting = undefined;
    }
  }

  #pause(): void {
    this.#pausedUntil = this.#clock.now() + this.#pauseMs;
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

const notThere = (): Error => new Error("the writer's thread is not running");
