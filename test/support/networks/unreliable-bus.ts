import type { Bus, Listener, Subscription, Unsubscribe } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";

/** What happens to a published message. */
export type Fate = "deliver" | "lose" | "repeat" | "delay";

/** A bus with all permitted faults: it loses, repeats, delays and reorders messages, and it may be away. */
export class UnreliableBus implements Bus {
  readonly memory = new MemoryBus();
  /** What happens to the next messages, one each; `fate` decides about later ones. */
  readonly fates: Fate[] = [];
  readonly #bus: Bus;
  readonly #onAway = new Set<() => void>();
  readonly #onRecovered = new Set<() => void>();
  readonly #late: { topic: string; message: Uint8Array }[] = [];
  #isAway = false;
  /** Decides about each message; by default all arrive. */
  fate: (topic: string) => Fate = () => "deliver";

  /** @param bus what carries the messages; default: `memory`, of which each topic counts as heard */
  constructor(bus?: Bus) {
    this.#bus = bus ?? this.memory;
  }

  hasSubscribers(topic: string): boolean {
    return this.#bus === this.memory || this.#bus.hasSubscribers(topic);
  }

  async publish(topic: string, message: Uint8Array): Promise<void> {
    if (this.#isAway) return;
    const fate = this.fates.shift() ?? this.fate(topic);
    if (fate === "lose") return;
    if (fate === "delay") {
      this.#late.push({ topic, message });
      return;
    }
    await this.#bus.publish(topic, message);
    if (fate === "repeat") await this.#bus.publish(topic, message);
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
    this.#onRecovered.add(listener);
    const leave = this.#bus.onRecovered(listener);
    return () => {
      this.#onRecovered.delete(listener);
      leave();
    };
  }

  close(): Promise<void> {
    return this.#bus.close();
  }

  /** Report the bus as away until `comeBack`. */
  goAway(): void {
    this.#isAway = true;
    for (const listener of this.#onAway) listener();
  }

  comeBack(): void {
    this.#isAway = false;
  }

  /** The bus was away and is back. */
  recover(): void {
    for (const listener of this.#onRecovered) listener();
  }

  /** Messages in transit. */
  get lateCount(): number {
    return this.#late.length;
  }

  /** Deliver the delayed message that `choose` selects by its index. */
  async deliverLate(choose: (count: number) => number = () => 0): Promise<void> {
    const [late] = this.#late.splice(choose(this.#late.length), 1);
    if (late) await this.#bus.publish(late.topic, late.message);
  }

  /** Deliver all delayed messages, the last first. */
  async deliverReversed(): Promise<void> {
    for (const { topic, message } of this.#late.splice(0).reverse()) await this.#bus.publish(topic, message);
  }

  /** Drop the delayed messages. */
  loseLate(): void {
    this.#late.length = 0;
  }
}
