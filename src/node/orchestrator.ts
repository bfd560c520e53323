import { Host } from "../actors/host/host.ts";
import type { Mailbox } from "../cluster/mailbox.ts";
import { type Membership, Ownership } from "../cluster/ownership.ts";
import type { StoreWatch } from "../cluster/store-watch.ts";
import { BOUNDS } from "../config/bounds.ts";
import type { Catalog } from "../config/catalog/catalog.ts";
import type { Settings } from "../config/settings.ts";
import type { FloorId } from "../protocol/ids.ts";
import { Armer } from "../queue/armer.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Tracer } from "../shared/ports/tracer.ts";
import { Retention } from "../store/retention.ts";
import { newId } from "../system/new-id.ts";
import { Courier } from "../webhooks/courier.ts";
import { disabledSince } from "../webhooks/disabled.ts";
import { noticesOf } from "../webhooks/notices.ts";
import type { OpenWebhooks } from "../webhooks/open-webhooks.ts";
import type { Deployment } from "./deployment.ts";
import type { Metrics } from "./metrics.ts";

export interface OrchestratorOptions {
  settings: Settings;
  deployment: Deployment;
  catalog: () => Catalog;
  mailbox: Mailbox;
  nodeId: string;
  /** The other orchestrators. Absent: there are none, and this one owns all floors. */
  membership?: Membership | undefined;
  /** Whether the store answers this node; absent when this is the only node. */
  storeWatch?: StoreWatch | undefined;
  /** Absent: this node neither writes nor sends notices. */
  webhooks?: OpenWebhooks | undefined;
  log: Logger;
  metrics: Metrics;
  tracer?: Tracer | undefined;
}

/**
 * The part of a node that owns floors: it executes commands, arms run requests and alarms, sends the notices of
 * webhooks, and prunes expired data.
 */
export class Orchestrator {
  readonly #deployment: Deployment;
  readonly #host: Host;
  readonly #armer: Armer;
  readonly #retention: Retention;
  readonly #webhooks: OpenWebhooks | undefined;
  readonly #courier: Courier | undefined;
  readonly #ownership: Ownership | undefined;
  readonly #nodeId: string;
  readonly #partitionCount: number;

