import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { Armer } from "./actors/armer.ts";
import { Host } from "./actors/host.ts";
import { createRegistry } from "./agents/registry.ts";
import { Mailbox } from "./bus/mailbox.ts";
import { MemoryBus } from "./bus/memory-bus.ts";
import { MemoryQueue } from "./bus/memory-queue.ts";
import { MemoryTickets } from "./bus/memory-tickets.ts";
import { SystemClock } from "./clock.ts";
import { loadCatalog } from "./config/catalog-file.ts";
import { BOUNDS, type Settings } from "./config/settings.ts";
import { watchCatalog } from "./config/watch.ts";
import type { Access } from "./gateway/access.ts";
import { createGateway, type Gateway } from "./gateway/app.ts";
import { openVerifier } from "./gateway/verifier.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import type { Clock } from "./protocol/clock.ts";
import type { Envelope } from "./protocol/command.ts";
import type { Logger } from "./protocol/logger.ts";
import { Worker } from "./runs/worker.ts";
import { Retention } from "./store/retention.ts";
import { openSqliteStore } from "./store/sqlite.ts";

/** A node: set up without touching anything, started once, stopped once. */
export interface App {
  /**
   * Load the catalogue, open the store, go on where everything was, and listen. Resolves when requests are answered.
   * @throws Error with a sentence for the operator: the catalogue is faulty, the store cannot be had, the port is taken
   */
  start(): Promise<{ url: string }>;
  /** Send readers away, let runs end or give them back, and close. Asked again it is the same stop. */
  stop(): Promise<void>;
}

export interface AppOptions {
  settings: Settings;
  /** Where the keys of providers are looked up. Default: the environment. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Default: stderr, as `settings.logLevel` says. */
  log?: Logger;
}

export const VERSION: string = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;

/** Of the drain, what runs get to come to their end before they are given back. */
const RUN_GRACE = 0.5;
const GIVE_BACK = 0.3;

/** The composition root: which store, which bus and which queue is decided here and known nowhere above. */
export function createApp({ settings, env = process.env, log = createLog(settings.logLevel) }: AppOptions): App {
  let running: Promise<Running> | undefined;
  let stopping: Promise<void> | undefined;
  return {
    async start() {
      if (running) throw new Error("this app was started before");
      running = run(settings, env, log);
      return { url: (await running).url };
    },
    stop() {
      stopping ??= (running ?? Promise.reject(new Error("this app was never started"))).then((node) => node.stop());
      return stopping;
    },
  };
}

interface Running {
  url: string;
  stop(): Promise<void>;
}

