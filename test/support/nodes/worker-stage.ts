import { onTestFinished } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import type { Bus } from "../../../src/bus/bus.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import type { LogEntry } from "../../../src/protocol/event.ts";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { Armer } from "../../../src/queue/armer.ts";
import { MemoryQueue } from "../../../src/queue/memory-queue.ts";
import { Worker, type WorkerMetrics, type WorkerOptions as WorkerSettings } from "../../../src/runs/worker.ts";
import { Puppet } from "../agents/puppet.ts";
import { makeCatalog } from "../catalogs/catalog.ts";
import { HostStage } from "../floors/host-stage.ts";
import { UnreliableBus } from "../networks/unreliable-bus.ts";
import { KeptLog } from "../stores/sqlite-place.ts";
import { withMethods } from "../stores/temporary-store.ts";

const scripted = (changes: Record<string, unknown>) => ({ adapter: { kind: "scripted", ...changes } });

/** The longest delay before a part is reported, in ms. */
const REPORT_AFTER_MS = 250;

/** `restless` does not wait, `once` may be started once, `stacker` keeps turns for later, `phone` outranks all. */
const CATALOG = makeCatalog([
  { name: "music", priority: 20, ...scripted({ yields: "hold", restartable: true }) },
  { name: "restless", priority: 20, ...scripted({ yields: "abort", restartable: true }) },
  { name: "once", priority: 20, ...scripted({ yields: "hold", restartable: false }) },
  { name: "stacker", priority: 20, when_busy: "enqueue", ...scripted({}) },
  { name: "phone", priority: 90, ...scripted({}) },
]);

export interface WorkerOptions extends Partial<Pick<WorkerSettings, "log" | "tracer">> {
  concurrency?: number;
  /** Default: an owner may use the whole `concurrency`; eight runs may wait for a person, four of them of one owner. */
  places?: Partial<WorkerSettings["limits"]>;
  maxHeld?: number;
  leaveToOthersMs?: number;
  home?: string;
}

/** One of several workers, with the bus and the queue of its own process, and its counters. */
export class WorkerUnderTest {
  readonly worker: Worker;
  readonly queue: MemoryQueue;
  readonly log = new KeptLog();
  /** Ended runs, as `agent outcome`. */
  readonly ended: string[] = [];
  /** Running runs, held runs, and runs that wait for a person, if any. */
  counts: { underWay: number; held: number; waiting?: number } = { underWay: 0, held: 0 };
  /** Agents whose programs are missing. */
  readonly lacks = new Set<string>();
  /** Whether the queue gives it runs. */
  isOffered = true;
  /** Whether its process is cut off from the bus. */
  isCutOff = false;
  /** What it asked floors, including repeats. */
  readonly asked: Envelope[] = [];

  constructor(
    stage: WorkerStage,
    name: string,
    { concurrency = 8, places = {}, maxHeld = 50, leaveToOthersMs = 0, home, ...settings }: WorkerOptions,
  ) {
    const { floors, bus, agents } = stage;
    const { clock, store } = floors;
    this.queue = new MemoryQueue(clock);
    const metrics: WorkerMetrics = {
      runEnded: (_, agentId, outcome, __, failure) =>
        void this.ended.push(`${agentId} ${outcome}${failure ? `: ${failure.errorCode}` : ""}`),
      runsUnderWay: (underWay, held, waiting) => {
        this.counts = { underWay, held, ...(waiting > 0 && { waiting }) };
      },
    };
    let ids = 0;
    this.worker = new Worker({
      queue: this.queue,
      bus: this.#busOf(bus),
      store: store.store,
      send: (envelope) => this.#ask(floors, envelope),
      agents: { find: (id) => agents.get(id), canRun: (id) => agents.has(id) && !this.lacks.has(id) },
      clock,
      newId: () => `${name}-${ids++}`,
      sendTimeoutMs: 5_000,
      limits: { total: concurrency, perOwner: concurrency, waiting: 8, waitingPerOwner: 4, ...places },
      maxHeld,
      holdTimeoutMs: 300_000,
      leaveToOthersMs,
      home,
      log: this.log,
      metrics,
      ...settings,
    });
  }

  /** Its claims, in order. */
  get claims(): { claimId: string; hasNoDriver: boolean }[] {
    return this.asked.flatMap(({ command }) => (command.type === "run.claim" ? [command] : []));
  }

  /** The bus, as long as this process is connected. */
  #busOf(bus: Bus): Bus {
    return withMethods(bus, {
      publish: async (topic, message) => {
        if (!this.isCutOff) await bus.publish(topic, message);
      },
      subscribe: (topic, listener) => bus.subscribe(topic, (message) => !this.isCutOff && listener(message)),
    });
  }

  async #ask(floors: HostStage, envelope: Envelope): Promise<Reply> {
    this.asked.push(envelope);
    if (this.isCutOff) throw new AppError("unavailable");
    return await floors.host.dispatch(envelope);
  }
}

/** Floors, a queue and workers of one process. The test controls the agents, the clock and the bus. */
export class WorkerStage {
  readonly floors: HostStage;
  readonly bus: UnreliableBus;
  readonly agents = new Map<string, Agent>();
  /** The trace of the commits that request runs. */
  trace: string | undefined;
  readonly #workers: WorkerUnderTest[] = [];
  readonly #armer: Armer;