  constructor({
    settings,
    deployment,
    catalog,
    mailbox,
    nodeId,
    membership,
    storeWatch,
    webhooks,
    log,
    metrics,
    tracer,
  }: OrchestratorOptions) {
    const { store, bus, queue, clock } = deployment;
    this.#deployment = deployment;
    this.#webhooks = webhooks;
    this.#nodeId = nodeId;
    this.#partitionCount = settings.partitions;
    this.#host = new Host({
      store,
      bus,
      clock,
      jumpedMs: () => clock.jumpedMs,
      wall: () => clock.wallNow(),
      newId,
      catalog,
      interactionTimeoutMs: settings.interactionTimeoutMs,
      arm: (due) => this.#armer.arm(due),
      ...(webhooks && {
        noticesOf: (events) => noticesOf(webhooks.current(), events, { time: clock.elapsed.now(), newId }),
        onNotices: (hook: string) => this.#courier!.wake(hook),
      }),
      maxFloors: BOUNDS.activeFloors,
      log,
      metrics,
      tracer,
    });
    this.#armer = new Armer({
      store,
      queue,
      clock: clock.elapsed,
      wallNow: () => clock.now(),
      lateRings: deployment.lateRings,
      unansweredCount: () => this.#host.unansweredCount,
      newId,
      send: mailbox.send,
      sendTimeoutMs: settings.commandDeadlineMs,
      floorHashes: () => this.#ownership?.ownedHashes(),
      onNotQueued: () => metrics.notQueued(),
      log,
    });
    this.#retention = new Retention({
      store,
      clock,
      jumpedMs: () => clock.jumpedMs,
      log,
      everyMs: BOUNDS.pruneMs,
      limit: BOUNDS.prunePage,
      receiptMs: BOUNDS.receiptMs,
      stagedMs: BOUNDS.stagedMs,
      retentionMs: settings.retentionMs,
      doubtMs: BOUNDS.receiptMs,
      isMine: () => this.#ownership?.isFirst ?? true,
    });
    this.#courier =
      webhooks &&
      new Courier({
        store,
        clock: clock.elapsed,
        webhooks: webhooks.current,
        send: webhooks.send,
        newId,
        random: Math.random,
        onOutcome: (hook, outcome, count) => metrics.noticesEnded(hook, outcome, count),
        log,
      });
    this.#ownership =
      membership &&
      new Ownership({
        bus,
        membership,
        storeWatch,
        clock,
        nodeId,
        epoch: store.epoch,
        count: settings.partitions,
        leaseMs: settings.leaseMs,
        serve: (topic) => mailbox.serveTopic(topic, this.#host.dispatch),
        onGained: () => this.#armer.sweep(),
        log,
      });
    mailbox.serve(this.#host.dispatch, (floorId) => this.#serves(floorId));
    clock.onJump((byMs) => this.#onJump(byMs, log));
    // Redis may have come back empty, without the run requests armed before; arming one twice is harmless.
    bus.onRecovered(() => this.#armer.sweep());
  }

  /** Floors whose actors are in memory. */
  get floorCount(): number {
    return this.#host.floorCount;
  }

  /** Commands that this node's floors have not answered yet. */
  get unansweredCount(): number {
    return this.#host.unansweredCount;
  }

  /** The runs of all nodes that wait for a worker, and for how long the oldest has, in ms. */
  async waitingRuns(): Promise<{ count: number; oldestMs: number }> {
    const { queue, clock } = this.#deployment;
    const { count, since } = await queue.waitingRuns();
    return { count, oldestMs: since === undefined ? 0 : Math.max(0, clock.elapsed.now() - since) };
  }

  /** How many notices wait for each webhook's receiver; undefined if this node sends none. */
  async waitingNotices(): Promise<ReadonlyMap<string, number> | undefined> {
    if (!this.#webhooks) return undefined;
    const counts = new Map(Array.from(this.#webhooks.current().keys(), (hook) => [hook, 0]));
    for (const { hook, pending } of await this.#deployment.store.countNotices()) counts.set(hook, pending);
    return counts;
  }

  /** Whether each webhook is disabled; undefined if this node sends none. */
  async disabledWebhooks(): Promise<ReadonlyMap<string, boolean> | undefined> {
    if (!this.#webhooks) return undefined;
    const disabled = await this.#deployment.store.disabledHooks();
    const hooks = [...this.#webhooks.current().values()];
    return new Map(hooks.map((hook) => [hook.name, disabledSince(hook, disabled) !== undefined]));
  }

  /** The number of partitions that this node owns: all of them when it is the only node. */
  get partitionCount(): number {
    return this.#ownership?.ownedCount ?? this.#partitionCount;
  }

  /** How many partitions fall to each orchestrator that is alive, by its node's id. */
  get partitionsOf(): ReadonlyMap<string, number> {
    return this.#ownership?.partitionsOf ?? new Map([[this.#nodeId, this.#partitionCount]]);
  }

  async start(): Promise<void> {
    await this.#ownership?.start();
    await this.#armer.start();
    this.#retention.start();
    this.#courier?.start();
  }

  /** Apply a new catalogue to every floor, in the background. */
  renumber(): void {
    this.#armer.visit((floorId) => this.#serves(floorId));
  }

  /**
   * Hand the floors over to other nodes, for at most `patienceMs`. It waits for no command: the gateway has ended
   * before, and other nodes repeat theirs.
   */
  async stop(patienceMs: number): Promise<void> {
    await Promise.all([this.#ownership?.stop(patienceMs), this.#courier?.stop(patienceMs)]);
    await this.#armer.stop();
    await this.#retention.stop();
    this.#host.retireIdle();
  }

  #serves(floorId: FloorId): boolean {
    return this.#ownership?.serves(floorId) ?? true;
  }

  #onJump(byMs: number, log: Logger): void {
    this.#retention.suspend(byMs);
    // Sessions whose time is skipped ask now.
    this.#armer.sweep();
    if (!this.#deployment.hasOwnTime) return log.warn({ byMs }, "the database's clock jumped");
    log.warn({ byMs }, "the wall clock jumped; deadlines leave the jump out, and come after as long as before");
  }
}
