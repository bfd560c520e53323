// Rule C23 of docs/inside/correctness.md.
import { z } from "zod";
import type { Bus, Subscription, Unsubscribe } from "../bus/bus.ts";
import { ownersOf } from "../bus/rendezvous.ts";
import type { FloorId } from "../protocol/ids.ts";
import { readMessage, writeMessage } from "../protocol/internal/bus-message.ts";
import { FLOOR_HASHES, floorHash } from "../protocol/internal/hash.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { every } from "../shared/waiting.ts";
import type { StoreWatch } from "./store-watch.ts";

/** The orchestrators that are alive. Each is a member for one lease at a time. */
export interface Membership {
  /**
   * Renew this node's lease.
   * @returns the ids of all members, including this node
   * @throws AppError `unavailable` when the members cannot be read
   */
  renew(): Promise<string[]>;
  /** End this node's lease at once. */
  leave(): Promise<void>;
}

export interface OwnershipOptions {
  bus: Bus;
  membership: Membership;
  /**
   * Whether the store answers this node, which renews its lease only while it does. Absent: the store always answers.
   */
  storeWatch?: Pick<StoreWatch, "isSilent" | "isCutOff"> | undefined;
  clock: Clock;
  /** This node's id among the members. */
  nodeId: string;
  epoch: string;
  /** The number of partitions that the floors are divided into, 1 to 256 (`floorHash`); the same on all nodes. */
  count: number;
  /** How long a node remains a member without renewing, in ms. */
  leaseMs: number;
  /** Serve the commands that arrive on the topic of a partition. */
  serve: (topic: string) => Promise<Subscription>;
  /** Called when this node has gained partitions, whose run requests must be armed (rule C8). */
  onGained: () => void;
  log: Logger;
}

/** Renewals per lease: a node may miss two before its lease ends. */
const RENEWALS = 3;

const NodeMessage = z.union([
  /** A node joined or left. */
  z.object({ changed: z.literal(true) }),
  /** A node serves these partitions from now on. */
  z.object({ by: z.string(), gained: z.array(z.number()) }),
]);
type NodeMessage = z.infer<typeof NodeMessage>;

/** The topic of a floor's partition, on which the owner receives commands. */
export function partitionTopic(epoch: string, floorId: FloorId, count: number): string {
  return topicOf(epoch, floorHash(floorId) % count);
}

const topicOf = (epoch: string, partition: number) => `${epoch}.floors.${partition}`;

/**
 * Which floors this node owns: an optimisation, never a guarantee (docs/inside/architecture.md, principle 2).
 * Rendezvous hashing assigns partitions to nodes, so that only the partitions of a node that left move. A node serves a
 * partition until it receives the message that the successor does (rule C23). For a moment two nodes may serve it, and
 * the store lets one of them win.
 */
export class Ownership {
  readonly #options: OwnershipOptions;
  /** The partitions this node serves, with their subscriptions. */
  readonly #served = new Map<number, Promise<Subscription>>();
  /** Partitions this node still serves although another node owns them, with the time at which it lost them, in ms. */
  readonly #leaving = new Map<number, number>();
  #owned: ReadonlySet<number> = new Set();
  #members = "";
  #partitionsOf: ReadonlyMap<string, number> = new Map();
  #timer: Timer | undefined;
  #announcements: Subscription | undefined;
  #forget: Unsubscribe | undefined;
  #renewing: Promise<void> | undefined;
  #isRenewedAgain = false;
  #isStopping = false;
  /** A series of failed renewals is logged once. */
  #isFailureLogged = false;
  #whenLeft: (() => void) | undefined;

  constructor(options: OwnershipOptions) {
    this.#options = options;
  }

