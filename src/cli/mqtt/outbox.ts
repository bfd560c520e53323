import type { Link } from "./broker-link.ts";

/** A message that the broker is to have. */
export interface OutMessage {
  readonly topic: string;
  readonly payload: string;
  readonly isRetained: boolean;
}

interface Entry {
  message: OutMessage;
  isUnderWay: boolean;
}

/**
 * What the broker does not have yet: under each key the newest message alone, however long the broker is away. A
 * message is sent until the broker has it, and never at the same time as another one of its key.
 */
export class Outbox {
  readonly #link: () => Pick<Link, "isUp" | "publish"> | undefined;
  readonly #onRefused: (topic: string, why: string) => void;
  readonly #entries = new Map<string, Entry>();

  /** @param onRefused the broker is there, and does not take the message, which is dropped */
  constructor(link: () => Pick<Link, "isUp" | "publish"> | undefined, onRefused: (topic: string, why: string) => void) {
    this.#link = link;
    this.#onRefused = onRefused;
  }

  /** How many messages the broker does not have. */
  get size(): number {
    return this.#entries.size;
  }

  /** Replace what waits under the key. */
  put(key: string, message: OutMessage): void {
    const entry = this.#entries.get(key);
    if (entry) entry.message = message;
    else this.#entries.set(key, { message, isUnderWay: false });
    this.#send(key);
  }

  drop(key: string): void {
    this.#entries.delete(key);
  }

  /** The broker is there again. */
  flush(): void {
    for (const key of [...this.#entries.keys()]) this.#send(key);
  }

  #send(key: string): void {
    const entry = this.#entries.get(key);
    const link = this.#link();
    if (!entry || entry.isUnderWay || !link?.isUp) return;
    const { message } = entry;
    const { topic, payload, isRetained } = message;
    entry.isUnderWay = true;
    link.publish(topic, payload, { isRetained }).then(
      () => {
        entry.isUnderWay = false;
        if (this.#entries.get(key) !== entry) return;
        if (entry.message === message) this.#entries.delete(key);
        else this.#send(key);
      },
      (error: unknown) => {
        entry.isUnderWay = false;
        // Otherwise it is sent again when the broker is there again.
        if (!link.isUp || this.#entries.get(key) !== entry) return;
        this.#onRefused(topic, (error as Error).message);
        if (entry.message === message) this.#entries.delete(key);
        else this.#send(key);
      },
    );
  }
}
