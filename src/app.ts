import { fileURLToPath } from "node:url";
import type { Turn } from "./agents/agent.ts";
import { readHome } from "./agents/process/home.ts";
import { killOrphans } from "./agents/process/process-sweep.ts";
import { createRegistry, type Registry } from "./agents/registry.ts";
import { MemoryTickets } from "./bus/memory-tickets.ts";
import { Mailbox } from "./cluster/mailbox.ts";
import { RedisMembership } from "./cluster/membership.ts";
import { partitionTopic } from "./cluster/ownership.ts";
import { RollCall } from "./cluster/roll-call.ts";
import { StoreWatch } from "./cluster/store-watch.ts";
import { BOUNDS } from "./config/bounds.ts";
import type { Catalog } from "./config/catalog/catalog.ts";
import { loadCatalog } from "./config/catalog/catalog-file.ts";
import { watchCatalog } from "./config/catalog/watched-catalog.ts";
import { type Fault, faultLine } from "./config/fault.ts";
import type { Settings } from "./config/settings.ts";
import { readTraceSettings } from "./config/traces.ts";
import { announceDefinitions, DefinedCatalog } from "./defined-catalog.ts";
import type { Access } from "./gateway/access/gatekeeper.ts";
import { openVerifier } from "./gateway/access/gatekeeper.ts";
import { createGateway, type Gateway } from "./gateway/gateway.ts";
import { readPageFiles } from "./gateway/http/page-files.ts";
import { createLog, droppedLines } from "./log.ts";
import { type Gauges, Metrics } from "./metrics.ts";
import { newId } from "./new-id.ts";
import { Orchestrator } from "./orchestrator.ts";
import { AppError } from "./protocol/errors.ts";
import type { AgentId, FloorId } from "./protocol/ids.ts";
import type { Envelope } from "./protocol/internal/command.ts";
import type { Logger } from "./protocol/ports/logger.ts";
import type { SpanFacts } from "./protocol/ports/tracer.ts";
import { Worker, type WorkerOptions } from "./runs/worker.ts";
import { openShape, type Shape } from "./shape.ts";
import { VERSION } from "./version.ts";

/** A node. Creating it has no side effects; it can be started once and stopped once. */
export interface App {
  /**
   * Load the catalogue, open the store, restore its state, and listen. Resolves when the node answers requests.
   * @throws Error with a sentence for the operator: a faulty catalogue, an unreachable store, a port in use
   */
  start(): Promise<{ url: string }>;
  /** Disconnect readers, let runs end or give them back, and close. Repeated calls return the same promise. */
  stop(): Promise<void>;
}

export interface AppOptions {
  settings: Settings;
  /** The source of provider keys and of OpenTelemetry's variables. Default: `process.env`. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Default: a log on stderr at `settings.logLevel`. */
  log?: Logger;
  /** The folder of the built page. Default: the output of `npm run build:page`. */
  pageFolder?: string;
}

/** The path is the same relative to `src` and to `dist`. */
const PAGE_FOLDER = fileURLToPath(new URL("../dist/page", import.meta.url));

/** Fractions of the drain: for runs to end, for giving back the others, and for other nodes to take the floors. */
const RUN_GRACE = 0.5;
const GIVE_BACK = 0.3;
const HAND_OVER = 0.2;

/** The id of a floor that does not exist: confirming it is a minimal query that probes the store. */
const NO_FLOOR = "none" as FloorId;

/** The composition root: it chooses the store, the bus and the queue; no other module knows which ones are in use. */
export function createApp({ settings, env = process.env, ...options }: AppOptions): App {
  const { log = createLog(settings.logLevel), pageFolder = PAGE_FOLDER } = options;
  let running: Promise<Running> | undefined;
  let stopping: Promise<void> | undefined;
  return {
    async start() {
      if (running) throw new Error("this app has already been started");
      running = openNode({ settings, env, log, pageFolder });
      return { url: (await running).url };
    },
    stop() {
      stopping ??= (running ?? Promise.reject(new Error("this app has not been started"))).then((node) => node.stop());
      return stopping;
    },
  };
}

