import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readHome } from "../agents/process/home.ts";
import type { Environment } from "../agents/process/program.ts";
import type { Registry } from "../agents/registry.ts";
import { MemoryTickets } from "../bus/memory-tickets.ts";
import { Mailbox, type MailboxOptions } from "../cluster/mailbox.ts";
import { RedisMembership } from "../cluster/membership.ts";
import { partitionTopic } from "../cluster/ownership.ts";
import { RoleWatch } from "../cluster/role-watch.ts";
import { RollCall, type RollCallOptions } from "../cluster/roll-call.ts";
import { StoreWatch } from "../cluster/store-watch.ts";
import { BOUNDS } from "../config/bounds.ts";
import { withSecretFiles } from "../config/secret-files.ts";
import type { Settings } from "../config/settings.ts";
import { readTraceSettings } from "../config/traces.ts";
import { Copies } from "../copies/copies.ts";
import { copiesDoor } from "../copies/copies-door.ts";
import { doorsOf } from "../doors/doors.ts";
import { type Access, openVerifier } from "../gateway/access/gatekeeper.ts";
import { createGateway, type Gateway, type GatewayOptions } from "../gateway/gateway.ts";
import { readPageFiles } from "../gateway/http/page-files.ts";
import { listen } from "../gateway/listening.ts";
import { readUnanswered } from "../gateway/streams/silent-peers.ts";
import { AppError } from "../protocol/errors.ts";
import type { FloorId } from "../protocol/ids.ts";
import { RouterAnswers } from "../runs/router-answers.ts";
import { Worker, type WorkerOptions } from "../runs/worker.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Tracer } from "../shared/ports/tracer.ts";
import { Unreachable } from "../shared/unreachable.ts";
import { createLog, droppedLines } from "../system/log.ts";
import { newId } from "../system/new-id.ts";
import { VERSION } from "../system/version.ts";
import { loadWebhooks, OpenWebhooks } from "../webhooks/open-webhooks.ts";
import { listWebhooks } from "../webhooks/webhook-list.ts";
import { type Deployment, openDeployment } from "./deployment.ts";
import { type Gauges, Metrics } from "./metrics.ts";
import { openAgents } from "./node-agents.ts";
import { type NodeCatalog, openCatalog, readNodeCatalog } from "./node-catalog.ts";
import { firstError, OpenParts } from "./open-parts.ts";
import { Orchestrator } from "./orchestrator.ts";

/**
 * A node. Creating it has no side effects. It runs once; a start that failed leaves nothing open and may be repeated.
 */
export interface App {
  /**
   * Load the catalogue, open the store, restore its state, and listen. Resolves when the node answers requests.
   * @throws Error with a sentence for the operator: a faulty catalogue, an unreachable store, a port in use, a stop
   */
  start(): Promise<Listening>;
  /**
   * Disconnect readers, let runs end or give them back, and close. Repeated calls return the same promise. During a
   * start it ends the start, which then rejects.
   * @throws the first failure of a part that could not be closed; all others are closed
   */
  stop(): Promise<void>;
}

/** A node that answers requests. */
interface Listening {
  url: string;
  /** Whether the store has had no session, as with a wrong address, or after a start in another folder than usual. */
  isNewStore: boolean;
}

export interface AppOptions {
  settings: Settings;
  /**
   * The source of provider keys and of OpenTelemetry's variables. Default: `process.env`, and the files that it names.
   */
  env?: Environment;
  /** Default: a log on stderr at `settings.logLevel`. */
  log?: Logger;
  /**
   * Called once when the store has a new epoch because a promoted standby lacked commits, if `settings.lostCommits`
   * says so. The app refuses all requests from then on: stop it, and start another one. Default: nothing is done.
   */
  onNewEpoch?: () => void;
  /** The folder of the built page. Default: the output of `npm run build:page`. */
  pageFolder?: string;
}

/** The path is the same relative to `src` and to `dist`. */
const PAGE_FOLDER = fileURLToPath(new URL("../../dist/page", import.meta.url));

/** Fractions of the drain: for runs to end, for giving back the others, and for other nodes to take the floors. */
const RUN_GRACE = 0.5;
const GIVE_BACK = 0.3;
const HAND_OVER = 0.2;

