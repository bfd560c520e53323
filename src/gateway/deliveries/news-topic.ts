import { randomUUID } from "node:crypto";
import { setImmediate as setImmediatePromise } from "node:timers/promises";
import { z } from "zod";
import type { Bus, Subscription } from "../../bus/bus.ts";
import { readMessage } from "../../protocol/internal/bus-message.ts";
import type { Clock } from "../../shared/ports/clock.ts";
import { TransientMap } from "../../shared/transient-map.ts";
import { keepListening } from "../streams/keep-listening.ts";

/** How long `catchUp` waits, in ms. */
const CATCH_UP_MS = 250;
/** News of one message: with ids of their full length it stays below the bus's limit. */
const MAX_NEWS = 64;

/** The first byte of a list of news; a mark has another one. */
const BRACKET = "[".charCodeAt(0);
const List = z.array(z.unknown());

export interface NewsTopicOptions<News> {
  bus: Bus;
  topic: string;
  schema: z.ZodType<News>;
  clock: Clock;
  /** Called with what other nodes tell. */
  receive: (news: News) => void;
}

/**
 * What nodes tell each other on a topic of the bus. On a local bus there is no other node to tell. A message is the
 * sender's name, and a list of news in JSON or a mark. A node gets its own too, and reads only its marks.
 */
export class NewsTopic<News extends object> {
  readonly #bus: Bus;
  readonly #topic: string;
  readonly #clock: Clock;
  /** Names this node in its messages. */
  readonly #sender: string = randomUUID();
  /** Called when this mark comes back. */
  readonly #marks = new TransientMap<string, () => void>();
  #mark = 0;
  /** The mark that is sent at the end of this iteration of the event loop. */
  #nextMark: Promise<void> | undefined;
  /** News that are sent with the next ones, or at the end of this iteration. */
  #waiting: News[] = [];
  #subscription: Subscription | undefined;
  #isClosed = false;

  constructor({ bus, topic, schema, clock, receive }: NewsTopicOptions<News>) {
    this.#bus = bus;
    this.#topic = topic;
    this.#clock = clock;
    const head = this.#sender.length;
    const onMessage = (message: Uint8Array) => {
      const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
      const isNews = bytes[head] === BRACKET;
      const isOwn = bytes.toString("latin1", 0, head) === this.#sender;
      if (isOwn && !isNews) this.#marks.get(bytes.toString("latin1", head))?.();
      if (isOwn || !isNews) return;
      // Another release may tell what this one does not know.
      for (const each of readMessage(List, bytes.subarray(head)) ?? []) {
        const news = schema.safeParse(each).data;
        if (news) receive(news);
      }
    };
    if (!bus.isLocal) void this.#listen(onMessage);
  }

  async #listen(onMessage: (message: Uint8Array) => void): Promise<void> {
    this.#subscription = await keepListening(this.#bus, this.#topic, onMessage);
    if (this.#isClosed) this.#subscription.end();
  }

  /** Whether what the bus takes from now on arrives here. */
  get isHeard(): boolean {
    return this.#subscription !== undefined && !this.#isClosed && !this.isAway;
  }

  get isAway(): boolean {
    return this.#bus.isAway(this.#topic);
  }

  /** Tell it now, before what the node sends next on the bus, with all that waits. */
  publish(news: News): void {
    if (this.#bus.isLocal) return;
    this.#waiting.push(news);
    this.#sendWaiting();
  }

  /** Tell it with the next news, or at the end of this iteration of the event loop. */
  publishSoon(news: News): void {
    if (this.#bus.isLocal) return;
    const count = this.#waiting.push(news);
    if (count === 1) setImmediate(() => this.#sendWaiting());
    if (count === MAX_NEWS) this.#sendWaiting();
  }

  #sendWaiting(): void {
    if (this.#waiting.length === 0) return;
    this.#send(JSON.stringify(this.#waiting));
    this.#waiting = [];
  }

  /**
   * Resolves when what other nodes told before now has arrived, or after 250 ms: a mark comes back to its sender behind
   * all that the bus has taken before it. Requests of one iteration of the event loop share a mark.
   */
  catchUp(): Promise<void> {
    this.#nextMark ??= this.#sendMark();
    return this.#nextMark;
  }

  async #sendMark(): Promise<void> {
    await setImmediatePromise();
    this.#nextMark = undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#mark += 1;
    const mark = `m${this.#mark}`;
    this.#marks.set(mark, resolve);
    const timer = this.#clock.after(CATCH_UP_MS, resolve);
    this.#send(mark);
    await promise;
    timer.cancel();
    this.#marks.delete(mark);
  }

  #send(content: string): void {
    void this.#bus.publish(this.#topic, Buffer.from(this.#sender + content));
  }

  close(): void {
    this.#isClosed = true;
    this.#subscription?.end();
  }
}
