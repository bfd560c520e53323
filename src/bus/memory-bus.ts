import type { Bus, Listener, Unsubscribe } from "./bus.ts";

const DONE = Promise.resolve();

/** The bus of one process. It loses nothing. Like every bus, it delivers asynchronously, after `publish` returns. */
export class MemoryBus implements Bus {
  readonly isLocal = true;
  readonly #topics = new Map<string, Set<Listener>>();
  #sent: { listeners: ReadonlySet<Listener>; message: Uint8Array }[] = [];
  #isClosed = false;

  publish(topic: string, message: Uint8Array): Promise<void> {
    const listeners = this.#topics.get(topic);
    if (listeners) {
      this.#sent.push({ listeners, message });
      if (this.#sent.length === 1) queueMicrotask(() => this.#deliver());
    }
    return DONE;
  }

  isHeard(topic: string): boolean {
    return this.#topics.has(topic);
  }

  async subscribe(topic: string, listener: Listener): Promise<Unsubscribe> {
    // The same function may subscribe twice: each subscription is separate.
    const own: Listener = (message) => listener(message);
    const listeners = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, listeners.add(own));
    return () => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#topics.get(topic) === listeners) this.#topics.delete(topic);
    };
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

  /** The number of topics that have a listener. */
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
    for (const { listeners, message } of sent) {
      // Iterate over a copy: a listener may subscribe or unsubscribe others.
      for (const listener of listeners.size === 1 ? listeners : [...listeners]) listener(message);
    }
  }
}
