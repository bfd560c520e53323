import type { Redis } from "ioredis";
import { type RedisOptions, readRedisAddresses } from "../bus/redis-address.ts";
import { connectRedis, redisReasonOf } from "../bus/redis-client.ts";
import { AppError } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import type { Alarm } from "../protocol/internal/run-request.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { RecentMap } from "../shared/recent-map.ts";
import { BullmqKindQueue } from "./bullmq-kind-queue.ts";
import type { Handler, Processing, Queued, RunQueue, WaitingRuns } from "./run-queue.ts";

/**
 * Redis counts as away when it has answered nothing in two checks in a row, this many ms apart; what was to be added is
 * then left to the next sweep. One check is not enough: a busy process reads answers late.
 */
const LOOK_MS = 400;
const MISSED = 2;
/** Concurrent additions to Redis: a Redis that stops answering must not fill this process's memory. */
const MAX_ADDING = 10_000;
/**
 * BullMQ requires that a worker's commands wait for Redis without a limit. A connection that waits for jobs may be
 * silent for 10 s; a longer silence means that it is dead.
 */
const PATIENT: RedisOptions = {
  maxRetriesPerRequest: null,
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  socketTimeout: 15_000,
};
/** Alarms that are remembered, so that a new one can replace them in Redis. A forgotten alarm fires too early. */
const MAX_ALARMS = 10_000;
/** A fault that is reported again within this time, in ms, belongs to the same outage. */
const SOON_MS = 10_000;
/** Distinct faults that are logged per outage; further ones add no information. */
const MAX_LOGGED = 20;
const LOST_JOB = /^(Missing (lock|key)|Lock mismatch|could not renew lock) for a job/;

export interface BullmqQueueOptions {
  /** The addresses of the bus. The queue uses one of them, the same on all nodes. */
  urls: readonly [string, ...string[]];
  /** Identifies the store: all keys of the queue begin with it (rule C20). */
  epoch: string;
  /** Its time is the floors'. */
  clock: Clock;
  log: Logger;
}

/**
 * Open the run queue over BullMQ: its queues `runs` and `alarms`, under the prefix `<epoch>`. Finished jobs are removed
 * from Redis. Another worker restarts the jobs of a killed worker within about 6 s.
 *
 * @throws Error with a sentence for the operator when the server cannot be used
 */
export async function openBullmqQueue({ urls, epoch, clock, log }: BullmqQueueOptions): Promise<RunQueue> {
  const address = readRedisAddresses(urls)[0]!;
  const faults = new Faults(log, clock, address.label);
  const clients: Redis[] = [];
  const connect = async (options?: RedisOptions) => {
    const client = await connectRedis(address, clock, options);
    clients.push(client);
    client.on("error", (error) => faults.report(error));
    return client;
  };
  try {
    const producer = await connect();
    const worker = await connect(PATIENT);
    producer.on("ready", () => faults.forget());
    const shared = { producer, worker, prefix: epoch, clock, onFault: (error: unknown) => faults.report(error) };
    const queues = {
      run: await BullmqKindQueue.open("runs", shared),
      alarm: await BullmqKindQueue.open("alarms", shared),
    };
    return new BullmqQueue(clock, queues, clients);
  } catch (error) {
    for (const client of clients) client.disconnect();
    throw error;
  }
}

class BullmqQueue implements RunQueue {
  readonly #clock: Clock;
  readonly #queues: Record<Queued["kind"], BullmqKindQueue>;
  readonly #clients: Redis[];
  /** The alarm of each floor that this node added last. */
  readonly #alarms = new RecentMap<FloorId, Alarm>(MAX_ALARMS);
  #adding = 0;
  /** The number of answers from Redis, acceptances and refusals. */
  #answers = 0;
  #isClosed = false;

  constructor(clock: Clock, queues: Record<Queued["kind"], BullmqKindQueue>, clients: Redis[]) {
    this.#clock = clock;
    this.#queues = queues;
    this.#clients = clients;
  }

  async add(queued: Queued): Promise<void> {
    if (this.#isClosed) throw new AppError("unavailable");
    if (this.#adding >= MAX_ADDING)
      throw new AppError("unavailable", "too many runs and alarms are waiting for the run queue");
    this.#adding += 1;
    const added = this.#queues[queued.kind].add(queued, this.#replacedBy(queued)).finally(() => {
      this.#adding -= 1;
    });
    await this.#inTime(added);
  }

  waitingRuns(): Promise<WaitingRuns> {
    return this.#queues.run.waiting();
  }

  async process<K extends Queued["kind"]>(
    kind: K,
    handler: (queued: Extract<Queued, { kind: K }>) => Promise<void>,
    { concurrency }: { concurrency: number },
  ): Promise<Processing> {
    return this.#queues[kind].process(handler as Handler, concurrency);
  }

  /** The floor's former alarm, if it is another one and has not come yet. */
  #replacedBy(queued: Queued): Alarm | undefined {
    if (queued.kind !== "alarm") return undefined;
    const former = this.#alarms.get(queued.floorId);
    this.#alarms.set(queued.floorId, queued);
    return former && former.id !== queued.id && former.dueAt > this.#clock.now() ? former : undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(Object.values(this.#queues).map((queue) => queue.close()));
    for (const client of this.#clients) client.disconnect();
  }

  /** Wait for an addition while Redis answers others: answers arrive in order, so this one's will arrive too. */
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
      const finish = (then: () => void) => {
        this.#answers += 1;
        looking.cancel();
        then();
      };
      added.then(
        () => finish(resolve),
        (error) => finish(() => away(redisReasonOf(error))),
      );
    });
  }
}

/**
 * Logs background faults. The client repeats the same fault at every retry, so each is logged once per outage. A
 * restored connection ends the outage, unless the fault comes back soon: a server that refuses writes is connected to
 * again and again.
 */
class Faults {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #server: string;
  readonly #logged = new Map<string, { at: number; isOver: boolean }>();

  constructor(log: Logger, clock: Clock, server: string) {
    this.#log = log;
    this.#clock = clock;
    this.#server = server;
  }

  report(error: unknown): void {
    const reason = redisReasonOf(error).replace(/ job \S+/, " a job");
    const now = this.#clock.now();
    for (const [each, { at, isOver }] of this.#logged) if (isOver && now - at >= SOON_MS) this.#logged.delete(each);
    const isLogged = this.#logged.has(reason);
    if (!isLogged && this.#logged.size >= MAX_LOGGED) return;
    this.#logged.set(reason, { at: now, isOver: false });
    if (isLogged) return;
    const facts = { server: this.#server, reason };
    // Claims make a job that two workers start harmless (rule C10).
    if (LOST_JOB.test(reason)) this.#log.debug(facts, "this worker has lost a job to another");
    else this.#log.warn(facts, "the run queue has a problem with Redis; it keeps retrying");
  }

  forget(): void {
    for (const fault of this.#logged.values()) fault.isOver = true;
  }
}
