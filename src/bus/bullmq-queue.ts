import type { Redis } from "ioredis";
import type { Clock, Timer } from "../protocol/clock.ts";
import type { Effect } from "../protocol/effect.ts";
import { AppError } from "../protocol/errors.ts";
import type { Logger } from "../protocol/logger.ts";
import { BullmqLane } from "./bullmq-lane.ts";
import { type RedisOptions, readRedisAddresses } from "./redis-address.ts";
import { connectRedis, reasonOf } from "./redis-client.ts";
import type { Processing, RunQueue } from "./run-queue.ts";

/**
 * A Redis that answers nothing between two looks, in ms, and again nothing, is away: what was to be added is left to the
 * next sweep. One look does not do: a process that was busy reads late.
 */
const LOOK_MS = 400;
const MISSED = 2;
/** Effects that may be on their way to Redis at a time: a Redis that takes no more shall not fill this process. */
const MAX_ADDING = 10_000;
/**
 * BullMQ wants the commands of a worker to wait for Redis, however long it is away. Waiting for jobs, a connection may
 * say nothing for 10 s; one that is silent for longer is dead.
 */
const PATIENT: RedisOptions = {
  maxRetriesPerRequest: null,
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  socketTimeout: 15_000,
};
/** Different faults of one outage; those beyond them would tell nothing new. */
const MAX_TOLD = 20;
const LOST_JOB = /^(Missing (lock|key)|Lock mismatch|could not renew lock) for a job/;

export interface BullmqQueueOptions {
  /** The addresses the bus has; the queue is on one of them, the same for all nodes. */
  urls: readonly [string, ...string[]];
  /** Names the store: the keys of all that is here begin with it (rule C20). */
  epoch: string;
  clock: Clock;
  log: Logger;
}

/**
 * The run queue over BullMQ: two of its queues, `runs` and `timers`, under the prefix `<epoch>`. Nothing stays in Redis
 * of what is done, and what a killed worker had under way is begun again elsewhere within some six seconds.
 *
 * @throws Error with a sentence for the operator when the server cannot be had
 */
export async function openBullmqQueue({ urls, epoch, clock, log }: BullmqQueueOptions): Promise<RunQueue> {
  const address = readRedisAddresses(urls)[0]!;
  const faults = new Faults(log, address.label);
  const clients: Redis[] = [];
  const connect = async (options?: RedisOptions) => {
    const client = await connectRedis(address, clock, options);
    clients.push(client);
    client.on("error", (error) => faults.tell(error));
    return client;
  };
  try {
    const producer = await connect();
    const worker = await connect(PATIENT);
    producer.on("ready", () => faults.forget());
    const shared = { producer, worker, prefix: epoch, clock, onFault: (error: unknown) => faults.tell(error) };
    const lanes = { run: await BullmqLane.open("runs", shared), timer: await BullmqLane.open("timers", shared) };
    return new BullmqQueue(clock, lanes, clients);
  } catch (error) {
    for (const client of clients) client.disconnect();
    throw error;
  }
}

class BullmqQueue implements RunQueue {
  readonly #clock: Clock;
  readonly #lanes: Record<Effect["kind"], BullmqLane>;
  readonly #clients: Redis[];
  #adding = 0;
  /** How often Redis took an effect, or refused to. */
  #answers = 0;
  #isClosed = false;

  constructor(clock: Clock, lanes: Record<Effect["kind"], BullmqLane>, clients: Redis[]) {
    this.#clock = clock;
    this.#lanes = lanes;
    this.#clients = clients;
  }

  async add(effect: Effect): Promise<void> {
    if (this.#isClosed) throw new AppError("unavailable");
    if (this.#adding >= MAX_ADDING) throw new AppError("unavailable", "too much waits for the run queue");
    this.#adding += 1;
    const added = this.#lanes[effect.kind].add(effect).finally(() => {
      this.#adding -= 1;
    });
    await this.#inTime(added);
  }

  async process<K extends Effect["kind"]>(
    kind: K,
    handler: (effect: Extract<Effect, { kind: K }>) => Promise<void>,
    { concurrency }: { concurrency: number },
  ): Promise<Processing> {
    return this.#lanes[kind].process(handler as (effect: Effect) => Promise<void>, concurrency);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(Object.values(this.#lanes).map((lane) => lane.close()));
    for (const client of this.#clients) client.disconnect();
  }

  /** Answers come in order: while there are any, this one's comes too. */
  #inTime(added: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const away = (reason = "it does not answer") =>
        reject(new AppError("unavailable", "the run queue is away", { cause: new Error(reason) }));
      let seen = this.#answers;
      let missed = 0;
      const look = (): Timer =>
        this.#clock.after(LOOK_MS, () => {
          missed = this.#answers === seen ? missed + 1 : 0;
          seen = this.#answers;
          if (missed === MISSED) away();
          else looking = look();
        });
      let looking = look();
      const settle = (settled: () => void) => {
        this.#answers += 1;
        looking.cancel();
        settled();
      };
      added.then(
        () => settle(resolve),
        (error) => settle(() => away(reasonOf(error))),
      );
    });
  }
}

/**
 * What goes wrong in the background, in the same words at every try: they are told once, and again when the connection
 * was there in between.
 */
class Faults {
  readonly #log: Logger;
  readonly #server: string;
  readonly #told = new Set<string>();

  constructor(log: Logger, server: string) {
    this.#log = log;
    this.#server = server;
  }

  tell(error: unknown): void {
    const reason = reasonOf(error).replace(/ job \S+/, " a job");
    if (this.#told.has(reason) || this.#told.size >= MAX_TOLD) return;
    this.#told.add(reason);
    const facts = { server: this.#server, reason };
    // Claims see to it that a job begun twice does no harm (rule C10).
    if (LOST_JOB.test(reason)) this.#log.debug(facts, "a job is not this worker's any more");
    else this.#log.warn(facts, "the run queue has trouble with Redis; it goes on trying");
  }

  forget(): void {
    this.#told.clear();
  }
}
