import { readFileSync } from "node:fs";
import { createRegistry } from "./agents/registry.ts";
import { Mailbox } from "./bus/mailbox.ts";
import { MemoryTickets } from "./bus/memory-tickets.ts";
import { partitionTopic } from "./bus/partitions.ts";
import { RedisMembership } from "./bus/redis-membership.ts";
import { BOUNDS } from "./config/bounds.ts";
import { loadCatalog } from "./config/catalog-file.ts";
import type { Settings } from "./config/settings.ts";
import { readTraceSettings } from "./config/traces.ts";
import { watchCatalog } from "./config/watch.ts";
import type { Access } from "./gateway/access.ts";
import { createGateway, type Gateway } from "./gateway/app.ts";
import { openVerifier } from "./gateway/verifier.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { newId } from "./new-id.ts";
import { Orchestrator } from "./orchestrator.ts";
import type { Envelope } from "./protocol/command.ts";
import type { Logger } from "./protocol/logger.ts";
import type { SpanFacts, Tracer } from "./protocol/tracer.ts";
import { Worker } from "./runs/worker.ts";
import { openShape, type Shape } from "./shape.ts";

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
  /** Where the keys of providers are looked up, and what OpenTelemetry's variables say. Default: the environment. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Default: stderr, as `settings.logLevel` says. */
  log?: Logger;
}

export const VERSION: string = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;

/** Of the drain, what runs get to come to their end before they are given back. */
const RUN_GRACE = 0.5;
const GIVE_BACK = 0.3;
/** And what others get to take over its floors, after that. */
const HAND_OVER = 0.2;

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
  const { roles, partitions, commandDeadlineMs } = settings;
  const nodeId = newId();
  const tracer = await openTracing(
    env,
    { "service.instance.id": nodeId, "interlock.roles": roles.join() },
    log,
    closing,
  );
  const shape = await openShape(settings, log, closing);
  const { store, bus, queue, clock, redis } = shape;
  const access = await openAccess(settings, shape, log, closing);
  const watched = watchCatalog({ path: settings.configPath, initial: reading.catalog, clock, log });
  closing.push(() => watched.close());
  const catalog = () => watched.current();

  const mailbox = new Mailbox({
    bus,
    clock,
    newId,
    nodeId,
    topicOf: (floorId) => partitionTopic(store.epoch, floorId, partitions),
    local: (floorId) => orchestrator?.local(floorId),
    onRepeat: () => metrics.askRepeated(),
    tracer,
  });
  await mailbox.start();
  closing.push(() => mailbox.stop());
  const ask = (envelope: Envelope) => mailbox.ask(envelope);

  const metrics = new Metrics({
    connections: () => gateway.streams.count,
    floors: () => orchestrator?.floorCount ?? 0,
    followed: () => gateway.followers.count,
    commands: () => orchestrator?.waitingCount ?? 0,
    asks: () => mailbox.underWay,
    shares: () => orchestrator?.shareCount ?? 0,
    isBusAway: () => bus.isAway(),
  });
  const membership =
    redis && new RedisMembership({ redis, epoch: store.epoch, nodeId, leaseMs: settings.leaseMs, count: partitions });
  await membership?.look();
  const orchestrator = roles.includes("orchestrator")
    ? new Orchestrator({ settings, shape, catalog, mailbox, nodeId, membership, log, metrics, tracer })
    : undefined;
  const agents = createRegistry({
    catalog,
    env,
    onFault: (fault, agentId, { sessionId, runId }) =>
      log.error({ err: fault, agentId, sessionId, runId }, "a sub-agent failed"),
  });
  const worker = roles.includes("worker")
    ? new Worker({
        queue,
        bus,
        store,
        ask,
        agents,
        clock,
        newId,
        askTimeoutMs: commandDeadlineMs,
        concurrency: BOUNDS.runs,
        maxHeld: settings.maxHeld,
        holdTimeoutMs: settings.holdTimeoutMs,
        lackingMs: redis && BOUNDS.lackingMs,
        log,
        metrics,
        onTaken: (waitMs) => metrics.runTaken(waitMs),
        tracer,
      })
    : undefined;

  let isStopping = false;
  const missing = () => [
    ...(isStopping ? ["the node is shutting down"] : []),
    ...(bus.isAway() ? ["the bus is away"] : []),
  ];
  const gateway: Gateway = createGateway({
    isDoor: roles.includes("gateway"),
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
    missing,
    metrics: () => metrics.read(),
    version: VERSION,
    log,
    origin: { host: settings.host, hosts: settings.hosts, origins: settings.origins },
    maxBodyBytes: settings.maxBodyBytes,
    commandDeadlineMs,
    onCut: () => metrics.slowReaderCut(),
    onHeard: (lagMs) => metrics.commitHeard(lagMs),
    onBehind: () => metrics.followerBehind(),
    tracer,
  });
  closing.push(() => gateway.close(0));
  const { host: address, port } = await gateway.listen(settings.host, settings.port);
  await worker?.start();
  await orchestrator?.start();

  return {
    url: `http://${address.includes(":") ? `[${address}]` : address}:${port}`,
    async stop() {
      isStopping = true;
      const { drainMs } = settings;
      await Promise.all([
        gateway.close(drainMs),
        worker?.stop({ graceMs: drainMs * RUN_GRACE, giveBackMs: drainMs * GIVE_BACK }),
      ]);
      await orchestrator?.stop(drainMs * HAND_OVER);
      await closeAll();
    },
  };
}

/** Where traces go, as OpenTelemetry's own variables say; undefined, and nothing of it loaded, where they say nothing. */
async function openTracing(
  env: NonNullable<AppOptions["env"]>,
  about: SpanFacts,
  log: Logger,
  closing: (() => unknown)[],
): Promise<Tracer | undefined> {
  const settings = readTraceSettings(env);
  if (!settings) return undefined;
  const { Tracing } = await import("./tracing.ts");
  const tracing = new Tracing({ settings, about: { "service.version": VERSION, ...about }, log });
  closing.push(() => tracing.close());
  return tracing;
}

/** How callers are told apart; undefined where they are not. */
async function openAccess(
  { auth, issuer, audience, rateLimits, bus }: Settings,
  { store: { epoch }, clock }: Shape,
  log: Logger,
  closing: (() => unknown)[],
): Promise<Access | undefined> {
  if (auth === "none") return undefined;
  const verifier = await openVerifier(auth, { issuer, audience, clock, log });
  closing.push(() => verifier.close());
  if (bus.kind === "memory") return { verifier, rateLimits, tickets: new MemoryTickets(clock) };
  const { RedisTickets } = await import("./bus/redis-tickets.ts");
  const tickets = await RedisTickets.open({ urls: bus.urls, epoch, clock });
  closing.push(() => tickets.close());
  return { verifier, rateLimits, tickets, shared: { counters: tickets.connection, prefix: `${epoch}.rate.` } };
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
