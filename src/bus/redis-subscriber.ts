import type { Redis } from "ioredis";
import type { Clock } from "../protocol/clock.ts";
import { AppError } from "../protocol/errors.ts";
import type { Listener, Unsubscribe } from "./bus.ts";

/** How long the server may take to acknowledge a subscription, in ms. */
const ACKNOWLEDGE_MS = 2_000;
/** Channels asked for at a time when all are asked for again: one write of some 50 KB. */
const CHANNELS_AT_A_TIME = 1_000;

interface Channel {
  readonly listeners: Set<Listener>;
  /** Settled when the server has acknowledged it on the connection there is. */
  live: PromiseWithResolvers<void>;
  isLive: boolean;
}

export interface RedisSubscriberOptions {
  /** Connected already. */
  redis: Redis;
  clock: Clock;
  /** All channels are heard again, after they were not. */
  onRestored: () => void;
  /** The server does not take a subscription. */
  onRefused: (error: Error) => void;
}

/**
 * One connection that listens. What is wanted is kept here and asked for anew on every connection, acknowledgement by
 * acknowledgement: the client library forgets channels whose acknowledgement is lost with their connection.
 */
export class RedisSubscriber {
  readonly #options: RedisSubscriberOptions;
  readonly #redis: Redis;
  readonly #channels = new Map<string, Channel>();

  constructor(options: RedisSubscriberOptions) {
    const { redis } = options;
    this.#options = options;
    this.#redis = redis;
    redis.on("messageBuffer", (name: Buffer, message: Buffer) => this.#hear(name.toString(), message));
    redis.on("close", () => this.#lose());
    redis.on("ready", () => void this.#restore());
  }

  /** @throws AppError `unavailable` when the server does not acknowledge it in time */
  async subscribe(name: string, listener: Listener): Promise<Unsubscribe> {
    const channel = this.#channels.get(name) ?? this.#begin(name);
    // The same function may listen twice: each subscription is its own.
    const own: Listener = (message) => listener(message);
    channel.listeners.add(own);
    const forget = () => {
      channel.listeners.delete(own);
      if (channel.listeners.size === 0 && this.#channels.get(name) === channel) this.#end(name);
    };
    if (channel.isLive || (await this.#isInTime(channel.live.promise))) return forget;
    forget();
    throw new AppError("unavailable", "the bus did not acknowledge a subscription");
  }

  /** Give the connection up for another: nothing comes on it. */
  replace(): void {
    // One that is being made has its own patience, and would not survive it.
    if (this.#redis.status === "ready") this.#redis.disconnect(true);
  }

  close(): void {
    this.#channels.clear();
    this.#redis.disconnect();
  }

  #begin(name: string): Channel {
    const channel: Channel = { listeners: new Set(), live: Promise.withResolvers(), isLive: false };
    this.#channels.set(name, channel);
    if (this.#redis.status === "ready") void this.#ask([[name, channel]]);
    return channel;
  }

  #end(name: string): void {
    this.#channels.delete(name);
    // Without a connection there is nothing to end: the next one asks for what is wanted then.
    if (this.#redis.status === "ready") this.#redis.unsubscribe(name).catch(() => {});
  }

  /** @returns whether the server acknowledged them all */
  async #ask(wanted: readonly [string, Channel][]): Promise<boolean> {
    try {
      await this.#redis.subscribe(...wanted.map(([name]) => name));
    } catch (error) {
      this.#options.onRefused(error as Error);
      // The next connection asks for all of them; there is one soon, even where it is the server that refused.
      this.replace();
      return false;
    }
    // One that was ended meanwhile, and perhaps begun anew, waits for an acknowledgement of its own.
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
      if (wanted.length > 0 && !(await this.#ask(wanted))) return;
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

  #hear(name: string, message: Uint8Array): void {
    const listeners = this.#channels.get(name)?.listeners;
    if (!listeners) return;
    // A copy where it matters: a listener may subscribe or unsubscribe others.
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
