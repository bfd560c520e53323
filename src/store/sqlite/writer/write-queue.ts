import { AppError } from "../../../protocol/errors.ts";
import { isFailure, type Result } from "./writer-job.ts";

/** Writes jobs to a database, in the order of submission. */
export interface Carrier<Job, Outcome> {
  /** `settle` is called once for each job, when it is durable or has failed. */
  carryOut(jobs: Job[], settle: (index: number, result: Result<Outcome>) => void): void;
}

/** The job itself is at fault: no other job is affected, and it would fail again. */
export class JobFailed extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "JobFailed";
  }
}

interface Waiting<Job, Outcome> {
  job: Job;
  settle: PromiseWithResolvers<Outcome | "conflict">;
}

/** The maximum number of unanswered jobs, more than a working store accumulates. Beyond it, writes are `unavailable`. */
export const MAX_WAITING_WRITES = 16_384;
/**
 * Jobs that are sent without waiting for the end of the turn. The thread begins with them while the main thread prepares
 * the others. Each message costs both threads some µs, so single jobs are not sent at once.
 */
const LOT = 8;

/**
 * The bounded queue to the writer's thread. Jobs of one turn of the event loop are sent in lots, and the rest at its end,
 * without waiting for earlier answers, because the thread batches whatever has arrived into its next transaction. A job
 * is answered only after its commit.
 */
export class WriteQueue<Job, Outcome> {
  readonly #carrier: Carrier<Job, Outcome>;
  #lot: Waiting<Job, Outcome>[] = [];
  #isScheduled = false;
  #unanswered = 0;
  #closed: PromiseWithResolvers<void> | undefined;

  constructor(carrier: Carrier<Job, Outcome>) {
    this.#carrier = carrier;
  }

  /**
   * Resolves to `conflict` also if a unique key exists.
   * @throws AppError `unavailable`: the outcome is unknown
   * @throws JobFailed
   */
  add(job: Job): Promise<Outcome | "conflict"> {
    const settle = Promise.withResolvers<Outcome | "conflict">();
    if (this.#closed) settle.reject(new AppError("unavailable", "the store is closed"));
    else if (this.#unanswered >= MAX_WAITING_WRITES) {
      settle.reject(new AppError("unavailable", "too many writes are waiting"));
    } else {
      this.#unanswered += 1;
      const size = this.#lot.push({ job, settle });
      if (size === LOT) this.#handOn();
      else if (!this.#isScheduled) this.#schedule();
    }
    return settle.promise;
  }

  /** Refuse new jobs; resolves when all accepted jobs are answered. */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = Promise.withResolvers();
      if (this.#unanswered === 0) this.#closed.resolve();
    }
    await this.#closed.promise;
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#lot.length > 0) this.#handOn();
    });
  }

  #handOn(): void {
    const lot = this.#lot;
    this.#lot = [];
    this.#carrier.carryOut(
      lot.map(({ job }) => job),
      (index, result) => this.#answer(lot[index]!, result),
    );
  }

  #answer({ settle }: Waiting<Job, Outcome>, result: Result<Outcome>): void {
    this.#unanswered -= 1;
    if (!isFailure(result)) settle.resolve(result);
    else if (result.fault === "taken") settle.resolve("conflict");
    else if (result.fault === "data") settle.reject(new JobFailed(result.error));
    else settle.reject(new AppError("unavailable", undefined, { cause: result.error }));
    if (this.#unanswered === 0) this.#closed?.resolve();
  }
}
