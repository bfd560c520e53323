import type { Bus, Listener, Subscription, Unsubscribe } from "./bus.ts";

const DONE = Promise.resolve();

/** The subscriptions of each topic. A list is replaced, not changed, so that it can be gone through at any time. */
type Topics = Map<string, readonly MemorySubscription[]>;

const NONE: readonly MemorySubscription[] = [];

/** One listener of a topic. The same function may subscribe twice: each subscription is separate. */
class MemorySubscription implements Subscription {
  readonly listener: Listener;
  readonly #topic: string;
  readonly #topics: Topics;
  isOpen = true;

  constructor(topics: Topics, topic: string, listener: Listener) {
    this.#topics = topics;
    this.#topic = topic;
    this.listener = listener;
    // `concat` makes lists of exact length. Thousands of topics have one listener.
    topics.set(topic, (topics.get(topic) ?? NONE).concat(this));
  }

  end(): void {
    this.isOpen = false;
    const others = (this.#topics.get(this.#topic) ?? NONE).filter((each) => each !== this);
    if (others.length > 0) this.#topics.set(this.#topic, others);
    else this.#topics.delete(this.#topic);
  }
}

/** The bus of one process. It loses nothing. Like every bus, it delivers asynchronously, after `publish` returns. */
export class MemoryBus implements Bus {
  readonly isLocal = true;
  readonly #topics: Topics = new Map();
  #sent: { subscriptions: readonly MemorySubscription[]; message: Uint8Array }[] = [];
  #isClosed = false;

  publish(topic: string, message: Uint8Array): Promise<void> {
    const subscriptions = this.#topics.get(topic);
    if (subscriptions) {
      this.#sent.push({ subscriptions, message });
      if (this.#sent.length === 1) queueMicrotask(() => this.#deliver());
    }
    return DONE;
  }

  hasSubscribers(topic: string): boolean {
    return this.#topics.has(topic);
  }

  async subscribe(topic: string, listener: Listener): Promise<Subscription> {
    return new MemorySubscription(this.#topics, topic, listener);
  }

  isAway(): boolean {
    return false;
  }

  onAway(): Unsubscribe {
    return () => {};
  }

  onRecovered(): Unsubscribe {
    return () => {};
  }

  get topicCount(): number {
    return this.#topics.size;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#topics.clear();
  }

  #deliver(): void {
    const sent = this.#sent;
    this.#sent = [];
    if (this.#isClosed) return;
    for (const { subscriptions, message } of sent) {
      for (const { listener, isOpen } of subscriptions) if (isOpen) listener(message);
    }
  }
}
