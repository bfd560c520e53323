import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Bus, Subscription } from "../../bus/bus.ts";
import { readMessage, writeMessage } from "../../protocol/internal/bus-message.ts";
import { keepListening } from "../streams/keep-listening.ts";

/** What nodes tell each other on a topic of the bus. On a local bus there is no other node to tell. */
export class NewsTopic<News extends object> {
  readonly #bus: Bus;
  readonly #topic: string;
  /** Names this node in its messages. */
  readonly #id = randomUUID();
  #subscription: Subscription | undefined;
  #isClosed = false;

  /** @param receive also gets what this node has published, with `isOwn` */
  constructor(bus: Bus, topic: string, schema: z.ZodType<News>, receive: (news: News, isOwn: boolean) => void) {
    this.#bus = bus;
    this.#topic = topic;
    const Sent = z.object({ from: z.string() }).and(schema);
    const onMessage = (message: Uint8Array) => {
      const sent = readMessage(Sent, message);
      if (sent) receive(sent, sent.from === this.#id);
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

  publish(news: News): void {
    if (!this.#bus.isLocal) void this.#bus.publish(this.#topic, writeMessage({ from: this.#id, ...news }));
  }

  close(): void {
    this.#isClosed = true;
    this.#subscription?.end();
  }
}