  /** @throws AppError `unavailable` when the members cannot be read or the bus is away */
  async start(): Promise<void> {
    const { bus } = this.#options;
    this.#announcements = await bus.subscribe(this.#topic, (message) => this.#receive(message));
    this.#forget = bus.onRecovered(() => void this.#renew());
    await this.#renewFirst();
    this.#announce({ changed: true });
    const { clock, leaseMs } = this.#options;
    if (!this.#isStopping) this.#timer = every(clock, leaseMs / RENEWALS, () => this.#renew());
  }

  /** Hand over: ask other nodes to take this node's partitions, and serve until they do, for at most `patienceMs`. */
  async stop(patienceMs: number): Promise<void> {
    const { membership, clock, log } = this.#options;
    this.#isStopping = true;
    this.#timer?.cancel();
    await this.#renewing;
    try {
      await membership.leave();
      this.#announce({ changed: true });
      if (this.#served.size > 0 && this.#members !== this.#options.nodeId) await this.#leftAlone(clock, patienceMs);
    } catch (error) {
      log.warn({ err: error }, "this node could not announce that it leaves; its floors move when its lease ends");
    }
    this.#announcements?.end();
    this.#forget?.();
    for (const partition of [...this.#served.keys()]) this.#release(partition);
  }

  /** Whether this node serves a floor. */
  serves(floorId: FloorId): boolean {
    return this.#served.has(floorHash(floorId) % this.#options.count);
  }

  /** The hashes of the floors that this node owns, each `floorHash`; undefined: all of them. */
  ownedHashes(): number[] | undefined {
    const { count } = this.#options;
    if (this.#owned.size === count) return undefined;
    return Array.from({ length: FLOOR_HASHES }, (_, hash) => hash).filter((hash) => this.#owned.has(hash % count));
  }

  /** Whether this node does the work that one node does for all. */
  get isFirst(): boolean {
    return this.#owned.has(0);
  }

  get ownedCount(): number {
    return this.#owned.size;
  }

  /** How many partitions fall to each member, by its id, as of the last renewal. */
  get partitionsOf(): ReadonlyMap<string, number> {
    return this.#partitionsOf;
  }

  get #topic(): string {
    return `${this.#options.epoch}.nodes`;
  }

  #announce(message: NodeMessage): void {
    void this.#options.bus.publish(this.#topic, writeMessage(message));
  }

  #receive(bytes: Uint8Array): void {
    const message = readMessage(NodeMessage, bytes);
    if (!message) return;
    if ("changed" in message) return void this.#renew();
    if (message.by !== this.#options.nodeId) void this.#giveUp(message.gained);
  }

  /** Another node serves these partitions: release the ones that this node's own view assigns to another node too. */
  async #giveUp(partitions: readonly number[]): Promise<void> {
    if (!this.#isStopping) await this.#renew();
    const { storeWatch } = this.#options;
    // A node takes partitions only while the store answers it, so the other node is better placed.
    if (storeWatch?.isSilent) return this.#leave(partitions);
    for (const partition of partitions) if (this.#leaving.has(partition) || this.#isStopping) this.#release(partition);
  }

  /** Renewals do not overlap; a request during a renewal runs another one after it. */
  #renew(): Promise<void> {
    if (this.#renewing) {
      this.#isRenewedAgain = true;
      return this.#renewing;
    }
    const renewing = this.#renewAll().finally(() => {
      this.#renewing = undefined;
    });
    this.#renewing = renewing;
    return renewing;
  }

  /** A request during it runs another one after it, as during any renewal: of two views the newer one counts. */
  async #renewFirst(): Promise<void> {
    const first = this.#renewOnce();
    const after = async () => {
      if (this.#isRenewedAgain) await this.#renewAll();
    };
    this.#renewing = first
      .then(after, () => {})
      .finally(() => {
        this.#renewing = undefined;
      });
    await first;
    await this.#renewing;
  }

  async #renewAll(): Promise<void> {
    do {
      this.#isRenewedAgain = false;
      try {
        await this.#renewOnce();
        this.#isFailureLogged = false;
      } catch (error) {
        // An outdated view is harmless: while the bus is away, no other node can be asked either.
        if (!this.#isFailureLogged)
          this.#options.log.warn({ err: error }, "the members cannot be read; this node keeps its floors");
        this.#isFailureLogged = true;
      }
    } while (this.#isRenewedAgain && !this.#isStopping);
  }

  async #renewOnce(): Promise<void> {
    if (this.#isStopping) return;
    const { membership, storeWatch, count, nodeId, clock, leaseMs, log, onGained } = this.#options;
    if (storeWatch?.isSilent) {
      if (storeWatch.isCutOff) this.#leaveToOthers();
      return;
    }
    const members = await membership.renew();
    this.#dropWhatWasLeft(clock.now() - leaseMs);
    const key = [...members].sort().join();
    if (key === this.#members) return;
    const owners = ownersOf(members, count);
    const owned = new Set(owners.flatMap((owner, partition) => (owner === nodeId ? [partition] : [])));
    const gained = [...owned].filter((partition) => !this.#owned.has(partition));
    for (const partition of this.#served.keys()) {
      if (owned.has(partition)) this.#leaving.delete(partition);
      else if (!this.#leaving.has(partition)) this.#leaving.set(partition, clock.now());
    }
    await Promise.all([...owned].map((partition) => this.#serve(partition)));
    this.#owned = owned;
    this.#members = key;
    this.#partitionsOf = new Map(members.map((member) => [member, owners.filter((owner) => owner === member).length]));
    log.info({ nodes: members.length, partitions: owned.size, gained: gained.length }, "the floors were redistributed");
    if (gained.length === 0) return;
    this.#announce({ by: nodeId, gained });
    onGained();
  }

  /**
   * The store answers other nodes and not this one: they own its partitions now, and its answers would conflict with
   * theirs.
   */
  #leaveToOthers(): void {
    if (this.#served.size > 0 || this.#owned.size > 0) {
      this.#options.log.warn({}, "the store answers other nodes but not this one: they take over its floors");
    }
    this.#leave([...this.#served.keys(), ...this.#owned]);
  }

  /** Give up these partitions until the next successful renewal. */
  #leave(partitions: readonly number[]): void {
    this.#owned = new Set([...this.#owned].filter((partition) => !partitions.includes(partition)));
    this.#members = "";
    for (const partition of partitions) this.#release(partition);
  }

  async #serve(partition: number): Promise<void> {
    const { serve, epoch } = this.#options;
    const known = this.#served.get(partition);
    if (known) return void (await known);
    const serving = serve(topicOf(epoch, partition));
    this.#served.set(partition, serving);
    try {
      await serving;
    } catch (error) {
      this.#served.delete(partition);
      throw error;
    }
  }

  /** Release partitions whose successor has not announced itself for a lease: assume that it serves them. */
  #dropWhatWasLeft(before: number): void {
    for (const [partition, since] of this.#leaving) if (since <= before) this.#release(partition);
  }

  #release(partition: number): void {
    this.#leaving.delete(partition);
    const serving = this.#served.get(partition);
    this.#served.delete(partition);
    serving?.then(
      (subscription) => subscription.end(),
      () => {},
    );
    if (this.#served.size === 0) this.#whenLeft?.();
  }

  #leftAlone(clock: Clock, patienceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const late = clock.after(patienceMs, resolve);
      this.#whenLeft = () => {
        late.cancel();
        resolve();
      };
    });
  }
}
