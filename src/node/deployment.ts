// Rules C9 and C37 of docs/inside/correctness.md.
import type { Bus } from "../bus/bus.ts";
import { MemoryBus } from "../bus/memory-bus.ts";
import type { RedisMembershipOptions } from "../cluster/membership.ts";
import { isLoopback } from "../config/network.ts";
import type { Settings } from "../config/settings.ts";
import type { FloorId } from "../protocol/ids.ts";
import { MemoryQueue } from "../queue/memory-queue.ts";
import type { RunQueue } from "../queue/run-queue.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { Store } from "../store/store.ts";
import { DatabaseTime, keepComparing } from "../system/database-time.ts";
import { newId } from "../system/new-id.ts";
import { SystemClock } from "../system/system-clock.ts";

const OPEN_REDIS =
  "Redis has no password in INTERLOCK_BUS and is not on this machine: who reaches it can send commands as any owner";
/** How long Redis may take to answer a membership query, in ms. */
const RETRY_MS = 1_000;

/** The parts that differ between a single node and one of several. */
export interface Deployment {
  store: Store;
  bus: Bus;
  queue: RunQueue;
  clock: SystemClock;
  /** Measures elapsed time, and never jumps. */
  stopwatch: Clock;
  /**
   * Floors with a session whose time comes within these ms on the wall clock, before their alarm (rule C37). Absent
   * where the wall clock's time is the floors'.
   */
  lateRings?: ((withinMs: number, limit: number) => Promise<FloorId[]>) | undefined;
  /** Whether the clock is this machine's: then it can jump, and deadlines leave each jump out (rule C9). */
  hasOwnTime: boolean;
  /**
   * What is wrong with the store, so that this node should get no requests: sentences for `/ready`, which needs no
   * authentication, so only the log names the database. Empty while a database server is away: no other node does
   * better.
   */
  storeFaults: () => string[];
  /** Stores the membership; absent for a single node. */
  redis?: RedisMembershipOptions["redis"] | undefined;
}

/**
 * Open the store, the bus and the queue that the settings name. Disposing the deployment closes them in reverse; if one
 * of them cannot be opened, the others are closed before the error is thrown.
 * @param onNewEpoch called once when the store has got a new epoch, so that the node should end and start again
 * @throws Unreachable if a server does not answer; Error with a sentence for the operator that names the setting
 */
export async function openDeployment(
  settings: Settings,
  log: Logger,
  onNewEpoch: () => void,
): Promise<Deployment & AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const stored = opened.use(await openStore(settings, log, onNewEpoch));
  const transport = opened.use(await openTransport(settings, stored, log));
  const { store, clock, stopwatch, hasOwnTime, storeFaults, lateRings } = stored;
  const { bus, queue, redis } = transport;
  const parts = { store, bus, queue, clock, stopwatch, hasOwnTime, lateRings, storeFaults, redis };
  return disposedBy(opened.move(), parts);
}

type Transport = Pick<Deployment, "bus" | "queue" | "redis">;

async function openTransport(
  { bus: where }: Settings,
  { store: { epoch }, clock }: Stored,
  log: Logger,
): Promise<Transport & AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  if (where.kind === "memory") {
    const bus = opened.adopt(new MemoryBus(), (each) => each.close());
    const queue = opened.adopt(new MemoryQueue(clock.elapsed), (each) => each.close());
    return disposedBy(opened.move(), { bus, queue });
  }
  const urls = where.urls as [string, ...string[]];
  const { readRedisAddresses, unguardedServers } = await import("../bus/redis-address.ts");
  for (const redis of unguardedServers(readRedisAddresses(urls), isLoopback)) log.warn({ redis }, OPEN_REDIS);
  const { openRedisBus } = await import("../bus/redis-bus.ts");
  const bus = opened.adopt(await openRedisBus({ urls, epoch, clock, newId, log }), (each) => each.close());
  const { openBullmqQueue } = await import("../queue/bullmq-queue.ts");
  const queue = opened.adopt(await openBullmqQueue({ urls, epoch, clock: clock.elapsed, log }), (each) => each.close());
  const { connectRedis } = await import("../bus/redis-client.ts");
  const redis = await connectRedis(readRedisAddresses(urls)[0]!, clock, { commandTimeout: RETRY_MS });
  // Each command reports its own failure.
  redis.on("error", () => {});
  opened.defer(() => redis.disconnect());
  return disposedBy(opened.move(), { bus, queue, redis });
}

type Stored = Pick<Deployment, "store" | "clock" | "stopwatch" | "hasOwnTime" | "lateRings" | "storeFaults">;

async function openStore(
  { store: where, lostCommits, name, bus }: Settings,
  log: Logger,
  onNewEpoch: () => void,
): Promise<Stored & AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const own = new SystemClock();
  if (where.kind === "sqlite") {
    const store = await openSqliteStore({ file: where.file, clock: own, log });
    opened.defer(() => store.close());
    own.startAt(await store.newestTime(), (await store.loadJumps()).jumpedMs);
    own.start();
    opened.defer(() => own.stop());
    const storeFaults = () => store.faults();
    const stopwatch = new SystemClock();
    const lateRings = (withinMs: number, limit: number) => {
      const now = own.wallNow();
      return store.lateRings(now + withinMs, now - own.elapsed.now(), limit);
    };
    return disposedBy(opened.move(), { store, clock: own, stopwatch, hasOwnTime: true, storeFaults, lateRings });
  }
  const { openPostgresStore } = await import("../store/postgres/postgres-store.ts");
  const store = await openPostgresStore({
    url: where.url,
    clock: own,
    log,
    node: { name, bus: bus.kind },
    lostCommits,
    onNewEpoch,
  });
  opened.defer(() => store.close());
  // Rule C9: several nodes share the database's time. This node's own clock only measures elapsed time.
  const time = new DatabaseTime(await store.timeOffset());
  const clock = new SystemClock({ wall: () => own.now() + time.offsetMs, mayFall: true });
  opened.defer(keepComparing(time, { measure: () => store.timeOffset(), clock: own, log }));
  clock.start();
  opened.defer(() => clock.stop());
  // Nodes that are restarted serve what is there now.
  const replaced = "the database is not the store that this node opened: the log says what to do";
  const storeFaults = () => (store.isReplaced ? [replaced] : []);
  return disposedBy(opened.move(), { store, clock, stopwatch: own, hasOwnTime: false, storeFaults });
}

/** The parts, as one object whose disposal disposes the stack. */
function disposedBy<T extends object>(stack: AsyncDisposableStack, parts: T): T & AsyncDisposable {
  return { ...parts, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