/** How long a starting node waits for a server that does not answer, and the pause between two tries, in ms. */
const WAIT_MS = 20_000;
const PAUSE_MS = 500;

const NO_ORCHESTRATOR = "no node has the role orchestrator: no command is carried out until one starts";

/** The id of a floor that does not exist: confirming it is a minimal query that probes the store. */
const NO_FLOOR = "none" as FloorId;

/**
 * The composition root. It and deployment.ts choose the store, the bus and the queue. Of the ones in use other modules
 * know only whether the bus stays in the process (`Bus.isLocal`).
 */
export function createApp({ settings, env = withSecretFiles(process.env), ...options }: AppOptions): App {
  const {
    log = createLog(settings.logLevel, undefined, settings.name),
    pageFolder = PAGE_FOLDER,
    onNewEpoch = () => {},
  } = options;
  const stopping = new AbortController();
  let running: Promise<Running> | undefined;
  let stopped: Promise<void> | undefined;
  return {
    async start() {
      if (running) throw new Error("this app has already been started");
      running = openNode({ settings, env, log, pageFolder, onNewEpoch }, stopping.signal);
      try {
        const { url, isNewStore } = await running;
        return { url, isNewStore };
      } catch (error) {
        if (!stopped) running = undefined;
        throw error;
      }
    },
    stop() {
      if (!running) return Promise.reject(new Error("this app has not been started"));
      stopping.abort(new Error("the node was stopped while it started"));
      // A start that fails closes all that it has opened.
      stopped ??= running.then(
        (node) => node.stop(),
        () => {},
      );
      return stopped;
    },
  };
}

interface Running extends Listening {
  stop(): Promise<void>;
}

/** What most parts of a node are made from. */
interface Basics {
  settings: Settings;
  deployment: Deployment;
  nodeId: string;
  log: Logger;
  tracer: Tracer | undefined;
}

/**
 * Open a node. While a server that it needs does not answer, as after a start of the whole machine or on a busy one,
 * the start begins again.
 * @param stopping aborted when the node is to stop, which ends the wait
 */
async function openNode(options: Required<AppOptions>, stopping: AbortSignal): Promise<Running> {
  const reasons = new Set<string>();
  for (let until = Number.POSITIVE_INFINITY; ; ) {
    try {
      return await tryToOpen(options, stopping);
    } catch (error) {
      stopping.throwIfAborted();
      until = Math.min(until, performance.now() + WAIT_MS);
      if (!mayPass(error) || performance.now() >= until) throw error;
      const { message: reason } = error;
      const waitMs = WAIT_MS;
      if (!reasons.has(reason))
        options.log.warn({ reason, waitMs }, "a server does not answer; the start waits for it");
      reasons.add(reason);
      await pause(PAUSE_MS, undefined, { signal: stopping }).catch(() => stopping.throwIfAborted());
    }
  }
}

const mayPass = (error: unknown): error is Error =>
  error instanceof Unreachable || (error instanceof AppError && error.code === "unavailable");

/** If a step fails, all that is open or has begun to work is closed, and the step's error is thrown. */
async function tryToOpen(options: Required<AppOptions>, stopping: AbortSignal): Promise<Running> {
  const parts = new OpenParts(options.log, stopping);
  try {
    return await openParts(options, parts);
  } catch (error) {
    // Each failure is logged.
    await parts.close().catch(() => {});
    throw firstError(error, options.log);
  }
}

