import type { Job, Queue, Worker } from "bullmq";
import type { Redis } from "ioredis";
import { type Clock, sleep } from "../protocol/clock.ts";
import type { Effect } from "../protocol/effect.ts";
import type { Processing } from "./run-queue.ts";

/** How long a job stays a worker's without a sign of life, in ms, and how often one looks for such jobs. */
const LOCK_MS = 4_500;
const STALLED_MS = 2_000;
/** A job is begun again as often as its workers die: it is the floor that counts attempts and gives up (rule C11). */
const MAX_STALLED = 1_000_000;
/** After Redis was away, in ms. BullMQ's own default leaves runs waiting for 15 s. */
const TRY_AGAIN_MS = 500;
/** How long Redis may take to hear of what has ended when work is stopped, in ms. */
const LEAVE_MS = 1_000;
/** Events of the queue that are kept for whoever looks at it with a tool. */
const KEPT_EVENTS = 1_000;
/** BullMQ serves 1 first, and what has no priority before that. */
const LAST_PRIORITY = 101;

type Handler = (effect: Effect) => Promise<void>;
type Bullmq = typeof import("bullmq");

export interface BullmqLaneOptions {
  /** Fails fast. */
  producer: Redis;
  /** Waits for Redis. */
  worker: Redis;
  prefix: string;
  clock: Clock;
  onFault: (error: unknown) => void;
}

/** One of BullMQ's queues: the effects of one kind. */
export class BullmqLane {
  readonly #name: string;
  readonly #options: BullmqLaneOptions;
  readonly #bullmq: Bullmq;
  readonly #queue: Queue<Effect>;
  #worker: Worker<Effect> | undefined;

  static async open(name: string, options: BullmqLaneOptions): Promise<BullmqLane> {
    const lane = new BullmqLane(name, options, await import("bullmq"));
    await lane.#queue.waitUntilReady();
    return lane;
  }

  private constructor(name: string, options: BullmqLaneOptions, bullmq: Bullmq) {
    const { producer, prefix, onFault } = options;
    this.#name = name;
    this.#options = options;
    this.#bullmq = bullmq;
    this.#queue = new bullmq.Queue(name, {
      connection: producer,
      prefix,
      streams: { events: { maxLen: KEPT_EVENTS } },
      // Nothing is left behind that would swallow the same id later (rule C7).
      defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true, keepLogs: 0, stackTraceLimit: 1 },
    });
    this.#queue.on("error", onFault);
  }

  async add(effect: Effect): Promise<void> {
    await this.#queue.add(effect.kind === "run" ? effect.agentId : effect.kind, effect, {
      jobId: effect.id,
      delay: Math.max(0, effect.dueAt - this.#options.clock.now()),
      ...(effect.kind === "run" && { priority: LAST_PRIORITY - effect.priority }),
    });
  }

  process(handler: Handler, concurrency: number): Processing {
    if (this.#worker) throw new Error(`${this.#name} have a handler already`);
    const { worker: connection, prefix, clock, onFault } = this.#options;
    let underWay = 0;
    let isStopped = false;
    let onIdle = () => {};
    const carryOut = async (job: Job<Effect>, token?: string) => {
      const earlyMs = job.data.dueAt - clock.now();
      if (isStopped || earlyMs > 0) await this.#sendBack(job, token, earlyMs);
      underWay += 1;
      try {
        await handler(job.data);
      } catch {
        // The handler tells of its own failures; the store still has the effect.
      } finally {
        underWay -= 1;
        if (underWay === 0) onIdle();
      }
    };
    const worker = new this.#bullmq.Worker<Effect>(this.#name, carryOut, {
      connection,
      prefix,
      concurrency,
      lockDuration: LOCK_MS,
      stalledInterval: STALLED_MS,
      maxStalledCount: MAX_STALLED,
      runRetryDelay: TRY_AGAIN_MS,
    });
    worker.on("error", onFault);
    this.#worker = worker;
    return {
      setConcurrency: (more) => {
        const isFull = underWay >= worker.concurrency;
        const isMore = more > worker.concurrency;
        worker.concurrency = more;
        if (!isFull || !isMore || isStopped) return;
        // A worker that is full looks up when a job ends; going on after a pause, it looks up at once.
        void worker.pause(true);
        void worker.resume();
      },
      stop: async () => {
        isStopped = true;
        this.#worker = undefined;
        const closed = worker.close();
        if (underWay > 0) {
          await new Promise<void>((resolve) => {
            onIdle = resolve;
          });
        }
        // Where Redis is away, a job that ended is found to be stalled later, and its floor says so (rule C10).
        await Promise.race([closed, sleep(clock, LEAVE_MS)]);
      },
    };
  }

  async close(): Promise<void> {
    const closed = Promise.all([this.#worker?.close(true), this.#queue.close()]);
    await Promise.race([closed, sleep(this.#options.clock, LEAVE_MS)]);
  }

  /** @throws what makes BullMQ keep the job: it is not to be carried out here, or not yet */
  async #sendBack(job: Job<Effect>, token: string | undefined, earlyMs: number): Promise<never> {
    const { WaitingError, DelayedError } = this.#bullmq;
    if (earlyMs > 0) {
      // BullMQ goes by the clocks of its nodes; what is due is told by ours.
      await job.moveToDelayed(job.processedOn! + earlyMs, token);
      throw new DelayedError();
    }
    // It was on its way while the work was stopped; another node may have it at once.
    await job.moveToWait(token);
    throw new WaitingError();
  }
}
