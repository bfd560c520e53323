import { AppError } from "../../../src/protocol/errors.ts";
import type { Processing, Queued, RunQueue } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Life } from "../nodes/life.ts";
import type { Surroundings } from "../surroundings.ts";

/** The chance of each fault of a job, in percent. */
export interface QueueWeather {
  /** It cannot be added. */
  refuse: number;
  /** It is handed out later than it was due, by up to `lateMs`. */
  late: number;
  lateMs: number;
  /** It is handed out twice at once. */
  twice: number;
}

export const FAIR_QUEUE: QueueWeather = { refuse: 0, late: 0, lateMs: 0, twice: 0 };

/** The time without a renewal after which a job is handed out again, in ms: short, because histories are short. */
const LOCK_MS = 1_200;
/** The interval between checks of the locks, in ms. */
const STALLED_MS = 400;
const TRAVEL_MS = 3;

type Handler = (entry: Queued) => Promise<void>;

interface Consumer {
  life: Life;
  kind: Queued["kind"];
  handler: Handler;
  concurrency: number;
  /** Called when no job is in progress any more. */
  onIdle?: (() => void) | undefined;
  underWay: number;
  isStopped: boolean;
}

interface Job {
  entry: Queued;
  /** The process that has the job, and the time at which its lock expires. */
  holder?: { consumer: Consumer; until: number } | undefined;
  isReady: boolean;
}

/**
 * A queue between nodes with the behaviour of the real one: an id that it has is not added again, a job whose process
 * stopped renewing is handed to another, and all jobs may be lost at any time.
 */
export class JobQueue {
  readonly #world: Surroundings;
  readonly #jobs = new Map<Queued["id"], Job>();
  readonly #consumers = new Set<Consumer>();
  weather = FAIR_QUEUE;

  constructor(world: Surroundings) {
    this.#world = world;
  }

  start(): void {
    const look = () => {
      this.#renewLocks();
      this.#world.clock.after(STALLED_MS, look);
    };
    this.#world.clock.after(STALLED_MS, look);
  }

  /** All jobs are lost; processes that work on a job are not notified. */
  forget(): void {
    this.#world.trace.add("queue", `forgets ${this.#jobs.size} jobs`);
    this.#jobs.clear();
  }

  /** The queue as one process has it; the process's own clock measures the delay of a job. */
  link(life: Life, own: Clock): RunQueue {
    life.onDeath(() => {
      for (const consumer of this.#consumers) if (consumer.life === life) this.#consumers.delete(consumer);
    });
    const { clock, chance } = this.#world;
    return {
      add: (entry) =>
        life.call((done, failed) => {
          const delayMs = entry.dueAt - own.now();
          const isRefused = this.weather.refuse > 0 && chance.percent(this.weather.refuse);
          clock.after(1 + chance.below(TRAVEL_MS), () => {
            if (isRefused) return failed(new AppError("unavailable"));
            this.#add(entry, delayMs);
            clock.after(1 + chance.below(TRAVEL_MS), () => done(undefined));
          });
        }),
      process: async (kind, handler, { concurrency }) => this.#process(life, kind, handler as Handler, concurrency),
      waitingRuns: async () => {
        const waiting = [...this.#jobs.values()].filter(({ isReady, holder }) => isReady && !holder);
        const due = waiting.flatMap(({ entry }) => (entry.kind === "run" ? [entry.dueAt] : []));
        return { count: due.length, since: due.length > 0 ? Math.min(...due) : undefined };
      },
      close: async () => {},
    };
  }

  #process(life: Life, kind: Queued["kind"], handler: Handler, concurrency: number): Processing {
    const consumer: Consumer = { life, kind, handler, concurrency, underWay: 0, isStopped: false };
    this.#consumers.add(consumer);
    this.#handOutAll();
    return {
      setConcurrency: (more) => {
        consumer.concurrency = more;
        if (life.acts()) this.#handOutAll();
      },
      stop: async () => {
        consumer.isStopped = true;
        this.#consumers.delete(consumer);
        if (consumer.underWay === 0) return;
        await new Promise<void>((resolve) => {
          consumer.onIdle = resolve;
        });
      },
    };
  }

  #add(entry: Queued, delayMs: number): void {
    if (this.#jobs.has(entry.id)) return;
    const { clock, chance, trace } = this.#world;
    const job: Job = { entry, isReady: false };
    this.#jobs.set(entry.id, job);
    const isLate = this.weather.late > 0 && chance.percent(this.weather.late);
    const lateMs = isLate ? chance.below(this.weather.lateMs) : 0;
    if (isLate) trace.add("queue", `${entry.id} will be ${lateMs} ms late`);
    clock.after(Math.max(0, delayMs) + lateMs, () => {
      job.isReady = true;
      if (this.#jobs.get(entry.id) === job) this.#handOut(job);
    });
  }

  #handOutAll(): void {
    for (const job of this.#jobs.values()) if (job.isReady && !job.holder) this.#handOut(job);
  }

  #handOut(job: Job): void {
    const { chance } = this.#world;
    const isTwice = this.weather.twice > 0 && chance.percent(this.weather.twice);
    for (let count = isTwice ? 2 : 1; count > 0; count--) {
      const free = [...this.#consumers].filter(
        ({ kind, underWay, concurrency }) => kind === job.entry.kind && underWay < concurrency,
      );
      if (free.length === 0) return;
      this.#giveTo(chance.pick(free), job);
    }
  }

  #giveTo(consumer: Consumer, job: Job): void {
    const { clock, chance, trace } = this.#world;
    const { entry } = job;
    const hold = { consumer, until: clock.now() + LOCK_MS };
    job.holder = hold;
    consumer.underWay += 1;
    trace.add("queue", `→ ${consumer.life.name}: ${entry.kind} ${entry.id}`);
    const finish = () => {
      if (this.#jobs.get(entry.id) === job && job.holder === hold) this.#jobs.delete(entry.id);
      this.#handOutAll();
    };
    clock.after(1 + chance.below(TRAVEL_MS), () =>
      consumer.life.enter(() => {
        const end = () => {
          consumer.underWay -= 1;
          if (consumer.underWay === 0) consumer.onIdle?.();
          if (consumer.life.acts()) clock.after(1 + chance.below(TRAVEL_MS), finish);
        };
        consumer.handler(entry).then(end, end);
      }),
    );
  }

  /** A process that is awake renews its locks; the jobs of one that sleeps go to another. */
  #renewLocks(): void {
    const { clock, trace } = this.#world;
    for (const job of this.#jobs.values()) {
      if (!job.holder) continue;
      if (job.holder.consumer.life.isAwake) job.holder.until = clock.now() + LOCK_MS;
      if (job.holder.until > clock.now()) continue;
      trace.add("queue", `${job.entry.id} has stalled`);
      job.holder = undefined;
      this.#handOut(job);
    }
  }
}
