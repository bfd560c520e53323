import type { Redis } from "ioredis";
import type { Clock } from "../protocol/clock.ts";
import type { Logger } from "../protocol/logger.ts";
import type { Listener, Unsubscribe } from "./bus.ts";
import { Pulse } from "./pulse.ts";
import type { RedisAddress } from "./redis-address.ts";
import { connectRedis, reasonOf } from "./redis-client.ts";
import { RedisSubscriber } from "./redis-subscriber.ts";
import { weigh } from "./rendezvous.ts";

/** How long the first message may take to come back, in ms. */
const BEGIN_MS = 3_000;
/** How long a publisher is kept waiting for the server, in ms. */
const PUBLISH_MS = 100;
/** Bytes the server may owe an answer for; what comes on top of them is lost. Two hundred of the heaviest messages. */
const MAX_UNANSWERED = 16_777_216;
/**
 * Connections that listen: a server that finds one too far behind cuts it off, with all its channels
 * (`client-output-buffer-limit`, 32 MiB), so no single one carries all.
 */
const LISTENING = 4;

const SILENCE = "it does not answer";

export interface RedisLinkOptions {
  address: RedisAddress;
  /** Stands before the names of all channels. */
  prefix: string;
  clock: Clock;
  newId: () => string;
  log: Logger;
  /** Nothing arrives any more, that is known. */
  onAway: () => void;
  /** It is there again, and messages may have been lost. */
  onRecovered: () => void;
}

/** One server, as this node is connected to it: a connection to publish on, and several to listen on. */
export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #publisher: Redis;
  readonly #subscribers: RedisSubscriber[];
  readonly #pulse: Pulse;
  /** Nobody else publishes on channels with this in their name. */
  readonly #nonce: string;
  /** Why nothing arrives, should nothing arrive. */
  #reason = SILENCE;
  #unanswered = 0;
  #onRefused: (() => void) | undefined;

  /** @throws Error with a sentence for the operator when the server cannot be had */
  static async open(options: RedisLinkOptions): Promise<RedisLink> {
    const { address, clock } = options;
    const opened = await Promise.allSettled(Array.from({ length: 1 + LISTENING }, () => connectRedis(address, clock)));
    const clients = opened.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    try {
      const failure = opened.find((each) => each.status === "rejected");
      if (failure) throw failure.reason;
      const link = new RedisLink(options, clients);
      await link.#begin();
      return link;
    } catch (error) {
      for (const client of clients) client.disconnect();
      throw error;
    }
  }

  private constructor(options: RedisLinkOptions, [publisher, ...listening]: Redis[]) {
    const { clock, log, address, onAway, onRecovered } = options;
    const { label } = address;
    this.#options = options;
    this.#nonce = options.newId();
    this.#publisher = publisher!;
    for (const redis of [publisher!, ...listening]) {
      redis.on("error", (error) => {
        this.#reason = reasonOf(error);
      });
    }
    const onRestored = () => {
      if (!this.isAway) log.info({ server: label }, "a connection that listens to Redis was lost, and is made again");
      onRecovered();
    };
    this.#subscribers = listening.map(
      (redis) => new RedisSubscriber({ redis, clock, onRestored, onRefused: (error) => this.#refused(error) }),
    );
    this.#pulse = new Pulse({
      clock,
      lines: LISTENING,
      send: (line, beat) => {
        this.#publisher.publish(this.#beatChannel(line), beat).catch((error) => this.#refused(error));
      },
      onAway: () => {
        log.warn({ server: label, reason: this.#reason }, "Redis is away: commands wait for it, reading goes on");
        onAway();
      },
      onBack: () => {
        this.#reason = SILENCE;
        log.info({ server: label }, "Redis is there again");
        onRecovered();
      },
      onHopeless: (lines) => {
        for (const line of lines) this.#subscribers[line]!.replace();
        if (lines.length === LISTENING && this.#publisher.status === "ready") this.#publisher.disconnect(true);
      },
    });
  }

  get isAway(): boolean {
    return this.#pulse.isAway;
  }

  /** Resolves when the server has it, or after 100 ms. What cannot be sent is lost. */
  publish(topic: string, message: Uint8Array): Promise<void> {
    const weight = message.byteLength;
    // What a frozen server finds when it wakes is of no use to anybody.
    if (this.isAway || this.#unanswered + weight > MAX_UNANSWERED) return Promise.resolve();
    this.#unanswered += weight;
    return new Promise((resolve) => {
      const late = this.#options.clock.after(PUBLISH_MS, resolve);
      const settle = () => {
        this.#unanswered -= weight;
        late.cancel();
        resolve();
      };
      const bytes = Buffer.from(message.buffer, message.byteOffset, weight);
      this.#publisher.publish(this.#options.prefix + topic, bytes).then(settle, settle);
    });
  }

  /** @throws AppError `unavailable` when the server does not acknowledge it in time */
  subscribe(topic: string, listener: Listener): Promise<Unsubscribe> {
    // Other bits than those that chose this server among several.
    const line = (weigh(topic) >>> 16) % LISTENING;
    return this.#subscribers[line]!.subscribe(this.#options.prefix + topic, listener);
  }

  close(): void {
    this.#pulse.stop();
    this.#publisher.disconnect();
    for (const subscriber of this.#subscribers) subscriber.close();
  }

  /** Resolves when what is published comes back. */
  async #begin(): Promise<void> {
    const { clock, address } = this.#options;
    const decoder = new TextDecoder();
    const cameBack = this.#subscribers.map(() => Promise.withResolvers<void>());
    const fail = () => {
      const failure = new Error(`INTERLOCK_BUS: ${address.label} cannot be used: ${this.#reason}`);
      for (const line of cameBack) line.reject(failure);
    };
    const late = clock.after(BEGIN_MS, fail);
    this.#onRefused = fail;
    for (const [line, subscriber] of this.#subscribers.entries()) {
      const hear = (beat: Uint8Array) => {
        this.#pulse.hear(line, decoder.decode(beat));
        cameBack[line]!.resolve();
      };
      subscriber.subscribe(this.#beatChannel(line), hear).catch(fail);
    }
    this.#pulse.start();
    try {
      await Promise.all(cameBack.map((line) => line.promise));
    } catch (error) {
      this.close();
      throw error;
    } finally {
      this.#onRefused = undefined;
      late.cancel();
    }
  }

  #beatChannel(line: number): string {
    return `${this.#options.prefix}pulse.${this.#nonce}.${line}`;
  }

  /** A command failed. That its connection broke is no reason: why it broke is told by the connection. */
  #refused(error: Error): void {
    if (error.name !== "ReplyError") return;
    this.#reason = reasonOf(error);
    this.#onRefused?.();
  }
}