/** Open the parts of a node, each after those that it needs, and then begin to serve. */
async function openParts(
  { settings, env, log, pageFolder, onNewEpoch }: Required<AppOptions>,
  parts: OpenParts,
): Promise<Running> {
  const dispose = (part: AsyncDisposable | undefined) => part?.[Symbol.asyncDispose]();
  const firstCatalog = await readNodeCatalog(settings.configPath);
  const firstWebhooks = settings.webhooksPath === undefined ? undefined : await loadWebhooks(settings.webhooksPath);
  const nodeId = newId();
  const tracer = parts.add("tracing", await openTracing(env, settings, nodeId, log), (tracing) => tracing?.close());
  const deployment = parts.add("store, bus and queue", await openDeployment(settings, log, onNewEpoch), dispose);
  const access = parts.add("access", await openAccess(settings, deployment, log), dispose);
  const opening = openCatalog(settings.configPath, firstCatalog, deployment, log);
  const catalog = parts.add("catalogue", await opening, dispose);

  const webhooks = parts.add(
    "webhooks",
    firstWebhooks &&
      new OpenWebhooks({
        path: settings.webhooksPath!,
        initial: firstWebhooks,
        clock: deployment.stopwatch,
        wallNow: () => deployment.clock.wallNow(),
        newId,
        knownAgents: () => [...catalog.current().agents.keys()],
        log,
      }),
    (each) => each?.close(),
  );

  const isNewStore = (await deployment.store.newestTime()) === 0;
  const basics: Basics = { settings, deployment, nodeId, log, tracer };
  const { name, roles, drainMs } = settings;
  const metrics = new Metrics({ node: nodeId, name, roles, version: VERSION, startedAt: deployment.clock.now() });
  const cluster = parts.add("cluster", await joinCluster(basics), ({ storeWatch }) => storeWatch?.stop());
  const absentRoles = () => cluster.roleWatch?.absent ?? [];
  const whyLate = () => (absentRoles().includes("orchestrator") ? NO_ORCHESTRATOR : undefined);
  const onRepeat = () => metrics.commandRepeated();
  const mailbox = parts.add("mailbox", await openMailbox(basics, { onRepeat, whyLate }), (each) => each.stop());
  const { send } = mailbox;
  const orchestrator = roles.includes("orchestrator")
    ? new Orchestrator({ ...basics, ...cluster, catalog: catalog.current, mailbox, metrics, webhooks })
    : undefined;
  if (orchestrator) catalog.onReload(() => orchestrator.renumber());
  const opened = await openAgents({ roles, catalog, env, clock: deployment.stopwatch, log });
  const agents = parts.add("agents", opened, (each) => each.close());
  const worker = roles.includes("worker") ? await createWorker(basics, { env, send, agents, metrics }) : undefined;

  const routers = roles.includes("worker") ? createRouters(basics, agents) : undefined;
  let isStopping = false;
  const missing = () => findMissing(deployment, cluster.storeWatch, isStopping);
  const rollCall = createRollCall(basics, () => metrics.report(missing()));
  const callNodes = () => rollCall.call();
  const gatewayParts = {
    access,
    catalog,
    agents,
    send,
    metrics,
    missing,
    absentRoles,
    callNodes,
    pageFolder,
    webhooks,
  };
  const gateway = createNodeGateway(basics, gatewayParts);
  metrics.watch(gaugesOf(basics, { mailbox, orchestrator, gateway }));

  // From here on the node takes work, which the same steps end when it stops and when its start fails halfway. A start
  // that fails waits neither for clients nor for runs.
  let graceMs = 0;
  parts.add("roll call", rollCall, (each) => each.stop());
  parts.add("router agents", routers, (each) => each?.stop());
  parts.add("orchestrator", orchestrator, (each) => each?.stop(drainMs * HAND_OVER));
  parts.addTogether({
    gateway: () => gateway.close(graceMs),
    worker: () => worker?.stop({ graceMs: graceMs * RUN_GRACE, giveBackMs: drainMs * GIVE_BACK }),
  });
  parts.add("roles", cluster.roleWatch, (each) => each?.stop());
  const url = await listen(gateway, settings);
  await worker?.start();
  await routers?.start();
  await orchestrator?.start();
  await rollCall.start();
  await cluster.roleWatch?.start();
  parts.throwIfStopping();
  graceMs = drainMs;

  return {
    url,
    isNewStore,
    async stop() {
      isStopping = true;
      await parts.close();
    },
  };
}

/** Open tracing as OpenTelemetry's variables configure it. If they are unset: undefined, and no library is loaded. */
async function openTracing(env: Environment, { roles }: Settings, nodeId: string, log: Logger) {
  const settings = readTraceSettings(env);
  if (!settings) return undefined;
  const { Tracing } = await import("./tracing.ts");
  const about = { "service.version": VERSION, "service.instance.id": nodeId, "interlock.roles": roles.join() };
  return new Tracing({ settings, about, log });
}