interface Running {
  url: string;
  stop(): Promise<void>;
}

async function openNode({ settings, env, log, pageFolder }: Required<AppOptions>): Promise<Running> {
  /** Closes the parts in reverse order, also when opening a later part fails. */
  await using opened = new AsyncDisposableStack();
  const reading = await loadCatalog(settings.configPath);
  if (!reading.ok) throw new CatalogError(settings.configPath, reading.faults);
  const { roles, partitions, commandDeadlineMs } = settings;
  const nodeId = newId();
  const tracing = await openTracing(env, { "service.instance.id": nodeId, "interlock.roles": roles.join() }, log);
  const tracer = tracing && opened.adopt(tracing, (each) => each.close());
  const shape = opened.use(await openShape(settings, log));
  const { store, bus, clock } = shape;
  const access = opened.use(await openAccess(settings, shape, log));
  // Undefined until the agents are made from the catalogue: the start itself warns of them then.
  let agents: Registry | undefined;
  const onChange = () => agents && warnOfUnavailable(agents, log);
  const catalog = opened.use(await openCatalog(settings.configPath, reading.catalog, shape, log, onChange));

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
  opened.defer(() => mailbox.stop());
  const ask = (envelope: Envelope) => mailbox.ask(envelope);

  const gauges: Gauges = {
    connections: () => gateway.streams.count,
    floors: () => orchestrator?.floorCount ?? 0,
    followed: () => gateway.followers.count,
    commands: () => orchestrator?.waitingCount ?? 0,
    asks: () => mailbox.underWay,
    ownedPartitions: () => orchestrator?.partitionCount ?? 0,
    partitions: () => partitions,
    partitionsOf: () => orchestrator?.partitionsOf ?? new Map(),
    droppedLines,
    isBusAway: () => bus.isAway(),
  };
  const metrics = new Metrics(gauges, { node: nodeId, roles, version: VERSION, startedAt: clock.now() });
  const { membership, storeWatch } = await joinCluster(settings, shape, nodeId);
  opened.defer(() => storeWatch?.stop());
  const orchestrator = roles.includes("orchestrator")
    ? new Orchestrator({
        settings,
        shape,
        catalog: catalog.current,
        mailbox,
        nodeId,
        membership,
        storeWatch,
        log,
        metrics,
        tracer,
      })
    : undefined;
  const isWorker = roles.includes("worker");
  if (isWorker) await endOrphans(log);
  const registry = createRegistry({
    catalog: catalog.current,
    env,
    log,
    isWorker,
    onFault: (fault, agentId, turn, toolName) => logFault(log, fault, agentId, turn, toolName),
  });
  agents = registry;
  if (isWorker || roles.includes("gateway")) warnOfUnavailable(registry, log);
  opened.defer(() => registry.close());
  const worker = isWorker
    ? await createWorker({ settings, shape, env, nodeId, ask, agents: registry, log, metrics, tracer })
    : undefined;

  let isStopping = false;
  const missing = () => [
    ...(isStopping ? ["the node is shutting down"] : []),
    ...(bus.isAway() ? ["the bus is away"] : []),
    // Report this only if the store answers other nodes: otherwise no node is a better choice.
    ...(storeWatch?.isCutOff ? ["the store does not answer this node"] : []),
    // The node serves what it can read. Only the log names the file, because `/ready` needs no authentication.
    ...(shape.isDamaged() ? ["the database is damaged: the log says what to do"] : []),
  ];
  const rollCall = new RollCall({
    bus,
    clock: shape.stopwatch,
    epoch: store.epoch,
    nodeId,
    report: () => metrics.report(missing()),
  });
  const gateway: Gateway = createGateway({
    isDoor: roles.includes("gateway"),
    access,
    proxies: settings.proxies,
    addressConnections: settings.addressConnections,
    ask,
    store,
    bus,
    clock,
    stopwatch: shape.stopwatch,
    newId,
    random: Math.random,
    catalog: catalog.current,
    definitions: catalog.definitions,
    catalogStatus: catalog.status,
    isAvailable: (agentId) => registry.isAvailable(agentId),
    missing,
    metrics: () => metrics.read(),
    callNodes: () => rollCall.call(),
    version: VERSION,
    log,
    origin: { host: settings.host, hosts: settings.hosts, origins: settings.origins },
    maxBodyBytes: settings.maxBodyBytes,
    commandDeadlineMs,
    onCut: () => metrics.slowReaderCut(),
    onHeard: (lagMs) => metrics.commitHeard(lagMs),
    onBehind: () => metrics.followerBehind(),
    page: roles.includes("gateway") ? readPageFiles(pageFolder) : undefined,
    tracer,
  });
  opened.defer(() => gateway.close(0));
  const { host: address, port } = await gateway.listen(settings.host, settings.port).catch((error) => {
    throw new Error(whyNotListening(error, settings), { cause: error });
  });
  await worker?.start();
  await orchestrator?.start();
  await rollCall.start();
  opened.defer(() => rollCall.stop());

  const node = opened.move();
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
      await node.disposeAsync();
    },
  };
}

