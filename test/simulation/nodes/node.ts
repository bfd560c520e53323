import { Host } from "../../../src/actors/host/host.ts";
import type { Turn } from "../../../src/agents/agent.ts";
import { Mailbox } from "../../../src/cluster/mailbox.ts";
import { Ownership, partitionTopic } from "../../../src/cluster/ownership.ts";
import { StoreWatch } from "../../../src/cluster/store-watch.ts";
import { must } from "../../../src/policy/arrangement-check.ts";
import type { AgentId, FloorId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import { Armer } from "../../../src/queue/armer.ts";
import { Worker } from "../../../src/runs/worker.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Logger } from "../../../src/shared/ports/logger.ts";
import type { MemoryStore } from "../../support/stores/memory-store.ts";
import type { NodeBus } from "../services/network.ts";
import { createPlayer } from "../services/scripts.ts";
import { linkStore, type StoreWeather } from "../services/store-link.ts";
import type { World } from "../world.ts";
import { GatewaySide } from "./gateway-side.ts";
import { Life } from "./life.ts";
import { NodeTime } from "./node-time.ts";

export type Role = "gateway" | "orchestrator" | "worker";

/** The number of partitions: each is a subscription. */
const PARTITIONS = 4;
const LEASE_MS = 3_000;
/** A floor that does not exist: a request for it shows whether the store answers. */
const NO_FLOOR = "u:" as FloorId;
/** The timeout of the system's own asks, in ms. */
const ASK_MS = 5_000;
/** Interactions expire quickly, so that histories stay short. */
const INTERACTION_MS = 8_000;
/** The limit of floors in a host's memory: with more, one is evicted, or the host is busy. */
const MAX_FLOORS = 2;

/** One process of a node, assembled as in the composition root. */
export class NodeProcess {
  readonly life: Life;
  readonly nodeName: string;
  readonly bus: NodeBus;
  readonly gateway: GatewaySide | undefined;
  readonly #world: World;
  /** Absent in worlds where the database's clock does not err: then the clock is the machine's. */
  readonly #time: NodeTime | undefined;
  readonly #clock: Clock;
  readonly #mailbox: Mailbox;
  readonly #ask: (envelope: Envelope) => Promise<Reply>;
  readonly #host: Host | undefined;
  readonly #armer: Armer | undefined;
  readonly #ownership: Ownership | undefined;
  readonly #storeWatch: StoreWatch | undefined;
  readonly #worker: Worker | undefined;
  #runsUnderWay = 0;
  #isReady = false;

  constructor(world: World, nodeName: string, generation: number, roles: ReadonlySet<Role>) {
    this.#world = world;
    this.nodeName = nodeName;
    const { clock, network, chance, memory, seams, catalog, queue, databaseClock } = world;
    const name = `${nodeName}.${generation}`;
    this.life = new Life(name, clock, world.drawSkew());
    this.life.onDeath(() => world.count("nodes that died"));
    this.bus = network.attach(this.life, nodeName);
    let ids = 0;
    const newId = () => `${nodeName}_${generation}_${ids++}`;
    const log = logInto(world, name);
    const { databaseTime } = seams;
    this.#time = world.theme.errs
      ? new NodeTime({ life: this.life, database: databaseClock, databaseTime, log })
      : undefined;
    const own = this.#time?.clock ?? this.life.clock;
    this.#clock = own;
    const linked = { memory, clock, chance, trace: world.trace, weather: () => this.#storeWeather };
    const store = linkStore(this.life, linked);
    const topicOf = (floorId: FloorId) => partitionTopic(memory.epoch, floorId, PARTITIONS);
    const deliver = seams.serve((envelope) => this.#host!.dispatch(envelope), memory);
    this.#mailbox = new Mailbox({
      bus: this.bus,
      clock: own,
      nodeId: newId(),
      newId,
      topicOf,
    });
    this.#mailbox.serve(deliver, (floorId) => this.#ownership?.serves(floorId) ?? false);
    this.#ask = (envelope) => this.#mailbox.send(envelope);
    const common = { bus: this.bus, store, clock: own, newId, log };
    if (roles.has("orchestrator")) {
      const queueLink = queue.link(this.life, own);
      const floorHashes = () => this.#ownership?.ownedHashes();
      this.#armer = new Armer({
        ...common,
        queue: queueLink,
        wallNow: () => own.now(),
        unansweredCount: () => this.#host!.unansweredCount,
        send: this.#ask,
        sendTimeoutMs: ASK_MS,
        floorHashes,
      });
      const hostCatalog = seams.hostCatalog(catalog);
      this.#host = new Host({
        ...common,
        store: seams.hostStore(store),
        newId: seams.hostIds(newId),
        catalog: () => hostCatalog,
        interactionTimeoutMs: INTERACTION_MS,
        arm: (entry) => this.#armer!.arm(entry),
        maxFloors: MAX_FLOORS,
        metrics: {
          command() {},
          batch() {},
          conflict: () => world.count("conflicts"),
          lapsed: () => world.count("lapses"),
          // Failed actors are logged.
          broken() {},
          budgetSpent() {},
          counted() {},
        },
      });
      const membership = world.members.link(this.life, name, LEASE_MS);
      const storeWatch = new StoreWatch({
        clock: this.life.clock,
        probe: () => store.confirm(NO_FLOOR, 0),
        areOthersThere: async () => (await membership.read()).some((member) => member !== name),
        leaseMs: LEASE_MS,
      });
      this.#storeWatch = storeWatch;
      this.#ownership = new Ownership({
        bus: this.bus,
        membership,
        storeWatch: seams.storeWatch(storeWatch),
        clock: own,
        nodeId: name,
        epoch: memory.epoch,
        count: PARTITIONS,
        leaseMs: LEASE_MS,
        serve: (topic) => this.#mailbox.serveTopic(topic, deliver),
        onGained: () => this.#armer!.sweep(),
        log,
      });
    }
    if (roles.has("worker")) {
      this.#worker = new Worker({
        ...common,
        queue: queue.link(this.life, own),
        send: this.#checked(this.#ask),
        agents: { find: (id) => findAgent(world, id), canRun: (id) => findAgent(world, id) !== undefined },
        sendTimeoutMs: ASK_MS,
        limits: { total: 4, perOwner: 3, waiting: 4, waitingPerOwner: 2 },
        maxHeld: 2,
        holdTimeoutMs: 6_000,
        metrics: {
          runEnded: (_, __, outcome) => world.count(`runs ${outcome}`),
          runsUnderWay: (count) => {
            this.#runsUnderWay = count;
          },
        },
      });
    }
    if (roles.has("gateway")) {
      this.gateway = new GatewaySide({
        ...common,
        bus: seams.gatewayBus(this.bus),
        store: seams.gatewayStore(store),
        random: () => chance.next(),
        resumePosition: seams.resumePosition,
        respond: seams.respond,
      });
      this.#ask = seams.gatewayAsk(this.#ask, newId);
    }
    void this.#start();
  }

  /** Whether clients may be sent to this node. */
  get isReady(): boolean {
    return this.#isReady && !this.life.isDead;
  }

  /** Whether the store does not answer this node now. */
  get isCutOff(): boolean {
    return this.#world.cutOff.has(this.nodeName);
  }

  get isOrchestrator(): boolean {
    return this.#host !== undefined;
  }

  get #storeWeather(): StoreWeather {
    const { storeWeather } = this.#world;
    return this.isCutOff ? { ...storeWeather, isAway: true } : storeWeather;
  }

  get isDriving(): boolean {
    return this.#runsUnderWay > 0;
  }

  /** A client's command, with a deadline from this node. */
  ask(envelope: Omit<Envelope, "timeoutAt">): Promise<Reply> {
    return this.#ask({ ...envelope, timeoutAt: this.#clock.now() + ASK_MS });
  }

  /** Shut down in order. */
  async stop(): Promise<void> {
    this.#isReady = false;
    this.gateway?.stop();
    await this.#worker?.stop({ graceMs: 2_000, giveBackMs: 2_000 });
    await this.#ownership?.stop(1_000);
    await this.#armer?.stop();
    this.#storeWatch?.stop();
    this.#mailbox.stop();
    this.#time?.stop();
  }

  /** What it has not released after it has stopped. */
  leftovers(): string[] {
    this.#host?.retireIdle();
    const left = {
      timers: this.life.timerCount,
      subscriptions: this.bus.listenerCount,
      asks: this.#mailbox.underWay,
      "waiting commands": this.#host?.unansweredCount ?? 0,
      floors: this.#host?.floorCount ?? 0,
      followers: this.gateway?.followers.count ?? 0,
      streams: this.gateway?.streams.count ?? 0,
      runs: this.#runsUnderWay,
    };
    return Object.entries(left).flatMap(([what, count]) => (count > 0 ? [`${this.life.name}: ${count} ${what}`] : []));
  }

  /** The floor's answer to an attempt was true at some time between question and answer. */
  #checked(ask: (envelope: Envelope) => Promise<Reply>): (envelope: Envelope) => Promise<Reply> {
    const { clock, watch } = this.#world;
    return async (envelope) => {
      const askedAt = clock.now();
      const reply = await ask(envelope);
      const { command, floorId } = envelope;
      if (command.type !== "run.still" && (command.type !== "run.report" || command.outcome)) return reply;
      if (!reply.ok || !reply.directive || this.life.isDead) return reply;
      const { verdict } = reply.directive;
      const { runId, attempt } = command;
      const were = watch.floor(floorId).livesBetween(runId, attempt, askedAt, clock.now());
      this.#world.expect(() =>
        must(were.has(verdict !== "stop"), () => `attempt ${attempt} of ${runId} was told ${verdict}`),
      );
      return reply;
    };
  }

  async #start(): Promise<void> {
    try {
      await this.#time?.start();
      await this.#mailbox.start();
      this.gateway?.start();
      await this.#worker?.start();
      this.#storeWatch?.start();
      await this.#ownership?.start();
      await this.#armer?.start();
      this.#isReady = true;
      this.#world.trace.add(this.life.name, "is ready");
    } catch {
      // A process that cannot start is restarted.
      this.life.die();
    }
  }
}

