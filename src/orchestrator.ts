import { Armer } from "./actors/armer.ts";
import { Host } from "./actors/host.ts";
import type { Mailbox, Serve } from "./bus/mailbox.ts";
import { type Membership, Partitions } from "./bus/partitions.ts";
import { BOUNDS } from "./config/bounds.ts";
import type { Catalog } from "./config/catalog.ts";
import type { Settings } from "./config/settings.ts";
import type { Metrics } from "./metrics.ts";
import { newId } from "./new-id.ts";
import type { FloorId } from "./protocol/ids.ts";
import type { Logger } from "./protocol/logger.ts";
import type { Tracer } from "./protocol/tracer.ts";
import type { Shape } from "./shape.ts";
import { Retention } from "./store/retention.ts";

export interface OrchestratorOptions {
  settings: Settings;
  shape: Shape;
  catalog: () => Catalog;
  mailbox: Mailbox;
  nodeId: string;
  /** Which other orchestrators there are; absent: none, and this one looks after all floors. */
  membership?: Membership | undefined;
  log: Logger;
  metrics: Metrics;
  tracer?: Tracer | undefined;
}

/** The part of a node that holds floors: it decides, arms what was decided, and forgets what is past its time. */
export class Orchestrator {
  readonly #shape: Shape;
  readonly #host: Host;
  readonly #armer: Armer;
  readonly #retention: Retention;
  readonly #partitions: Partitions | undefined;
  readonly #shares: number;

  constructor({ settings, shape, catalog, mailbox, nodeId, membership, log, metrics, tracer }: OrchestratorOptions) {
    const { store, bus, queue, clock } = shape;
    this.#shape = shape;
    this.#shares = settings.partitions;
    this.#host = new Host({
      store,
      bus,
      clock,
      newId,
      catalog,
      interactionTimeoutMs: settings.interactionTimeoutMs,
      arm: (effect) => this.#armer.arm(effect),
      maxFloors: BOUNDS.activeFloors,
      log,
      metrics,
      tracer,
    });
    this.#armer = new Armer({
      store,
      queue,
      clock,
      newId,
      ask: (envelope) => mailbox.ask(envelope),
      askTimeoutMs: settings.commandDeadlineMs,
      partitions: () => this.#partitions?.owned(),
      log,
    });
    this.#retention = new Retention({
      store,
      clock,
      log,
      everyMs: BOUNDS.pruneMs,
      limit: BOUNDS.prunePage,
      receiptMs: BOUNDS.receiptMs,
      retentionMs: settings.retentionMs,
      doubtMs: BOUNDS.receiptMs,
      isMine: () => this.#partitions?.isFirst ?? true,
    });
    this.#partitions =
      membership &&
      new Partitions({
        bus,
        membership,
        clock,
        nodeId,
        epoch: store.epoch,
        count: settings.partitions,
        leaseMs: settings.leaseMs,
        serve: (topic) => mailbox.serve(topic, this.#deliver),
        onTaken: () => this.#armer.sweep(),
        log,
      });
    clock.onJump((byMs) => this.#onJump(byMs, log));
    // What was armed may be gone with a Redis that came back empty; what is armed twice does no harm.
    bus.onRecovered(() => this.#armer.sweep());
  }

  /** Floors whose actors are in memory. */
  get floorCount(): number {
    return this.#host.floorCount;
  }

  /** Commands that its floors have not answered yet. */
  get waitingCount(): number {
    return this.#host.waitingCount;
  }

  /** Shares of the floors that this node looks after: all of them where it is alone. */
  get shareCount(): number {
    return this.#partitions?.ownedCount ?? this.#shares;
  }

  /** Answers for a floor without the bus, where this node looks after it. */
  local(floorId: FloorId): Serve | undefined {
    return (this.#partitions?.serves(floorId) ?? true) ? this.#deliver : undefined;
  }

  async start(): Promise<void> {
    await this.#partitions?.start();
    await this.#armer.start();
    this.#retention.start();
  }

  /** Hand over to others, who answer from then on; what was taken is answered. */
  async stop(patienceMs: number): Promise<void> {
    await this.#partitions?.stop(patienceMs);
    await this.#armer.stop();
    await this.#retention.stop();
    this.#host.retireIdle();
  }

  readonly #deliver: Serve = (envelope) => this.#host.deliver(envelope);

  #onJump(byMs: number, log: Logger): void {
    this.#retention.suspend();
    if (!this.#shape.hasOwnTime) return log.warn({ byMs }, "the database's clock jumped");
    log.warn({ byMs }, "the wall clock jumped: what waits for an instant waits as long as before");
    this.#armer.shift(byMs);
  }
}
