import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Clock, Timer } from "../../../shared/ports/clock.ts";
import type { Logger } from "../../../shared/ports/logger.ts";
import type { Carrier } from "./write-queue.ts";
import {
  isFailure,
  type Job,
  type Result,
  type WriteOutcome,
  type WriterAnswer,
  type WriterMessage,
  type WriterSettings,
} from "./writer-job.ts";

/** The pause after a lost thread, in ms. It doubles with each further loss, up to the second value. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** While the database refuses writes, it is asked this often whether it takes them again, in ms. */
const PROBE_MS = 5_000;

const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "./writer-main.ts" : "./writer-main.js", import.meta.url);

type Settle = (index: number, result: Result<WriteOutcome>) => void;

/** Jobs that were sent together. */
interface Sent {
  settle: Settle;
  count: number;
  answered: number;
}

/**
 * The main thread's handle of the writer's thread. If the thread is lost, its unanswered jobs fail as an engine error.
 * The next jobs start a new thread, or fail too during the pause after the last loss.
 */
export class WriterThread implements Carrier<Job, WriteOutcome> {
  readonly #settings: WriterSettings;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onDamage: (fault: string) => void;
  #worker: Worker | undefined;
  /** Set while a new thread is starting. */
  #starting: Promise<Worker> | undefined;
  /** The unanswered batches, oldest first. */
  #sent: Sent[] = [];
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
      else this.#settle(answer);
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

  carryOut(jobs: Job[], settle: Settle): void {
    if (this.#worker && !this.#starting) return this.#post(this.#worker, jobs, settle);
    if (!this.#starting && this.#clock.now() < this.#pausedUntil) return failAll(jobs.length, settle, notThere());
    this.#starting ??= this.#startAgain();
    this.#starting.then(
      (worker) => this.#post(worker, jobs, settle),
      (error) => failAll(jobs.length, settle, error),
    );
  }

  #post(worker: Worker, jobs: Job[], settle: Settle): void {
    if (this.#worker !== worker) return failAll(jobs.length, settle, notThere());
    try {
      worker.postMessage(jobs satisfies WriterMessage);
      this.#sent.push({ settle, count: jobs.length, answered: 0 });
    } catch (error) {
      // One of the jobs cannot be cloned to a thread.
      if (jobs.length === 1) return settle(0, { fault: "data", error: error as Error });
      for (const [index, job] of jobs.entries()) this.#post(worker, [job], (_, result) => settle(index, result));
    }
  }

  /** Call it when no jobs are pending. */
  async close(): Promise<void> {
    this.#probing?.cancel();
    const worker = this.#worker;
    if (!worker) return;
    this.#worker = undefined;
    const ended = once(worker, "exit");
    worker.postMessage("close" satisfies WriterMessage);
    await ended;
  }

  /** The thread answers jobs in the order in which they were sent. */
  #settle(results: Result<WriteOutcome>[]): void {
    this.#report(results);
    for (const result of results) {
      const oldest = this.#sent[0]!;
      const index = oldest.answered++;
      if (oldest.answered === oldest.count) this.#sent.shift();
      oldest.settle(index, result);
    }
  }

  /** Log when the database begins and stops refusing writes, and report damage. */
  #report(results: readonly Result<WriteOutcome>[]): void {
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
      if (this.#isRefused && this.#worker) this.#post(this.#worker, [{ kind: "probe" }], () => {});
    });
  }

  #lose(error: unknown): void {
    this.#worker = undefined;
    this.#pause();
    this.#log.error({ err: error, file: this.#settings.file }, "the writer's thread was lost");
    const lost = this.#sent;
    this.#sent = [];
    for (const { settle, count, answered } of lost) failAll(count, settle, error, answered);
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

/** The jobs from index `from` on. */
function failAll(count: number, settle: Settle, error: unknown, from = 0): void {
  for (let index = from; index < count; index++) settle(index, { fault: "engine", error: error as Error });
}
