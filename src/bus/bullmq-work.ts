import type { Job, Worker } from "bullmq";
import type { Redis } from "ioredis";
import { type Clock, sleep } from "../protocol/clock.ts";
import type { Effect } from "../protocol/effect.ts";
import { AppError } from "../protocol/errors.ts";
import type { Processing } from "./run-queue.ts";

/** How long a job stays a worker's without a sign of life, in ms, and how often one looks for such jobs. */
const LOCK_MS = 4_000;
const STALLED_MS = 2_000;
/** A job is begun again as often as its workers die: it is the floor that counts attempts and gives up (rule C11). */
const MAX_STALLED = 1_000_000;
/** How long a worker may take to connect, in ms, and how often it may fail to. */
const OPEN_MS = 2_000;
const OPEN_TRIES = 3;
/** After Redis was away, in ms. BullMQ's own default leaves runs waiting for 15 s. */
const TRY_AGAIN_MS = 500;
/**
 * A worker that waits looks for jobs by itself after so long, in s: the wake-up call for a job goes to one worker, and is
 * lost with that.
 */
const LOOK_S = 2;
/** How long Redis may take to hear of what has ended when work is stopped, in ms. */
const LEAVE_MS = 1_000;

export type Handler = (effect: Effect) => Promise<void>;

export interface BullmqWorkOptions {
  bullmq: typeof import("bullmq");
  /** Of the queue. */
  name: string;
  connection: Redis;
  prefix: string;
  concurrency: number;
  handler: Handler;
  clock: Clock;
  onFault: (error: unknown) => void;
}

/** Carries out the jobs of one queue. */
export class BullmqWork implements Processing {
  readonly #options: BullmqWorkOptions;
  readonly #worker: Worker<Effect>;
  /** Has ended, but Redis has not said that it knows. */
  readonly #unreported = new Set<string>();
  #underWay = 0;
  #isStopped = false;
  #onEnded = () => {};

  /** @throws AppError `unavailable` when Redis cannot be had */
  static async open(options: BullmqWorkOptions): Promise<BullmqWork> {
    const { clock, onFault } = options;
    for (let tries = 1; ; tries++) {
      const work = new BullmqWork(options);
      try {
        await work.#begin();
        return work;
      } catch (error) {
        // A worker whose connections broke before they were ready never takes anything.
        onFault(error);
        await work.leave();
        if (tries === OPEN_TRIES) throw new AppError("unavailable", "the run queue is away", { cause: error });
        await sleep(clock, TRY_AGAIN_MS);
      }
    }
  }

  private constructor(options: BullmqWorkOptions) {
    const { bullmq, name, connection, prefix, concurrency, onFault } = options;
    this.#options = options;
    this.#worker = new bullmq.Worker<Effect>(name, (job, token) => this.#carryOut(job, token), {
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
      // It may be that one of them is not this worker's any more: nothing will be said of it.
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
    // A worker that is full looks up when a job ends; going on after a pause it looks up at once.
    void worker.pause(true);
    void worker.resume();
  }

  /** Where Redis is away, jobs that ended here are found to be stalled later, and their floors say that they are over. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    // BullMQ's own way to close waits for a Redis that is away, and lets go of nothing until it is back.
    void this.#worker.pause(true);
    await this.#until(() => this.#underWay === 0);
    await Promise.race([this.#until(() => this.#unreported.size === 0), sleep(this.#options.clock, LEAVE_MS)]);
    await this.leave();
  }

  /** Take no more, and leave what is under way to whoever finds it stalled. */
  async leave(): Promise<void> {
    this.#isStopped = true;
    await Promise.race([this.#worker.close(true), sleep(this.#options.clock, LEAVE_MS)]);
  }

  async #begin(): Promise<void> {
    const { clock, onFault } = this.#options;
    const tooLate = sleep(clock, OPEN_MS).then(() => Promise.reject(new Error("it does not answer")));
    await Promise.race([this.#worker.waitUntilReady(), tooLate]);
    this.#worker.run().catch(onFault);
  }

  async #carryOut(job: Job<Effect>, token: string | undefined): Promise<void> {
    const { clock, handler } = this.#options;
    const earlyMs = job.data.dueAt - clock.now();
    if (this.#isStopped || earlyMs > 0) await this.#sendBack(job, token, earlyMs);
    this.#underWay += 1;
    try {
      await handler(job.data);
    } catch {
      // The handler tells of its own failures; the store still has the effect.
    } finally {
      this.#underWay -= 1;
      this.#unreported.add(job.id!);
      this.#onEnded();
    }
  }

  /** @throws what makes BullMQ keep the job: it is not to be carried out here, or not yet */
  async #sendBack(job: Job<Effect>, token: string | undefined, earlyMs: number): Promise<never> {
    const { WaitingError, DelayedError } = this.#options.bullmq;
    if (earlyMs > 0) {
      // BullMQ goes by the clocks of its nodes; what is due is told by ours.
      await job.moveToDelayed(job.processedOn! + earlyMs, token);
      throw new DelayedError();
    }
    // It was on its way while the work was stopped; another node may have it at once.
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
