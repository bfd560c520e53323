import { z } from "zod";
import { readMessage } from "../protocol/bus-message.ts";
import type { Clock, Timer } from "../protocol/clock.ts";
import type { FloorId } from "../protocol/ids.ts";
import type { Logger } from "../protocol/logger.ts";
import { PARTITIONS, partitionOf } from "../protocol/partition.ts";
import type { Bus, Unsubscribe } from "./bus.ts";
import { ownersOf } from "./rendezvous.ts";

/** Which orchestrators there are. Each is there for a lease at a time. */
export interface Membership {
  /**
   * Be there for another lease.
   * @returns everybody who is there, this node among them
   * @throws AppError `unavailable`: nobody can tell
   */
  renew(): Promise<string[]>;
  /** Be gone at once. */
  leave(): Promise<void>;
}

export interface PartitionsOptions {
  bus: Bus;
  membership: Membership;
  clock: Clock;
  /** Names this node among the members. */
  nodeId: string;
  epoch: string;
  /** Into how many shares the floors are divided, 1 to 256; the same on all nodes. */
  count: number;
  /** How long a node that says nothing is believed to be there, in ms. */
  leaseMs: number;
  /** Answer what is asked on the topic of a share. */
  serve: (topic: string) => Promise<Unsubscribe>;
  /** Shares came to this node: their effects are to be armed (rule C8). */
  onTaken: () => void;
  log: Logger;
}

/** Renewals in the time of a lease: two may be lost before a node is missed. */
const RENEWALS = 3;

const NodeMessage = z.union([
  /** A node came or went. */
  z.object({ changed: z.literal(true) }),
  /** A node answers for these shares from now on. */
  z.object({ by: z.string(), taken: z.array(z.number()) }),
]);
type NodeMessage = z.infer<typeof NodeMessage>;

/** The topic on which a floor's owner is asked. */
export function partitionTopic(epoch: string, floorId: FloorId, count: number): string {
  return topicOf(epoch, partitionOf(floorId) % count);
}

const topicOf = (epoch: string, share: number) => `${epoch}.floors.${share}`;

/**
 * Which floors this node looks after: an optimisation, never a guarantee (docs/architecture.md, principle 2). Shares go
 * to nodes by rendezvous hashing, so that only those of a node that is gone move. A node serves until it hears that its
 * successor does (rule C23); for a moment two may, and the store lets one of them win.
 */
export class Partitions {
  readonly #options: PartitionsOptions;
  /** What is answered here. */
  readonly #served = new Map<number, Promise<Unsubscribe>>();
  /** What is answered here although another is to do it, and since when. */
  readonly #leaving = new Map<number, number>();
  #owned: ReadonlySet<number> = new Set();
  #members = "";
  #timer: Timer | undefined;
  #forget: Unsubscribe[] = [];
  #renewing: Promise<void> | undefined;
  #isRenewedAgain = false;
  #isStopping = false;
  /** A failure is told once, until one goes well. */
  #isTold = false;
  #whenLeft: (() => void) | undefined;

  constructor(options: PartitionsOptions) {
    this.#options = options;
  }

  /** @throws AppError `unavailable` when the members cannot be told */
  async start(): Promise<void> {
    const { bus } = this.#options;
    this.#forget.push(await bus.subscribe(this.#topic, (message) => this.#hear(message)));
    this.#forget.push(bus.onRecovered(() => void this.#renew()));
    await this.#renewOnce();
    this.#tell({ changed: true });
    this.#schedule();
  }