function findAgent(world: World, id: AgentId) {
  const entry = world.catalog.agents.get(id);
  return entry && createPlayer(id, entry.adapter, (turn) => world.expect(() => isWhole(turn, world.memory)));
}

/** A turn's conversation may be a suffix, but has no gaps and no duplicates. */
function isWhole({ runId, sessionId, input, history }: Turn, memory: MemoryStore): void {
  const given = history.map(({ id }) => id);
  must(new Set(given).size === given.length, () => `the turn of ${runId} has a message twice: ${given}`);
  const asked = memory.messagesOf(sessionId).flatMap(({ id, role }) => (role === "user" ? [id] : []));
  const first = history.find(({ role }) => role === "user");
  const from = first ? asked.indexOf(first.id) : -1;
  if (from < 0) return;
  const missing = asked.slice(from, asked.indexOf(input.id)).filter((id) => !given.includes(id));
  must(missing.length === 0, () => `the turn of ${runId} lacks ${missing}`);
}

/** A logged error breaks the history: errors must not happen under any faults. */
function logInto(world: World, name: string): Logger {
  return {
    debug() {},
    info() {},
    warn: (_, message) => world.trace.add(name, `warns: ${message}`),
    error: (facts, message) => {
      const { err } = facts as { err?: Error };
      const cause = err?.cause instanceof Error ? `, caused by ${err.cause.stack}` : "";
      world.break(`${name} logs an error: ${message}: ${err?.stack ?? JSON.stringify(facts)}${cause}`);
    },
  };
}