async function run(settings: Settings, env: NonNullable<AppOptions["env"]>, log: Logger): Promise<Running> {
  /** In the order in which things were opened; closed in reverse. */
  const closing: (() => unknown)[] = [];
  const closeAll = async () => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    return await open(settings, env, log, closing, closeAll);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function open(
  settings: Settings,
  env: NonNullable<AppOptions["env"]>,
  log: Logger,
  closing: (() => unknown)[],
  closeAll: () => Promise<void>,
): Promise<Running> {
  const reading = await loadCatalog(settings.configPath);
  if (!reading.ok) throw new CatalogError(settings.configPath, reading.faults);
  const clock = new SystemClock();
  const access = await openAccess(settings, clock, log);
  if (access) closing.push(() => access.verifier.close());
  if (settings.store.kind !== "sqlite") throw new Error("INTERLOCK_STORE: only SQLite is wired so far");
  const store = await openSqliteStore({ file: settings.store.file, clock, log });
  closing.push(() => store.close());
  clock.startAt(await store.newestTime());
  clock.start();
  closing.push(() => clock.stop());
  const watched = watchCatalog({ path: settings.configPath, initial: reading.catalog, clock, log });
  closing.push(() => watched.close());
  const catalog = () => watched.current();

  const bus = new MemoryBus();
  const queue = new MemoryQueue(clock);
  closing.push(
    () => bus.close(),
    () => queue.close(),
  );
  // One process looks after all floors, so an ask never leaves it.
  const mailbox = new Mailbox({
    bus,
    clock,
    newId,
    nodeId: newId(),
    topicOf: () => `${store.epoch}.floors`,
    local: () => (envelope) => host.deliver(envelope),
  });
  await mailbox.start();
  closing.push(() => mailbox.stop());
  const ask = (envelope: Envelope) => mailbox.ask(envelope);

  const metrics = new Metrics({
    connections: () => gateway?.streams.count ?? 0,
    floors: () => host.floorCount,
    followed: () => gateway?.followers.count ?? 0,
  });
  const askTimeoutMs = settings.commandDeadlineMs;
  const armer = new Armer({ store, queue, clock, newId, ask, askTimeoutMs, log });
  const host = new Host({
    store,
    bus,
    clock,
    newId,
    catalog,
    interactionTimeoutMs: settings.interactionTimeoutMs,
    arm: (effect) => armer.arm(effect),
    maxFloors: BOUNDS.activeFloors,
    log,
    metrics,
  });
  const retention = new Retention({
    store,
    clock,
    log,
    everyMs: BOUNDS.pruneMs,
    limit: BOUNDS.prunePage,
    receiptMs: BOUNDS.receiptMs,
    retentionMs: settings.retentionMs,
    doubtMs: BOUNDS.receiptMs,
  });
  clock.onJump((byMs) => {
    log.warn({ byMs }, "the wall clock jumped: what waits for an instant waits as long as before");
    retention.suspend();
    store.shiftEffects(byMs).then(
      () => armer.sweep(),
      (error) => log.error({ err: error }, "what waits for an instant could not be moved"),
    );
  });
  const agents = createRegistry({
    catalog,
    env,
    onFault: (fault, agentId) => log.error({ err: fault, agentId }, "a sub-agent failed"),
  });
  const worker = new Worker({
    queue,
    bus,
    store,
    ask,
    agents,
    clock,
    newId,
    askTimeoutMs,
    concurrency: BOUNDS.runs,
    maxHeld: settings.maxHeld,
    holdTimeoutMs: settings.holdTimeoutMs,
    log,
    metrics,
  });

  let isStopping = false;
  const gateway: Gateway = createGateway({
    access,
    proxies: settings.proxies,
    ask,
    store,
    bus,
    clock,
    newId,
    random: Math.random,
    catalog,
    catalogStatus: () => watched.status(),
    isAvailable: (agentId) => agents.isAvailable(agentId),
    missing: () => (isStopping ? ["the node is shutting down"] : []),
    metrics: () => metrics.read(),
    version: VERSION,
    log,
    origin: { host: settings.host, hosts: settings.hosts, origins: settings.origins },
    maxBodyBytes: settings.maxBodyBytes,
    commandDeadlineMs: settings.commandDeadlineMs,
    onCut: () => metrics.slowReaderCut(),
  });
  closing.push(() => gateway.close(0));
  const { host: address, port } = await gateway.listen(settings.host, settings.port);
  await worker.start();
  await armer.start();
  retention.start();

  return {
    url: `http://${address.includes(":") ? `[${address}]` : address}:${port}`,
    async stop() {
      isStopping = true;
      const { drainMs } = settings;
      await Promise.all([
        gateway.close(drainMs),
        worker.stop({ graceMs: drainMs * RUN_GRACE, giveBackMs: drainMs * GIVE_BACK }),
      ]);
      await armer.stop();
      await retention.stop();
      host.retireIdle();
      await closeAll();
    },
  };
}

/** How callers are told apart; undefined where they are not. */
async function openAccess(settings: Settings, clock: Clock, log: Logger): Promise<Access | undefined> {
  const { auth, issuer, audience, rateLimits } = settings;
  if (auth === "none") return undefined;
  const verifier = await openVerifier(auth, { issuer, audience, clock, log });
  return { verifier, rateLimits, tickets: new MemoryTickets(clock) };
}

/** The catalogue cannot be used; its message names every fault and where it is. */
export class CatalogError extends Error {
  constructor(path: string, faults: readonly { line: number; column: number; path: string; message: string }[]) {
    const lines = faults.map(
      ({ line, column, path: place, message }) =>
        `${path}:${line}:${column} ${place === "" ? "" : `${place}: `}${message}`,
    );
    super(`the catalogue cannot be used\n${lines.join("\n")}`);
    this.name = "CatalogError";
  }
}

const ID_BYTES = 16;
/** Random bytes are cheap by the page and dear by the piece. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** 128 random bits in 22 characters. */
function newId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return pool.toString("base64url", used - ID_BYTES, used);
}