  /** Hand over: others are told to take what this node has, and it answers until they do, for at most so long. */
  async stop(patienceMs: number): Promise<void> {
    const { membership, clock, log } = this.#options;
    this.#isStopping = true;
    this.#timer?.cancel();
    await this.#renewing;
    try {
      await membership.leave();
      this.#tell({ changed: true });
      if (this.#served.size > 0 && this.#members !== this.#options.nodeId) await this.#leftAlone(clock, patienceMs);
    } catch (error) {
      log.warn({ err: error }, "this node could not say that it leaves; its share moves when its lease ends");
    }
    for (const forget of this.#forget.splice(0)) forget();
    for (const share of [...this.#served.keys()]) this.#release(share);
  }

  /** Whether this node answers for a floor. */
  serves(floorId: FloorId): boolean {
    return this.#served.has(partitionOf(floorId) % this.#options.count);
  }

  /** The partitions, as rows name them, whose effects this node arms; undefined for all of them. */
  owned(): number[] | undefined {
    const { count } = this.#options;
    if (this.#owned.size === count) return undefined;
    return Array.from({ length: PARTITIONS }, (_, partition) => partition).filter((each) =>
      this.#owned.has(each % count),
    );
  }

  /** Whether what one node does for all is this one's to do. */
  get isFirst(): boolean {
    return this.#owned.has(0);
  }

  get ownedCount(): number {
    return this.#owned.size;
  }

  get #topic(): string {
    return `${this.#options.epoch}.nodes`;
  }

  #tell(message: NodeMessage): void {
    void this.#options.bus.publish(this.#topic, new TextEncoder().encode(JSON.stringify(message)));
  }

  #hear(bytes: Uint8Array): void {
    const message = readMessage(NodeMessage, bytes);
    if (!message) return;
    if ("changed" in message) return void this.#renew();
    if (message.by !== this.#options.nodeId) void this.#giveUp(message.taken);
  }

  /** Another says that it serves these: those that are its by this node's own view too are left to it. */
  async #giveUp(shares: readonly number[]): Promise<void> {
    if (!this.#isStopping) await this.#renew();
    for (const share of shares) if (this.#leaving.has(share) || this.#isStopping) this.#release(share);
  }

  #schedule(): void {
    const { clock, leaseMs } = this.#options;
    if (this.#isStopping) return;
    this.#timer = clock.after(leaseMs / RENEWALS, () => {
      void this.#renew().then(() => this.#schedule());
    });
  }

  /** Renewals do not overlap; one that is wished for meanwhile follows. */
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

  async #renewAll(): Promise<void> {
    do {
      this.#isRenewedAgain = false;
      try {
        await this.#renewOnce();
        this.#isTold = false;
      } catch (error) {
        // Nobody can be asked over a bus that is away: what this node believes does no harm meanwhile.
        if (!this.#isTold)
          this.#options.log.warn({ err: error }, "the nodes cannot be told apart; this node keeps its share");
        this.#isTold = true;
      }
    } while (this.#isRenewedAgain && !this.#isStopping);
  }

  async #renewOnce(): Promise<void> {
    if (this.#isStopping) return;
    const { membership, count, nodeId, clock, leaseMs, log, onTaken } = this.#options;
    const members = await membership.renew();
    this.#dropWhatWasLeft(clock.now() - leaseMs);
    const key = [...members].sort().join();
    if (key === this.#members) return;
    const owners = ownersOf(members, count);
    const owned = new Set(owners.flatMap((owner, share) => (owner === nodeId ? [share] : [])));
    const taken = [...owned].filter((share) => !this.#owned.has(share));
    for (const share of this.#served.keys()) {
      if (owned.has(share)) this.#leaving.delete(share);
      else if (!this.#leaving.has(share)) this.#leaving.set(share, clock.now());
    }
    await Promise.all([...owned].map((share) => this.#serve(share)));
    this.#owned = owned;
    this.#members = key;
    log.info({ nodes: members.length, shares: owned.size, taken: taken.length }, "floors are shared out anew");
    if (taken.length === 0) return;
    this.#tell({ by: nodeId, taken });
    onTaken();
  }

  async #serve(share: number): Promise<void> {
    const { serve, epoch } = this.#options;
    const known = this.#served.get(share);
    if (known) return void (await known);
    const serving = serve(topicOf(epoch, share));
    this.#served.set(share, serving);
    try {
      await serving;
    } catch (error) {
      this.#served.delete(share);
      throw error;
    }
  }

  /** A successor that never says that it serves is believed to after a lease. */
  #dropWhatWasLeft(before: number): void {
    for (const [share, since] of this.#leaving) if (since <= before) this.#release(share);
  }

  #release(share: number): void {
    this.#leaving.delete(share);
    const serving = this.#served.get(share);
    this.#served.delete(share);
    serving?.then(
      (stop) => stop(),
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