/** Open what authenticates callers; undefined when authentication is off. */
async function openAccess(
  { auth, issuer, audience, rateLimits, bus }: Settings,
  { store: { epoch }, bus: messages, clock }: Deployment,
  log: Logger,
): Promise<(Access & AsyncDisposable) | undefined> {
  if (auth === "none") return undefined;
  await using opened = new AsyncDisposableStack();
  const wallNow = () => clock.wallNow();
  const verifier = await openVerifier(auth, { issuer, audience, clock, wallNow, log, bus: messages, epoch });
  opened.defer(() => verifier.close());
  const access: Access = { verifier, rateLimits, tickets: new MemoryTickets(clock) };
  if (bus.kind !== "memory") {
    const { RedisTickets } = await import("../bus/redis-tickets.ts");
    const tickets = await RedisTickets.open({ urls: bus.urls, epoch, clock });
    opened.defer(() => tickets.close());
    access.tickets = tickets;
    access.shared = { counters: tickets.connection, prefix: `${epoch}.rate.` };
  }
  const stack = opened.move();
  return { ...access, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Send commands to floors, and listen for their replies. */
async function openMailbox(
  { settings, deployment, nodeId, tracer }: Basics,
  hooks: Pick<MailboxOptions, "onRepeat" | "whyLate">,
) {
  const { store, bus, clock } = deployment;
  const topicOf = (floorId: FloorId) => partitionTopic(store.epoch, floorId, settings.partitions);
  const mailbox = new Mailbox({ ...hooks, bus, clock, newId, nodeId, topicOf, tracer });
  await mailbox.start();
  return mailbox;
}

/** What the metrics read at each scrape. */
function gaugesOf(
  { settings, deployment: { bus } }: Basics,
  { mailbox, orchestrator, gateway }: { mailbox: Mailbox; orchestrator: Orchestrator | undefined; gateway: Gateway },
): Gauges {
  return {
    connections: () => gateway.streams.count,
    floors: () => orchestrator?.floorCount ?? 0,
    followed: () => gateway.followers.count,
    commands: () => orchestrator?.unansweredCount ?? 0,
    pendingCommands: () => mailbox.underWay,
    ownedPartitions: () => orchestrator?.partitionCount ?? 0,
    partitions: () => settings.partitions,
    partitionsOf: () => orchestrator?.partitionsOf ?? new Map(),
    waitingRuns: async () => await orchestrator?.waitingRuns(),
    waitingNotices: async () => await orchestrator?.waitingNotices(),
    disabledWebhooks: async () => await orchestrator?.disabledWebhooks(),
    droppedLines,
    isBusAway: () => bus.isAway(),
  };
}

interface Cluster {
  membership?: RedisMembership;
  storeWatch?: StoreWatch;
  roleWatch?: RoleWatch;
}

/**
 * Learn of the other orchestrators and of the roles of all nodes, and watch whether the store answers them but not this
 * node. A single node has nothing to learn.
 */
async function joinCluster({
  settings,
  deployment: { store, redis, stopwatch },
  nodeId,
  log,
}: Basics): Promise<Cluster> {
  if (!redis) return {};
  const { leaseMs, partitions: count, roles } = settings;
  const membership = new RedisMembership({ redis, epoch: store.epoch, nodeId, leaseMs, count });
  await membership.read();
  const storeWatch = new StoreWatch({
    clock: stopwatch,
    probe: () => store.confirm(NO_FLOOR, 0),
    areOthersThere: async () => (await membership.read()).some((member) => member !== nodeId),
    leaseMs,
  });
  storeWatch.start();
  // The list of all nodes. Only the names are compared; the number of partitions does not matter.
  const membersOf = (name: string) =>
    new RedisMembership({ redis, epoch: `${store.epoch}.nodes`, nodeId: name, leaseMs, count: 1 });
  const roleWatch = new RoleWatch({ clock: stopwatch, membersOf, nodeId, roles, leaseMs, log });
  return { membership, storeWatch, roleWatch };
}

interface WorkerParts extends Pick<WorkerOptions, "send" | "agents"> {
  env: Environment;
  metrics: Metrics;
}

/** The part of a node that drives agents. It accepts no runs before its start. */
async function createWorker(
  { settings, deployment, nodeId, log, tracer }: Basics,
  { env, send, agents, metrics }: WorkerParts,
): Promise<Worker> {
  const { queue, bus, store, clock, redis } = deployment;
  return new Worker({
    queue,
    bus,
    store,
    clock,
    newId,
    name: settings.name,
    send,
    agents,
    sendTimeoutMs: settings.commandDeadlineMs,
    limits: {
      total: BOUNDS.runs,
      perOwner: BOUNDS.ownerRuns,
      waiting: BOUNDS.waitingRuns,
      waitingPerOwner: BOUNDS.ownerWaitingRuns,
    },
    maxHeld: settings.maxHeld,
    holdTimeoutMs: settings.holdTimeoutMs,
    leaveToOthersMs: redis && BOUNDS.leaveToOthersMs,
    // Without a home name on disk, use one that lasts as long as this process.
    home: redis && ((await readHome(env, nodeId)) ?? nodeId),
    metrics,
    onClaimed: (dueAt) => metrics.runClaimed(Math.max(0, clock.elapsed.now() - dueAt)),
    log,
    tracer,
  });
}

/** The part of a node that runs agents which are asked who hears a sentence. */
function createRouters({ deployment, nodeId }: Basics, agents: Registry): RouterAnswers {
  const { bus, stopwatch: clock, store } = deployment;
  return new RouterAnswers({ bus, epoch: store.epoch, nodeId, agents, clock, newId });
}

/** Ask all nodes what they do, and answer them with this node's report. */
function createRollCall({ deployment, nodeId }: Basics, report: RollCallOptions["report"]): RollCall {
  const { bus, stopwatch, store } = deployment;
  return new RollCall({ bus, clock: stopwatch, epoch: store.epoch, nodeId, report });
}

/**
 * Why this node should get no requests now, as sentences for `/ready` and the roll call; empty if it should get them.
 */
function findMissing(
  { bus, storeFaults }: Deployment,
  storeWatch: StoreWatch | undefined,
  isStopping: boolean,
): string[] {
  return [
    ...(isStopping ? ["the node is shutting down"] : []),
    ...(bus.isAway() ? ["the bus is away"] : []),
    // Report this only if the store answers other nodes: otherwise no node is a better choice.
    ...(storeWatch?.isCutOff ? ["the store does not answer this node"] : []),
    ...storeFaults(),
  ];
}

interface GatewayParts extends Pick<GatewayOptions, "access" | "send" | "missing" | "absentRoles" | "callNodes"> {
  catalog: NodeCatalog;
  agents: Registry;
  metrics: Metrics;
  pageFolder: string;
  webhooks: OpenWebhooks | undefined;
}

/** The HTTP server. Without the gateway role it serves health routes only. */
function createNodeGateway(
  { settings, deployment, log, tracer }: Basics,
  { catalog, agents, metrics, pageFolder, webhooks, ...parts }: GatewayParts,
): Gateway {
  const { store, bus, clock, stopwatch } = deployment;
  const { host, hosts, origins, proxies, addressConnections, maxBodyBytes, commandDeadlineMs } = settings;
  const isGateway = settings.roles.includes("gateway");
  return createGateway({
    ...parts,
    isGateway,
    doors: (context) => {
      const copies = new Copies(context);
      return [copiesDoor(context, copies), ...doorsOf(context, copies)];
    },
    proxies,
    addressConnections,
    maxBodyBytes,
    commandDeadlineMs,
    origin: { host, hosts, origins },
    store,
    bus,
    clock,
    stopwatch,
    newId,
    random: Math.random,
    catalog: catalog.current,
    definitions: catalog.definitions,
    catalogStatus: catalog.status,
    isAvailable: (agentId) => agents.isAvailable(agentId),
    metrics: () => metrics.read(),
    webhooks: {
      async list() {
        const [backlogs, disabled] = await Promise.all([store.countNotices(), store.disabledHooks()]);
        return listWebhooks(webhooks?.current() ?? new Map(), backlogs, disabled, clock.elapsed.now());
      },
      test: async (name) => await webhooks?.test(name),
      async enable(name) {
        if (!webhooks?.current().has(name)) return undefined;
        const wasDisabled = await store.enableHook(name);
        if (wasDisabled) log.info({ hook: name }, "an operator enabled a webhook; what waits is sent");
        return wasDisabled;
      },
    },
    unanswered: readUnanswered,
    onCut: () => metrics.slowReaderCut(),
    onReceived: (lagMs) => metrics.commitReceived(lagMs),
    onBehind: () => metrics.followerBehind(),
    version: VERSION,
    page: isGateway ? readPageFiles(pageFolder) : undefined,
    log,
    tracer,
  });
}
