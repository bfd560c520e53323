import { Host } from "../../../src/actors/host/host.ts";
import type { HostMetrics } from "../../../src/actors/host/loaded-floor.ts";
import type { Bus } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import type { Catalog } from "../../../src/config/catalog/catalog.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Command } from "../../../src/protocol/internal/command.ts";
import { decodeFloorMessage, type FloorMessage, floorTopic } from "../../../src/protocol/internal/floor-message.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { Queued } from "../../../src/queue/run-queue.ts";
import type { Clock } from "../../../src/shared/ports/clock.ts";
import type { Store } from "../../../src/store/store.ts";
import { EXAMPLE_AGENTS, makeCatalog } from "../catalogs/catalog.ts";
import { VirtualClock } from "../runner/virtual-clock.ts";
import { ControlledStore } from "../stores/controlled-store.ts";
import { MemoryStore } from "../stores/memory-store.ts";
import { KeptLog } from "../stores/sqlite-place.ts";

import type { LooseCommand } from "./floor-stage.ts";

/** How long a command waits for its host, in ms. */
const DEADLINE_MS = 5_000;

/** Default: ann asks her own floor, under a new id, for the next five seconds. `caller: null`: the system asks. */
interface Asking {
  floorId?: string;
  caller?: string | null;
  commandId?: string;
  bodyHash?: string;
  timeoutAt?: number;
  /** The owner to whose sessions the command is limited. */
  actsFor?: string;
  ifSeq?: number;
}

interface StageOptions {
  maxFloors?: number;
  bus?: Bus;
  /** Default: a store in memory, which does not prune. */
  openStore?: (clock: Clock) => Promise<Store>;
}

/** The host's counters. */
class KeptMetrics implements HostMetrics {
  /** Commands of each committed batch. */
  readonly batches: number[] = [];
  /** Floors whose actors failed. */
  readonly breaks: string[] = [];
  conflicts = 0;
  lapses = 0;

  command(): void {}

  batch(commands: number): void {
    this.batches.push(commands);
  }

  conflict(): void {
    this.conflicts += 1;
  }

  lapsed(sessions: number): void {
    this.lapses += sessions;
  }

  broken(kind: string): void {
    this.breaks.push(kind);
  }

  budgetSpent(): void {}

  counted(): void {}
}

/** A host over a store. The test controls the commits, the clock, the catalogue and the arming of run requests. */
export class HostStage {
  readonly host: Host;
  readonly store: ControlledStore;
  readonly clock: VirtualClock;
  readonly bus: Bus;
  readonly log = new KeptLog();
  readonly metrics = new KeptMetrics();
  readonly armed: Queued[] = [];
  /** Called with each run request and alarm that is to be armed. */
  onArm: (queued: Queued) => void = () => {};
  catalog: Catalog = makeCatalog(EXAMPLE_AGENTS);
  /** Commands delivered to the actors, including repeated deliveries. */
  entered = 0;
  #asked = 0;
  readonly #node: string;
  readonly #maxFloors: number;
  readonly #beneath: Store;

  private constructor(
    node: string,
    beneath: Store,
    options: Required<Omit<StageOptions, "openStore">> & { clock: VirtualClock },
  ) {
    const { clock, bus, maxFloors } = options;
    this.#node = node;
    this.#maxFloors = maxFloors;
    this.#beneath = beneath;
    this.clock = clock;
    this.bus = bus;
    this.store = new ControlledStore(beneath);
    this.host = new Host({
      store: this.store.store,
      bus,
      clock,
      newId: () => `${node}-${this.entered++}`,
      catalog: () => this.catalog,
      interactionTimeoutMs: 300_000,
      arm: (queued) => {
        this.armed.push(queued);
        this.onArm(queued);
      },
      maxFloors,
      log: this.log,
      metrics: this.metrics,
    });
  }

  static async open(options: StageOptions = {}): Promise<HostStage> {
    const { maxFloors = 16, bus = new MemoryBus(), openStore = async () => new MemoryStore() } = options;
    // A timer has done its work when its commits are done.
    const clock: VirtualClock = new VirtualClock({ settle: () => stage.store.idle() });
    const stage: HostStage = new HostStage("node", await openStore(clock), { clock, bus, maxFloors });
    return stage;
  }

  /** Another node's host over the same store and bus, which does not know this one. */
  neighbour(): HostStage {
    const { clock, bus, catalog } = this;
    const other = new HostStage(`${this.#node}2`, this.#beneath, { clock, bus, maxFloors: this.#maxFloors });
    other.catalog = catalog;
    return other;
  }

  /** Rejects with the host's error. */
  async ask(command: LooseCommand, asking: Asking = {}): Promise<Reply> {
    const { floorId = "u:ann", caller = "ann", bodyHash = "body", actsFor, ifSeq } = asking;
    const { commandId = `${this.#node}-command${this.#asked++}`, timeoutAt = this.clock.now() + DEADLINE_MS } = asking;
    return await this.host.dispatch({
      floorId: floorId as FloorId,
      ...(caller !== null && { caller }),
      actsFor,
      commandId,
      bodyHash,
      timeoutAt,
      ifSeq,
      command: command as Command,
    });
  }

  /** The code of the rejection, or `answered`. */
  async failureOf(asked: Promise<Reply>): Promise<string> {
    return asked.then(
      () => "answered",
      (error) => (error as { code?: string }).code ?? String(error),
    );
  }

  create(
    sessionId: string,
    agentId: string,
    asking: Asking & { activate?: boolean; ownerId?: string } = {},
  ): Promise<Reply> {
    const { activate = true, floorId = "u:ann", ownerId } = asking;
    const [userId, zone] = floorId.slice(2).split("/");
    const session = { sessionId, agentId, userId, ...(zone && { zone }), ...(ownerId && { ownerId }) };
    return this.ask({ type: "session.create", sessionId, session, activate }, { ...asking, floorId });
  }

  on(sessionId: string, verb: "activate" | "resume" | "pause" | "archive" | "abort", asking?: Asking): Promise<Reply> {
    return this.ask({ type: `session.${verb}`, sessionId }, asking);
  }

  rename(sessionId: string, title: string, asking?: Asking): Promise<Reply> {
    return this.ask({ type: "session.update", sessionId, settings: { title } }, asking);
  }

  /** A turn whose run is claimed, in its first attempt. */
  async run(sessionId: string, runId: string): Promise<void> {
    await this.ask({ type: "session.chat", sessionId, turn: { messageId: `m-${runId}`, runId, content: "go" } });
    const claim = { type: "run.claim" as const, sessionId, runId, claimId: "worker", hasNoDriver: false };
    await this.ask(claim, { caller: null });
  }

  /** What followers of a floor receive from now on. */
  async hear(floorId = "u:ann"): Promise<FloorMessage[]> {
    const received: FloorMessage[] = [];
    const topic = floorTopic(this.#beneath.epoch, floorId as FloorId);
    await this.bus.subscribe(topic, (message) => void received.push(decodeFloorMessage(message)));
    return received;
  }

  /** Resolves when nothing more can happen without the held commits. */
  settle(): Promise<void> {
    return this.store.idle();
  }
}