/** Follow the catalogue's file and the definitions in the store. */
async function openCatalog(path: string, initial: Catalog, shape: Shape, log: Logger, onChange: () => void) {
  await using opened = new AsyncDisposableStack();
  const { store, bus, clock } = shape;
  const watched = watchCatalog({ path, initial, clock, log, onChange });
  opened.defer(() => watched.close());
  const defined = new DefinedCatalog({ store, bus, clock, log, file: () => watched.current() });
  await defined.start();
  opened.defer(() => defined.stop());
  const stack = opened.move();
  return {
    current: () => defined.current(),
    status: () => watched.status(),
    definitions: {
      all: () => defined.definitions(),
      file: () => watched.current(),
      refresh: () => defined.refresh(),
      announce: () => announceDefinitions(bus, store.epoch),
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Learn of the other orchestrators, and watch whether the store answers them but not this node. A single node has neither. */
async function joinCluster(
  { leaseMs, partitions: count }: Settings,
  { store, redis, stopwatch }: Shape,
  nodeId: string,
) {
  if (!redis) return {};
  const membership = new RedisMembership({ redis, epoch: store.epoch, nodeId, leaseMs, count });
  await membership.look();
  const storeWatch = new StoreWatch({
    clock: stopwatch,
    probe: () => store.confirm(NO_FLOOR, 0),
    areOthersThere: async () => (await membership.look()).some((member) => member !== nodeId),
    leaseMs,
  });
  storeWatch.start();
  return { membership, storeWatch };
}

interface WorkerParts extends Pick<WorkerOptions, "ask" | "agents" | "log" | "tracer"> {
  settings: Settings;
  shape: Shape;
  env: NonNullable<AppOptions["env"]>;
  nodeId: string;
  metrics: Metrics;
}

async function createWorker({ settings, shape, env, nodeId, metrics, ...parts }: WorkerParts): Promise<Worker> {
  const { queue, bus, store, clock, redis } = shape;
  return new Worker({
    ...parts,
    queue,
    bus,
    store,
    clock,
    newId,
    askTimeoutMs: settings.commandDeadlineMs,
    places: {
      total: BOUNDS.runs,
      perOwner: BOUNDS.ownerRuns,
      waiting: BOUNDS.waitingRuns,
      waitingPerOwner: BOUNDS.ownerWaitingRuns,
    },
    maxHeld: settings.maxHeld,
    holdTimeoutMs: settings.holdTimeoutMs,
    lackingMs: redis && BOUNDS.lackingMs,
    // Without a home name on disk, use one that lasts as long as this process.
    home: redis && ((await readHome(env, nodeId)) ?? nodeId),
    metrics,
    onTaken: (waitMs) => metrics.runTaken(waitMs),
  });
}

function whyNotListening(error: NodeJS.ErrnoException, { host, port }: Settings): string {
  switch (error.code) {
    case "EADDRINUSE":
      return `port ${port} of ${host} is in use: stop what listens there, or choose another with --port (0 picks a free one)`;
    case "EACCES":
      return `port ${port} may not be used by this user: choose one above 1023 with --port`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `${host} is not an address of this machine: choose one with --host, such as 127.0.0.1`;
    default:
      return `cannot listen on ${host}:${port}: ${error.message}`;
  }
}

/** The maximum number of warnings: one missing key may affect a thousand agents. */
const MAX_WARNED = 20;

/** Warn the operator of agents whose key is missing, before their turns fail for users. */
function warnOfUnavailable(agents: Registry, log: Logger): void {
  const unavailable = agents.unavailable();
  for (const facts of unavailable.slice(0, MAX_WARNED)) log.warn(facts, "an agent cannot answer");
  const more = unavailable.length - MAX_WARNED;
  if (more > 0) log.warn({ more }, "further agents cannot answer; `interlock check` names them");
}

/** Log what a sub-agent or a tool threw: its caller goes on. */
function logFault(log: Logger, fault: unknown, agentId: AgentId, { sessionId, runId }: Turn, toolName?: string): void {
  const about = { agentId, sessionId, runId };
  if (toolName !== undefined) return log.warn({ err: fault, ...about, toolName }, "a tool failed");
  if (!(fault instanceof AppError)) return log.error({ err: fault, ...about }, "a sub-agent failed");
  const { code, message, cause } = fault;
  log.warn({ ...about, code, reason: cause instanceof Error ? cause.message : message }, "a sub-agent failed");
}

/** Kill the programs that killed workers left behind: ADR 16. */
async function endOrphans(log: Logger): Promise<void> {
  const { killed } = await killOrphans();
  if (killed > 0) log.warn({ killed }, "killed processes that an earlier worker had left behind");
}

/** Open tracing as OpenTelemetry's variables configure it. If they are unset: undefined, and no library is loaded. */
async function openTracing(env: NonNullable<AppOptions["env"]>, about: SpanFacts, log: Logger) {
  const settings = readTraceSettings(env);
  if (!settings) return undefined;
  const { Tracing } = await import("./tracing.ts");
  return new Tracing({ settings, about: { "service.version": VERSION, ...about }, log });
}

/** Open what authenticates callers; undefined when authentication is off. */
async function openAccess(
  { auth, issuer, audience, rateLimits, bus }: Settings,
  { store: { epoch }, bus: messages, clock }: Shape,
  log: Logger,
): Promise<(Access & AsyncDisposable) | undefined> {
  if (auth === "none") return undefined;
  await using opened = new AsyncDisposableStack();
  const wallNow = () => clock.wallNow();
  const verifier = await openVerifier(auth, { issuer, audience, clock, wallNow, log, bus: messages, epoch });
  opened.defer(() => verifier.close());
  const access: Access = { verifier, rateLimits, tickets: new MemoryTickets(clock) };
  if (bus.kind !== "memory") {
    const { RedisTickets } = await import("./bus/redis-tickets.ts");
    const tickets = await RedisTickets.open({ urls: bus.urls, epoch, clock });
    opened.defer(() => tickets.close());
    access.tickets = tickets;
    access.shared = { counters: tickets.connection, prefix: `${epoch}.rate.` };
  }
  const stack = opened.move();
  return { ...access, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** The catalogue cannot be used. The message lists every fault with its place. */
export class CatalogError extends Error {
  constructor(path: string, faults: readonly Fault[]) {
    const lines = faults.map((fault) => faultLine(path, fault));
    super(`the catalogue cannot be used\n${lines.join("\n")}`);
    this.name = "CatalogError";
  }
}
