// Rule C7 of docs/inside/correctness.md.
import type { Job, Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { Alarm } from "../protocol/internal/run-request.ts";
import { within } from "../shared/waiting.ts";
import { BullmqWork, type BullmqWorkOptions } from "./bullmq-work.ts";
import type { Handler, Queued, WaitingRuns } from "./run-queue.ts";

/** The number of queue events that Redis keeps, for inspection with BullMQ's tools. */
const KEPT_EVENTS = 1_000;
/** BullMQ serves jobs without a priority first, then 1, then higher numbers: the reverse of a run's priority. */
const LAST_PRIORITY = 101;
/** A run request that is added again this long after it was due may be delayed in Redis by a wrong clock, in ms. */
const LATE_MS = 1_000;
/** Jobs at each end of those that wait, of which the oldest is looked for. */
const LOOKED_AT = 99;
/** How long closing may take, in ms. */
const CLOSE_MS = 1_000;

export interface BullmqKindQueueOptions extends Pick<BullmqWorkOptions, "worker" | "prefix" | "clock" | "onFault"> {
  /** Fails fast. */
  producer: Redis;
}

/** One of BullMQ's queues: runs, or alarms. */
export class BullmqKindQueue {
  readonly #name: string;
  readonly #options: BullmqKindQueueOptions;
  readonly #bullmq: typeof import("bullmq");
  readonly #queue: Queue<Queued>;
  #work: BullmqWork | undefined;
  #isOpening = false;

  static async open(name: string, options: BullmqKindQueueOptions): Promise<BullmqKindQueue> {
    const queue = new BullmqKindQueue(name, options, await import("bullmq"));
    await queue.#queue.waitUntilReady();
    return queue;
  }

  private constructor(name: string, options: BullmqKindQueueOptions, bullmq: typeof import("bullmq")) {
    const { producer, prefix, onFault } = options;
    this.#name = name;
    this.#options = options;
    this.#bullmq = bullmq;
    this.#queue = new bullmq.Queue(name, {
      connection: producer,
      prefix,
      streams: { events: { maxLen: KEPT_EVENTS } },
      // A finished job must not remain: BullMQ would ignore a later job with the same id (rule C7).
      defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true, keepLogs: 0 },
    });
    this.#queue.on("error", onFault);
  }

  /** @param replaced an alarm that it replaces; if that cannot be removed, it comes in vain */
  async add(queued: Queued, replaced?: Alarm): Promise<void> {
    const [job] = await Promise.all([this.#put(queued), replaced && this.#queue.remove(jobIdOf(replaced))]);
    if (this.#options.clock.now() - queued.dueAt < LATE_MS) return;
    // BullMQ uses each node's clock: a node whose clock is ahead delays what it adds for the others. A job that waits
    // or runs already is not delayed, and stays as it is.
    if ((await succeeds(job.promote())) || (await job.getState()) !== "unknown") return;
    // Redis has the job but no list with it, after it has lost some of its keys: BullMQ would never hand it out, and
    // ignores what is added under its id. A job that a worker still carries out is locked, and is not removed.
    if (await succeeds(job.remove())) await this.#put(queued);
  }

  #put(queued: Queued): Promise<Job<Queued>> {
    return this.#queue.add(queued.kind === "run" ? queued.agentId : queued.kind, queued, {
      jobId: jobIdOf(queued),
      delay: Math.max(0, queued.dueAt - this.#options.clock.now()),
      ...(queued.kind === "run" && { priority: LAST_PRIORITY - queued.priority }),
    });
  }

  /** The jobs that are due and that no worker has. */
  async waiting(): Promise<WaitingRuns> {
    const states = ["waiting", "prioritized"] as const;
    // Both ends: the jobs of the lowest priority wait longest, and of one priority the first one does.
    const [counts, ...ends] = await Promise.all([
      this.#queue.getJobCounts(...states),
      this.#queue.getJobs([...states], 0, LOOKED_AT, true),
      this.#queue.getJobs([...states], 0, LOOKED_AT, false),
    ]);
    // A job that a worker took meanwhile is missing.
    const due = ends.flat().flatMap((job) => (job ? [job.data.dueAt] : []));
    const count = states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
    return { count, since: due.length > 0 ? Math.min(...due) : undefined };
  }

  /** @throws AppError `unavailable` when Redis does not answer */
  async process(handler: Handler, concurrency: number): Promise<BullmqWork> {
    if (this.#isOpening || this.#work?.isStopped === false)
      throw new Error(`the queue ${this.#name} already has a handler`);
    this.#isOpening = true;
    try {
      const name = this.#name;
      this.#work = await BullmqWork.open({ ...this.#options, bullmq: this.#bullmq, name, concurrency, handler });
      return this.#work;
    } finally {
      this.#isOpening = false;
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#work?.leave(), within(this.#options.clock, CLOSE_MS, this.#queue.close())]);
  }
}

const succeeds = (promise: Promise<unknown>): Promise<boolean> =>
  promise.then(
    () => true,
    () => false,
  );

/** BullMQ's ids have no colon, and floors' ids have. */
const jobIdOf = ({ id }: Queued): string => encodeURIComponent(id);
