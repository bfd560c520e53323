import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Clock } from "../protocol/clock.ts";
import type { Logger } from "../protocol/logger.ts";
import { type Carrier, TransactionFailed } from "./group-commit.ts";
import type { Job, Outcome, WriterAnswer, WriterMessage, WriterSettings } from "./sqlite-job.ts";

/** After a thread was lost, in ms; doubled with every further loss, up to the second number. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

const ENTRY = new URL(import.meta.url.endsWith(".ts") ? "./sqlite-writer.ts" : "./sqlite-writer.js", import.meta.url);

/**
 * The writer's thread, seen from the main thread. If it is lost, what it had is answered as an engine's fault; the next
 * transaction starts another thread, or fails too while the pause after the last loss lasts.
 */
export class WriterThread implements Carrier<Job, Outcome> {
  readonly #settings: WriterSettings;
  readonly #clock: Clock;
  readonly #log: Logger;
  #worker: Worker | undefined;
  #underWay: PromiseWithResolvers<Outcome[]> | undefined;
  #pauseMs = FIRST_PAUSE_MS;
  #pausedUntil = 0;
  /** Whether the last transaction met an engine's fault: told once, not with every write. */
  #isRefused = false;

  constructor(settings: WriterSettings, clock: Clock, log: Logger) {
    this.#settings = settings;
    this.#clock = clock;
    this.#log = log;
  }

  /** Resolves when it is ready to write. Rejects with what it died of. */
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

  async carryOut(jobs: Job[]): Promise<Outcome[]> {
    const worker = this.#worker ?? (await this.#startAgain());
    const underWay = Promise.withResolvers<Outcome[]>();
    this.#underWay = underWay;
    try {
      worker.postMessage(jobs satisfies WriterMessage);
    } catch (error) {
      // Something in it cannot be sent to a thread.
      this.#underWay = undefined;
      throw new TransactionFailed("data", error);
    }
    return await underWay.promise;
  }

  /** To be called when nothing is under way. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    this.#worker = undefined;
    const ended = once(worker, "exit");
    worker.postMessage("close" satisfies WriterMessage);
    await ended;
  }

  #settle(answer: Exclude<WriterAnswer, "ready">): void {
    const underWay = this.#underWay;
    this.#underWay = undefined;
    const { file } = this.#settings;
    const isRefused = "fault" in answer && answer.fault === "engine";
    if (isRefused && !this.#isRefused) this.#log.error({ err: answer.error, file }, "the database refuses writes");
    if (!isRefused && this.#isRefused) this.#log.info({ file }, "the database takes writes again");
    this.#isRefused = isRefused;
    if ("fault" in answer) underWay?.reject(new TransactionFailed(answer.fault, answer.error));
    else {
      this.#pauseMs = FIRST_PAUSE_MS;
      underWay?.resolve(answer.outcomes);
    }
  }

  #lose(error: unknown): void {
    this.#worker = undefined;
    this.#pause();
    this.#log.error({ err: error, file: this.#settings.file }, "the writer's thread was lost");
    this.#underWay?.reject(new TransactionFailed("engine", error));
    this.#underWay = undefined;
  }

  async #startAgain(): Promise<Worker> {
    if (this.#clock.now() < this.#pausedUntil) {
      throw new TransactionFailed("engine", new Error("the writer's thread is not there"));
    }
    try {
      const worker = await this.start();
      this.#log.info({ file: this.#settings.file }, "the writer's thread was started again");
      return worker;
    } catch (error) {
      this.#pause();
      this.#log.error({ err: error, file: this.#settings.file }, "the writer's thread could not be started");
      throw new TransactionFailed("engine", error);
    }
  }

  #pause(): void {
    this.#pausedUntil = this.#clock.now() + this.#pauseMs;
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
  }
}
