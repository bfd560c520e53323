import { AppError } from "../protocol/errors.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import { type Bus, type Listener, MAX_BUS_MESSAGE, type Subscription, type Unsubscribe } from "./bus.ts";
import { readRedisAddresses } from "./redis-address.ts";
import { RedisLink } from "./redis-link.ts";
import { weigh } from "./rendezvous.ts";

/**
 * Connections that are lost together come back one by one; their recoveries within this time are reported as one, in
 * ms.
 */
const TOGETHER_MS = 50;

export interface RedisBusOptions {
  /** The addresses of independent servers, in any order; the same on all nodes. Each topic is mapped to one of them. */
  urls: readonly string[];
  /** Identifies the store: nodes of another store on the same servers do not receive these messages (rule C20). */
  epoch: string;
  clock: Clock;
  newId: () => string;
  log: Logger;
}

/**
 * Open the bus over Redis pub/sub. Once open, it survives servers that go away and come back.
 *
 * @throws Error with a sentence for the operator when a server cannot be used
 */
export async function openRedisBus({ urls, epoch, ...rest }: RedisBusOptions): Promise<Bus> {
  const addresses = readRedisAddresses(urls);
  const bus = new RedisBus(rest);
  const opened = await Promise.allSettled(
    addresses.map((address) =>
      RedisLink.open({
        ...rest,
        address,
        prefix: `${epoch}.`,
        onAway: () => bus.notifyAway(),
        onRecovered: () => bus.notifyRecovered(),
      }),
    ),
  );
  bus.links.push(...opened.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])));
  const failure = opened.find((each) => each.status === "rejected");
  if (!failure) return bus;
  await bus.close();
  throw failure.reason;
}

class RedisBus implements Bus {
  readonly links: RedisLink[] = [];
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onAway = new Set<() => void>();
  readonly #onRecovered = new Set<() => void>();
  #recovering: Timer | undefined;
  #isClosed = false;

  constructor({ clock, log }: Pick<RedisBusOptions, "clock" | "log">) {
    this.#clock = clock;
    this.#log = log;
  }

  async publish(topic: string, message: Uint8Array): Promise<void> {
    if (this.#isClosed) return;
    if (message.byteLength > MAX_BUS_MESSAGE) {
      this.#log.error({ topic, bytes: message.byteLength }, "a message exceeds the size limit of the bus and is lost");
      return;
    }
    await this.#linkOf(topic).publish(topic, message);
  }

  /** Always true: this node does not know the listeners of other nodes. */
  hasSubscribers(): boolean {
    return true;
  }

  async subscribe(topic: string, listener: Listener): Promise<Subscription> {
    if (this.#isClosed || this.isAway(topic)) throw new AppError("unavailable", "the bus is away");
    return await this.#linkOf(topic).subscribe(topic, listener);
  }

  isAway(topic?: string): boolean {
    return topic === undefined ? this.links.some((link) => link.isAway) : this.#linkOf(topic).isAway;
  }

  onAway(listener: () => void): Unsubscribe {
    return enlist(this.#onAway, listener);
  }

  onRecovered(listener: () => void): Unsubscribe {
    return enlist(this.#onRecovered, listener);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#recovering?.cancel();
    for (const link of this.links) link.close();
  }

  notifyAway(): void {
    for (const listener of [...this.#onAway]) listener();
  }

  notifyRecovered(): void {
    if (this.#isClosed) return;
    this.#recovering ??= this.#clock.after(TOGETHER_MS, () => {
      this.#recovering = undefined;
      for (const listener of [...this.#onRecovered]) listener();
    });
  }

  #linkOf(topic: string): RedisLink {
    const { links } = this;
    return links.length === 1 ? links[0]! : links[weigh(topic) % links.length]!;
  }
}

/** The same function may listen twice: each registration is separate. */
function enlist(listeners: Set<() => void>, listener: () => void): Unsubscribe {
  const own = () => listener();
  listeners.add(own);
  return () => void listeners.delete(own);
}
