import type { Bus } from "./bus/bus.ts";
import { MemoryBus } from "./bus/memory-bus.ts";
import { MemoryQueue } from "./bus/memory-queue.ts";
import type { RedisMembershipOptions } from "./bus/redis-membership.ts";
import type { RunQueue } from "./bus/run-queue.ts";
import { SystemClock } from "./clock.ts";
import type { Settings } from "./config/settings.ts";
import { newId } from "./new-id.ts";
import type { Logger } from "./protocol/logger.ts";
import { openSqliteStore } from "./store/sqlite.ts";
import type { Store } from "./store/store.ts";

/** How often this node looks whether its clock and the database's still agree, in ms. */
const TIME_MS = 10_000;
/** How long a Redis that is asked who is there may take, in ms. */
const ASK_MS = 1_000;

/** What differs between a node that is alone and one of several. */
export interface Shape {
  store: Store;
  bus: Bus;
  queue: RunQueue;
  clock: SystemClock;
  /** Whether time is this machine's: then it can jump, and what waits for an instant is moved with it (rule C9). */
  hasOwnTime: boolean;
  /** For telling the nodes apart; absent where there is one. */
  redis?: RedisMembershipOptions["redis"] | undefined;
}

/**
 * Open what the settings name. What was opened is put into `closing`, also when the rest cannot be.
 * @throws Error with a sentence for the operator that names the setting
 */
export async function openShape(settings: Settings, log: Logger, closing: (() => unknown)[]): Promise<Shape> {
  const { store, clock, hasOwnTime } = await openStore(settings, log, closing);
  const { bus: where } = settings;
  if (where.kind === "memory") {
    const bus = new MemoryBus();
    const queue = new MemoryQueue(clock);
    closing.push(
      () => bus.close(),
      () => queue.close(),
    );
    return { store, bus, queue, clock, hasOwnTime };
  }
  const { epoch } = store;
  const urls = where.urls as [string, ...string[]];
  const { openRedisBus } = await import("./bus/redis-bus.ts");
  const bus = await openRedisBus({ urls, epoch, clock, newId, log });
  closing.push(() => bus.close());
  const { openBullmqQueue } = await import("./bus/bullmq-queue.ts");
  const queue = await openBullmqQueue({ urls, epoch, clock, log });
  closing.push(() => queue.close());
  const { connectRedis } = await import("./bus/redis-client.ts");
  const { readRedisAddresses } = await import("./bus/redis-address.ts");
  const redis = await connectRedis(readRedisAddresses(urls)[0]!, clock, { commandTimeout: ASK_MS });
  // What goes wrong is told by whoever asked.
  redis.on("error", () => {});
  closing.push(() => redis.disconnect());
  return { store, bus, queue, clock, hasOwnTime, redis };
}

type Stored = Pick<Shape, "store" | "clock" | "hasOwnTime">;

async function openStore({ store: where }: Settings, log: Logger, closing: (() => unknown)[]): Promise<Stored> {
  const own = new SystemClock();
  if (where.kind === "sqlite") {
    const store = await openSqliteStore({ file: where.file, clock: own, log });
    closing.push(() => store.close());
    own.startAt(await store.newestTime());
    own.start();
    closing.push(() => own.stop());
    return { store, clock: own, hasOwnTime: true };
  }
  const { openPostgresStore } = await import("./store/postgres.ts");
  const store = await openPostgresStore({ url: where.url, clock: own, log });
  closing.push(() => store.close());
  // Rule C9: several nodes go by the database's time. This one's own clock is only asked how much has passed.
  let offset = await store.timeOffset();
  const clock = new SystemClock({ wall: () => own.now() + offset });
  const compare = setInterval(() => {
    store.timeOffset().then(
      (now) => {
        offset = now;
      },
      (error) => log.debug({ err: error }, "the database could not be asked for the time"),
    );
  }, TIME_MS);
  compare.unref();
  clock.start();
  closing.push(() => {
    clearInterval(compare);
    clock.stop();
  });
  return { store, clock, hasOwnTime: false };
}
