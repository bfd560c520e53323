import { AppError } from "../protocol/errors.ts";

/** What puts jobs into a database. Asked for one transaction at a time. */
export interface Carrier<Job, Outcome> {
  /**
   * Do all jobs in one transaction, in order. Resolves when COMMIT has returned, with an outcome for each; a job that
   * meets a conflict it can see leaves no trace and says so in its outcome.
   * @throws TransactionFailed
   */
  carryOut(jobs: Job[]): Promise<Outcome[]>;
}

/**
 * Nothing of a transaction is in the database, or nobody knows. `engine`: the database could not do it, whatever the
 * jobs; `taken`: a unique key of a job is taken; `data`: a job is at fault otherwise.
 */
export class TransactionFailed extends Error {
  readonly fault: "engine" | "taken" | "data";

  constructor(fault: "engine" | "taken" | "data", cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = "TransactionFailed";
    this.fault = fault;
  }
}

interface Waiting<Job, Outcome> {
  job: Job;
  settle: PromiseWithResolvers<Outcome | "conflict">;
}

/** Jobs that share a transaction: enough to spread the cost of a sync to disk, few enough to be answered soon. */
export const MAX_GROUP = 256;
/** Jobs that may wait; more than a store that still moves would ever leave waiting. Over it: `unavailable`. */
export const MAX_WAITING = 16_384;

/**
 * Collects jobs of many floors into few transactions: what arrives while one is under way goes into the next. Jobs are
 * carried out in the order in which they came, nobody is answered before COMMIT returned, and nobody is hurt by
 * another's fault (rule C5).
 */
export class GroupCommit<Job, Outcome> {
  readonly #carrier: Carrier<Job, Outcome>;
  readonly #waiting: Waiting<Job, Outcome>[] = [];
  #work: Promise<void> | undefined;
  #isClosed = false;

  constructor(carrier: Carrier<Job, Outcome>) {
    this.#carrier = carrier;
  }

  /**
   * `conflict` also when a unique key is taken.
   * @throws AppError `unavailable`: the outcome is not known; anything else is this job's own fault
   */
  add(job: Job): Promise<Outcome | "conflict"> {
    const settle = Promise.withResolvers<Outcome | "conflict">();
    if (this.#isClosed) settle.reject(new AppError("unavailable", "the store is closed"));
    else if (this.#waiting.length >= MAX_WAITING) {
      settle.reject(new AppError("unavailable", "too many writes are waiting"));
    } else {
      this.#waiting.push({ job, settle });
      this.#work ??= this.#carryOutAll();
    }
    return settle.promise;
  }

  /** Take no more; resolves when all that waited is answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#work;
  }

  /** Whoever is answered is answered while the next transaction is under way. */
  async #carryOutAll(): Promise<void> {
    let answer = () => {};
    let before = Number.POSITIVE_INFINITY;
    while (this.#waiting.length > 0) {
      if (this.#waiting.length < before) {
        answer();
        answer = () => {};
        // What is asked for in this turn of the event loop shares the transaction.
        await new Promise(setImmediate);
      }
      const group = this.#waiting.splice(0, MAX_GROUP);
      before = group.length;
      const carried = this.#carryOut(group);
      answer();
      answer = await carried;
    }
    this.#work = undefined;
    answer();
  }

  /** What answers the group, when its outcome is known. */
  async #carryOut(group: Waiting<Job, Outcome>[]): Promise<() => void> {
    try {
      const outcomes = await this.#carrier.carryOut(group.map(({ job }) => job));
      return () => {
        for (const [index, { settle }] of group.entries()) settle.resolve(outcomes[index]!);
      };
    } catch (error) {
      const fault = error instanceof TransactionFailed ? error.fault : "engine";
      if (fault === "engine") {
        const unavailable = () => new AppError("unavailable", undefined, { cause: error });
        return () => {
          for (const { settle } of group) settle.reject(unavailable());
        };
      }
      if (group.length > 1) {
        for (const waiting of group) (await this.#carryOut([waiting]))();
        return () => {};
      }
      const [{ settle }] = group as [Waiting<Job, Outcome>];
      return () => (fault === "taken" ? settle.resolve("conflict") : settle.reject(error));
    }
  }
}