  private constructor(floors: HostStage, bus: UnreliableBus) {
    this.floors = floors;
    this.bus = bus;
    const { clock, store, host, log } = floors;
    const alarms = new MemoryQueue(clock);
    for (const name of ["music", "restless", "once", "stacker", "phone"]) this.agents.set(name, new Puppet(name));
    let ids = 0;
    this.#armer = new Armer({
      store: store.store,
      queue: {
        // At least once: every worker gets every run, and the floor decides which one has it.
        add: async (entry) => {
          if (entry.kind === "alarm") return await alarms.add(entry);
          const traced = this.trace === undefined ? entry : { ...entry, trace: this.trace };
          const offered = this.#workers.filter((each) => each.isOffered);
          await Promise.all(offered.map(({ queue }) => queue.add(traced)));
        },
        process: alarms.process.bind(alarms),
        waitingRuns: () => alarms.waitingRuns(),
        close: () => alarms.close(),
      },
      clock,
      wallNow: () => clock.now(),
      unansweredCount: () => host.unansweredCount,
      newId: () => `alarm-${ids++}`,
      send: (envelope) => host.dispatch(envelope),
      sendTimeoutMs: 5_000,
      log,
    });
    floors.catalog = CATALOG;
    floors.onArm = (entry) => this.#armer.arm(entry);
  }

  static async open(): Promise<WorkerStage> {
    const bus = new UnreliableBus();
    const stage = new WorkerStage(await HostStage.open({ bus }), bus);
    await stage.#armer.start();
    onTestFinished(async () => {
      const stopped = stage.#armer.stop();
      await stage.clock.advance(0);
      await stopped;
    });
    return stage;
  }

  get clock() {
    return this.floors.clock;
  }

  puppet(name = "music"): Puppet {
    return this.agents.get(name) as Puppet;
  }

  async startWorker(options: WorkerOptions = {}): Promise<WorkerUnderTest> {
    const worker = new WorkerUnderTest(this, `w${this.#workers.length + 1}`, options);
    this.#workers.push(worker);
    await worker.worker.start();
    return worker;
  }

  /** A session that has its user's floor and the same name as its user. */
  async create(userId: string, agentId = "music"): Promise<void> {
    const reply = await this.floors.create(userId, agentId, { floorId: `u:${userId}` });
    if (!reply.ok) throw new Error(`no session: ${reply.code}`);
  }

  /** A turn of a session. The run is named after the session. */
  async chat(userId: string, runId = `run-${userId}`): Promise<void> {
    const turn = { messageId: `m-${runId}`, runId, content: "go" };
    const reply = await this.floors.ask({ type: "session.chat", sessionId: userId, turn }, { floorId: `u:${userId}` });
    if (!reply.ok) throw new Error(`no turn: ${reply.code}`);
    await this.clock.advance(0);
  }

  /** A user's command to the session. */
  async on(userId: string, verb: "pause" | "resume" | "abort" | "archive"): Promise<void> {
    const reply = await this.floors.on(userId, verb, { floorId: `u:${userId}` });
    if (!reply.ok) throw new Error(`no ${verb}: ${reply.code}`);
    await this.clock.advance(0);
  }

  /** A phone call on a user's floor. */
  async ring(userId: string): Promise<void> {
    await this.floors.create(`call-${userId}`, "phone", { floorId: `u:${userId}` });
    await this.clock.advance(0);
  }

  async hangUp(userId: string): Promise<void> {
    await this.floors.on(`call-${userId}`, "archive", { floorId: `u:${userId}` });
    await this.clock.advance(0);
  }

  /** `state/activity` of a session. */
  async stateOf(userId: string): Promise<string> {
    const { state, activity } = (await this.floors.store.store.loadSession(userId as SessionId))!.session;
    return `${state}/${activity}`;
  }

  /** The stored messages of the agents in a session: `status text`. */
  async answersOf(userId: string): Promise<string[]> {
    const page = await this.floors.store.store.listMessages(userId as SessionId, { limit: 500 });
    const answers = page!.messages.filter(({ role }: Message) => role === "assistant");
    return answers.map(({ status, content }) => `${status} ${content}`);
  }

  async eventsOf(userId: string, type: string): Promise<Record<string, unknown>[]> {
    const { entries } = await this.floors.store.store.readFloorLog(`u:${userId}` as FloorId, 0, 1_000);
    return entries.filter((entry: LogEntry) => entry.type === type).map(({ json }) => JSON.parse(json));
  }

  /** Pending run requests. */
  async runRequests() {
    return await this.floors.store.store.dueRunRequests({ until: Number.MAX_SAFE_INTEGER, limit: 1_000 });
  }

  /** The alarms of the floors. */
  async alarms() {
    return await this.floors.store.store.dueAlarms({ until: Number.MAX_SAFE_INTEGER, limit: 1_000 });
  }
}

/** Ann's session, whose run has written "la". */
export async function openSinging(options: { agent?: string; maxHeld?: number; concurrency?: number } = {}) {
  const { agent = "music", ...rest } = options;
  const stage = await WorkerStage.open();
  const worker = await stage.startWorker(rest);
  await sing(stage, "ann", agent);
  return { stage, worker, puppet: stage.puppet(agent) };
}

/** Another session, whose agent has written "la". */
export async function sing(stage: WorkerStage, userId: string, agent = "music"): Promise<void> {
  await stage.create(userId, agent);
  await stage.chat(userId);
  stage.puppet(agent).last.say("la");
  await stage.clock.advance(REPORT_AFTER_MS);
}
