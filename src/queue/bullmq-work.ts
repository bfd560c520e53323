import type { Job, Worker } from "bullmq";
import type { Redis } from "ioredis";
import { AppError } from "../protocol/errors.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { sleep, within } from "../shared/waiting.ts";
import type { Handler, Processing, Queued } from "./run-queue.ts";

/** How long a worker keeps a job without renewing its lock, and how often workers check for stalled jobs, in ms. */
const LOCK_MS = 4_000;
const STALLED_MS = 2_000;
/** Effectively no limit on restarts of a stalled job: the floor counts attempts and gives up (rule C11). */
const MAX_STALLED = 1_000_000;
/** How long a worker may take to connect, in ms, and how many attempts it has. */
const OPEN_MS = 2_000;
const OPEN_TRIES = 3;
/** The pause before a retry after Redis was away, in ms. With BullMQ's default, runs would wait for 15 s. */
const TRY_AGAIN_MS = 500;
/**
 * How often an idle worker polls for jobs, in s: the wake-up for a job goes to one worker only, and is lost if that
 * worker dies.
 */
const LOOK_S = 2;
/** How long Redis may take to acknowledge finished jobs when the work stops, in ms. */
const LEAVE_MS = 1_000;

export interface BullmqWorkOptions {
  bullmq: typeof import("bullmq");
  /** The name of the queue. */
  name: string;
  /** Waits for Redis without a limit while it is away. */
  worker: Redis;
  prefix: string;
  concurrency: number;
  handler: Handler;
  clock: Clock;
  onFault: (error: unknown) => void;
}

/** Carries out the jobs of one queue. */
export class BullmqWork implements Processing {
  readonly #options: BullmqWorkOptions;
  readonly #worker: Worker<Queued>;
  /** Ids of jobs whose handler has ended but whose completion Redis has not acknowledged. */
  readonly #unreported = new Set<string>();
  #underWay = 0;
  #isStopped = false;
  #onEnded = () => {};

  /** @throws AppError `unavailable` when Redis does not answer within three attempts */
  static async open(options: BullmqWorkOptions): Promise<BullmqWork> {
    const { clock, onFault } = options;
    for (let tries = 1; ; tries++) {
      const work = new BullmqWork(options);
      try {
        await work.#begin();
        return work;
      } catch (error) {
        // Replace the worker: if its connections broke before they were ready, it never takes a job.
        onFault(error);
        await work.leave();
        if (tries === OPEN_TRIES) throw new AppError("unavailable", "the run queue is away", { cause: error });
        await sleep(clock, TRY_AGAIN_MS);
      }
    }
  }

  private constructor(options: BullmqWorkOptions) {
    const { bullmq, name, worker: connection, prefix, concurrency, onFault } = options;
    this.#options = options;
    this.#worker = new bullmq.Worker<Queued>(name, (job, token) => this.#callHandler(job, token), {
      connection,
      prefix,
      concurrency,
      autorun: false,
      lockDuration: LOCK_MS,
      stalledInterval: STALLED_MS,
      maxStalledCount: MAX_STALLED,
      runRetryDelay: TRY_AGAIN_MS,
      drainDelay: LOOK_S,
    });
    this.#worker.on("completed", ({ id }) => {
      this.#unreported.delete(id!);
      this.#onEnded();
    });
    this.#worker.on("error", (error) => {
      onFault(error);
      // This worker may have lost one of these jobs, and then BullMQ will never report its completion.
      this.#unreported.clear();
      this.#onEnded();
    });
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  setConcurrency(concurrency: number): void {
    const worker = this.#worker;
    const isFull = this.#underWay >= worker.concurrency;
    const isMore = concurrency > worker.concurrency;
    worker.concurrency = concurrency;
    if (!isFull || !isMore || this.#isStopped) return;
    // A full worker applies the new limit only when a job ends. Pausing and resuming applies it at once.
    void worker.pause(true);
    void worker.resume();
  }

  /**
   * When Redis is away, jobs that ended here stall later and another worker takes them; their floors answer that they
   * are over.
   */
  async stop(): Promise<void> {
    this.#isStopped = true;
    // Pause instead of closing: BullMQ's close waits until Redis is back, and holds all jobs until then.
    void this.#worker.pause(true);
    await this.#until(() => this.#underWay === 0);
    const reported = this.#until(() => this.#unreported.size === 0);
    await within(this.#options.clock, LEAVE_MS, reported);
    await this.leave();
  }

  /** Take no further jobs. Another worker picks up the current ones when they stall. */
  async leave(): Promise<void> {
    this.#isStopped = true;
    await within(this.#options.clock, LEAVE_MS, this.#worker.close(true));
  }

  async #begin(): Promise<void> {
    const { clock, onFault } = this.#options;
    await within(clock, OPEN_MS, this.#worker.waitUntilReady(), () => {
      throw new Error("it does not answer");
    });
    this.#worker.run().catch(onFault);
  }

  async #callHandler(job: Job<Queued>, token: string | undefined): Promise<void> {
    const { clock, handler } = this.#options;
    const earlyMs = job.data.dueAt - clock.now();
    if (this.#isStopped || earlyMs > 0) await this.#sendBack(job, token, earlyMs);
    this.#underWay += 1;
    try {
      await handler(job.data);
    } catch {
      // The handler logs its own failures; the store still has the run request.
    } finally {
      this.#underWay -= 1;
      this.#unreported.add(job.id!);
      this.#onEnded();
    }
  }

  /** @throws the BullMQ error that keeps the job: this worker is stopped, or the job is not due yet */
  async #sendBack(job: Job<Queued>, token: string | undefined, earlyMs: number): Promise<never> {
    const { WaitingError, DelayedError } = this.#options.bullmq;
    if (earlyMs > 0) {
      // BullMQ uses each node's clock; the due time is on the store's clock.
      await job.moveToDelayed(job.processedOn! + earlyMs, token);
      throw new DelayedError();
    }
    // The job arrived while the work stopped: make it available to other nodes at once.
    await job.moveToWait(token);
    throw new WaitingError();
  }

  #until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#onEnded = () => {
        if (isSo()) resolve();
      };
      this.#onEnded();
    });
  }
}
