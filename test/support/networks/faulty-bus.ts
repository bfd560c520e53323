import type { Bus, Listener, Subscription, Unsubscribe } from "../../../src/bus/bus.ts";

/** What happens to a published message. */
export type Fate = "deliver" | "lose" | "repeat" | "delay";

/** A real bus with faults: messages published by one node may be lost, repeated, delayed and reordered. */
export class FaultyBus implements Bus {
  readonly #bus: Bus;
  readonly #late: [topic: string, message: Uint8Array][] = [];
  /** What happens to the next messages, one each; later ones are delivered. */
  readonly fates: Fate[] = [];
  readonly #onAway = new Set<() => void>();
  #isAway = false;

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Report the bus as away until `comeBack`. */
  goAway(): void {
    this.#isAway = true;
    for (const listener of this.#onAway) listener();
  }

  comeBack(): void {
    this.#isAway = false;
  }

  async publish(topic: string, message: Uint8Array): Promise<void> {
    if (this.#isAway) return;
    const fate = this.fates.shift() ?? "deliver";
    if (fate === "lose") return;
    if (fate === "delay") {
      this.#late.push([topic, message]);
      return;
    }
    await this.#bus.publish(topic, message);
    if (fate === "repeat") await this.#bus.publish(topic, message);
  }

  /** Deliver the delayed messages, the last first. */
  async deliverLate(): Promise<void> {
    for (const [topic, message] of this.#late.splice(0).reverse()) await this.#bus.publish(topic, message);
  }

  isHeard(topic: string): boolean {
    return this.#bus.isHeard(topic);
  }

  subscribe(topic: string, listener: Listener): Promise<Subscription> {
    return this.#bus.subscribe(topic, listener);
  }

  isAway(topic?: string): boolean {
    return this.#isAway || this.#bus.isAway(topic);
  }

  onAway(listener: () => void): Unsubscribe {
    this.#onAway.add(listener);
    return () => void this.#onAway.delete(listener);
  }

  onRecovered(listener: () => void): Unsubscribe {
    return this.#bus.onRecovered(listener);
  }

  close(): Promise<void> {
    return this.#bus.close();
  }
}
