import type { Bus, Listener, Unsubscribe } from "./bus.ts";

const DONE = Promise.resolve();

/** The bus of one process. It loses nothing. Like every bus, it delivers asynchronously, after `publish` returns. */
export class MemoryBus implements Bus {
  readonly isLocal = true;
  /** The listeners of each topic: a list is replaced, not changed, so that it can be gone through at any time. */
  readonly #topics = new Map<string, readonly Listener[]>();
  #sent: { listeners: readonly Listener[]; message: Uint8Array }[] = [];
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
    let isOpen = true;
    // The same function may subscribe twice: each subscription is separate.
    const own: Listener = (message) => {
      if (isOpen) listener(message);
    };
    this.#topics.set(topic, [...(this.#topics.get(topic) ?? []), own]);
    return () => {
      isOpen = false;
      const others = (this.#topics.get(topic) ?? []).filter((each) => each !== own);
      if (others.length > 0) this.#topics.set(topic, others);
      else this.#topics.delete(topic);
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
    for (const { listeners, message } of sent) for (const listener of listeners) listener(message);
  }
}
