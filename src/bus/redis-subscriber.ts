import type { Redis } from "ioredis";
import { AppError } from "../protocol/errors.ts";
import type { Clock } from "../shared/ports/clock.ts";
import { type Listener, MAX_BUS_MESSAGE, type Subscription } from "./bus.ts";

/** How long the server may take to acknowledge a subscription, in ms. */
const ACKNOWLEDGE_MS = 2_000;
/** Channels per command when a new connection subscribes to all channels again: one write of about 50 KB. */
const CHANNELS_AT_A_TIME = 1_000;

interface Channel {
  readonly listeners: Set<Listener>;
  /** Resolves when the server has acknowledged the channel on the current connection. */
  live: PromiseWithResolvers<void>;
  isLive: boolean;
}

export interface RedisSubscriberOptions {
  /** A client that is connected. */
  redis: Redis;
  clock: Clock;
  /** Called when all channels are subscribed again after a lost connection. */
  onRestored: () => void;
  /** Called when the server refuses a subscription. */
  onRefused: (error: Error) => void;
  /** Called with the size of a message that is dropped, because no node sends one of that size. */
  onTooLarge: (bytes: number) => void;
}

/**
 * One subscribing connection. It keeps the list of wanted channels itself and subscribes to them again on every new
 * connection: the client library forgets a channel whose acknowledgement was lost with its connection.
 */
export class RedisSubscriber {
  readonly #options: RedisSubscriberOptions;
  readonly #redis: Redis;
  readonly #channels = new Map<string, Channel>();

  constructor(options: RedisSubscriberOptions) {
    const { redis } = options;
    this.#options = options;
    this.#redis = redis;
    redis.on("messageBuffer", (name: Buffer, message: Buffer) => this.#receive(name.toString(), message));
    redis.on("close", () => this.#lose());
    redis.on("ready", () => void this.#restore());
  }

  /** @throws AppError `unavailable` when the server does not acknowledge the subscription in time */
  async subscribe(name: string, listener: Listener): Promise<Subscription> {
    const channel = this.#channels.get(name) ?? this.#begin(name);
    // The same function may subscribe twice: each subscription is separate.
    const own: Listener = (message) => listener(message);
    channel.listeners.add(own);
    const subscription = {
      end: () => {
        channel.listeners.delete(own);
        if (channel.listeners.size === 0 && this.#channels.get(name) === channel) this.#end(name);
      },
    };
    if (channel.isLive || (await this.#isInTime(channel.live.promise))) return subscription;
    subscription.end();
    throw new AppError("unavailable", "the bus did not acknowledge a subscription");
  }

  /** Replace the connection, because nothing arrives on it. */
  replace(): void {
    // A connection attempt has its own timeout, and a disconnect would abort it.
    if (this.#redis.status === "ready") this.#redis.disconnect(true);
  }

  close(): void {
    this.#channels.clear();
    this.#redis.disconnect();
  }

  #begin(name: string): Channel {
    const channel: Channel = { listeners: new Set(), live: Promise.withResolvers(), isLive: false };
    this.#channels.set(name, channel);
    if (this.#redis.status === "ready") void this.#request([[name, channel]]);
    return channel;
  }

  #end(name: string): void {
    this.#channels.delete(name);
    // Without a connection there is nothing to unsubscribe: the next connection requests only the channels still
    // wanted.
    if (this.#redis.status === "ready") this.#redis.unsubscribe(name).catch(() => {});
  }

  /** @returns whether the server acknowledged them all */
  async #request(wanted: readonly [string, Channel][]): Promise<boolean> {
    try {
      await this.#redis.subscribe(...wanted.map(([name]) => name));
    } catch (error) {
      this.#options.onRefused(error as Error);
      // The next connection requests all channels; replace this one so that it comes soon, even if the server refused.
      this.replace();
      return false;
    }
    // A channel that was removed meanwhile, and perhaps added again, waits for its own acknowledgement.
    for (const [name, channel] of wanted) {
      if (this.#channels.get(name) !== channel) continue;
      channel.isLive = true;
      channel.live.resolve();
    }
    return true;
  }

  async #restore(): Promise<void> {
    const names = [...this.#channels.keys()];
    for (let from = 0; from < names.length; from += CHANNELS_AT_A_TIME) {
      const wanted = names.slice(from, from + CHANNELS_AT_A_TIME).flatMap((name): [string, Channel][] => {
        const channel = this.#channels.get(name);
        return channel ? [[name, channel]] : [];
      });
      if (wanted.length > 0 && !(await this.#request(wanted))) return;
    }
    this.#options.onRestored();
  }

  #lose(): void {
    for (const channel of this.#channels.values()) {
      if (!channel.isLive) continue;
      channel.isLive = false;
      channel.live = Promise.withResolvers();
    }
  }

  #receive(name: string, message: Uint8Array): void {
    const listeners = this.#channels.get(name)?.listeners;
    if (!listeners) return;
    // Parsing it could occupy the event loop for seconds.
    if (message.byteLength > MAX_BUS_MESSAGE) return this.#options.onTooLarge(message.byteLength);
    // Iterate over a copy: a listener may subscribe or unsubscribe others.
    for (const listener of listeners.size === 1 ? listeners : [...listeners]) listener(message);
  }

  #isInTime(done: Promise<void>): Promise<boolean> {
    return new Promise((resolve) => {
      const late = this.#options.clock.after(ACKNOWLEDGE_MS, () => resolve(false));
      void done.then(() => {
        late.cancel();
        resolve(true);
      });
    });
  }
}
