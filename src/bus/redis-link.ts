import type { Redis } from "ioredis";
import { LogThrottle } from "../shared/log-throttle.ts";
import type { Clock } from "../shared/ports/clock.ts";
import type { Logger } from "../shared/ports/logger.ts";
import type { Listener, Subscription } from "./bus.ts";
import { OutageDetector } from "./outage-detector.ts";
import type { RedisAddress } from "./redis-address.ts";
import { connectRedis, redisReasonOf } from "./redis-client.ts";
import { RedisSubscriber } from "./redis-subscriber.ts";
import { weigh } from "./rendezvous.ts";

/** How long the first beats may take to come back when the link opens, in ms. */
const BEGIN_MS = 3_000;
/** How long a publisher waits for the server, in ms. */
const PUBLISH_MS = 100;
/** Bytes of published messages without an acknowledgement; further messages are dropped. About 256 of maximum size. */
const MAX_UNANSWERED = 16_777_216;
/**
 * Subscribing connections. The server cuts a connection that lags too far behind, with all its channels
 * (`client-output-buffer-limit`, 32 MiB), so the channels are spread over several.
 */
const LISTENING = 4;

const SILENCE = "it does not answer";

export interface RedisLinkOptions {
  address: RedisAddress;
  /** Prefix of all channel names. */
  prefix: string;
  clock: Clock;
  newId: () => string;
  log: Logger;
  /** Called when messages are known not to arrive. */
  onAway: () => void;
  /** Called when the server is reachable again; messages may have been lost. */
  onRecovered: () => void;
}

/** This node's link to one server: one connection that publishes and several that subscribe. */
export class RedisLink {
  readonly #options: RedisLinkOptions;
  readonly #publisher: Redis;
  readonly #subscribers: RedisSubscriber[];
  readonly #outages: OutageDetector;
  /** Makes the beat channels unique to this link. */
  readonly #nonce: string;
  /** The last known reason for a failure; logged when the server goes away. */
  #reason = SILENCE;
  #unanswered = 0;
  /** The publisher's socket while it keeps what is written until the end of the iteration. */
  #gathering: Redis["stream"] | undefined;
  #onRefused: (() => void) | undefined;
  readonly #tooLargeNotes = new LogThrottle();

  /** @throws Error with a sentence for the operator when the server cannot be used */
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
        this.#reason = redisReasonOf(error);
      });
    }
    const onRestored = () => {
      if (!this.isAway) log.info({ server: label }, "a Redis subscriber connection was lost and has been restored");
      onRecovered();
    };
    this.#subscribers = listening.map(
      (redis) =>
        new RedisSubscriber({
          redis,
          clock,
          onRestored,
          onRefused: (error) => this.#refused(error),
          onTooLarge: (bytes) => this.#warnTooLarge(bytes),
        }),
    );
    this.#outages = new OutageDetector({
      clock,
      connections: LISTENING,
      send: (connection, beat) => {
        this.#publisher.publish(this.#beatChannel(connection), beat).catch((error) => this.#refused(error));
      },
      onAway: () => {
        log.warn({ server: label, reason: this.#reason }, "Redis is away: commands are refused, reads continue");
        onAway();
      },
      onBack: () => {
        this.#reason = SILENCE;
        log.info({ server: label }, "Redis is reachable again");
        onRecovered();
      },
      onDead: (connections) => {
        for (const connection of connections) this.#subscribers[connection]!.replace();
        if (connections.length === LISTENING && this.#publisher.status === "ready") this.#publisher.disconnect(true);
      },
    });
  }

  get isAway(): boolean {
    return this.#outages.isAway;
  }

  /** Resolves when the server has acknowledged the message, or after 100 ms. A message that cannot be sent is lost. */
  publish(topic: string, message: Uint8Array): Promise<void> {
    const weight = message.byteLength;
    // Do not queue messages for a frozen server: they would be stale when it wakes.
    if (this.isAway || this.#unanswered + weight > MAX_UNANSWERED) return Promise.resolve();
    // A lone message never waits for others.
    if (this.#unanswered > 0) this.#gather();
    this.#unanswered += weight;
    return new Promise((resolve) => {
      const late = this.#options.clock.after(PUBLISH_MS, resolve);
      const finish = () => {
        this.#unanswered -= weight;
        late.cancel();
        resolve();
      };
      const bytes = Buffer.from(message.buffer, message.byteOffset, weight);
      this.#publisher.publish(this.#options.prefix + topic, bytes).then(finish, finish);
    });
  }

  /** @throws AppError `unavailable` when the server does not acknowledge the subscription in time */
  subscribe(topic: string, listener: Listener): Promise<Subscription> {
    // Use other bits of the hash than the choice of the server did, so that the two choices are independent.
    const connection = (weigh(topic) >>> 16) % LISTENING;
    return this.#subscribers[connection]!.subscribe(this.#options.prefix + topic, listener);
  }

  close(): void {
    this.#outages.stop();
    this.#publisher.disconnect();
    for (const subscriber of this.#subscribers) subscriber.close();
  }

  /**
   * Send what is published in the rest of this iteration of the event loop with one write, which costs the server less
   * too.
   */
  #gather(): void {
    const { stream, status } = this.#publisher;
    if (status !== "ready" || this.#gathering === stream) return;
    this.#gathering = stream;
    stream.cork();
    setImmediate(() => {
      if (this.#gathering === stream) this.#gathering = undefined;
      stream.uncork();
    });
  }

  /** Resolves when a published beat has arrived on every subscriber. */
  async #begin(): Promise<void> {
    const { clock, address } = this.#options;
    const decoder = new TextDecoder();
    const cameBack = this.#subscribers.map(() => Promise.withResolvers<void>());
    const fail = () => {
      const failure = new Error(`INTERLOCK_BUS: ${address.label} cannot be used: ${this.#reason}`);
      for (const connection of cameBack) connection.reject(failure);
    };
    const late = clock.after(BEGIN_MS, fail);
    this.#onRefused = fail;
    for (const [connection, subscriber] of this.#subscribers.entries()) {
      const receive = (beat: Uint8Array) => {
        this.#outages.receive(connection, decoder.decode(beat));
        cameBack[connection]!.resolve();
      };
      subscriber.subscribe(this.#beatChannel(connection), receive).catch(fail);
    }
    this.#outages.start();
    try {
      await Promise.all(cameBack.map((connection) => connection.promise));
    } catch (error) {
      this.close();
      throw error;
    } finally {
      this.#onRefused = undefined;
      late.cancel();
    }
  }

  #beatChannel(connection: number): string {
    return `${this.#options.prefix}pulse.${this.#nonce}.${connection}`;
  }

  #warnTooLarge(bytes: number): void {
    const { clock, log, address } = this.#options;
    if (!this.#tooLargeNotes.isDue(clock.now())) return;
    const facts = { server: address.label, bytes };
    log.warn(facts, "another client of Redis publishes messages that no node sends; they are dropped");
  }

  /** A command failed. Only the server's own replies count as a reason; the connection reports why it broke itself. */
  #refused(error: Error): void {
    if (error.name !== "ReplyError") return;
    this.#reason = redisReasonOf(error);
    this.#onRefused?.();
  }
}
