import type { Bus, Listener, Subscription, Unsubscribe } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";

/** What happens to a message in transit. */
export type Fate = "deliver" | "lose" | "repeat" | "delay";

/** A bus with all permitted faults: it loses, repeats, delays and reorders messages. */
export class UnreliableBus implements Bus {
  readonly memory = new MemoryBus();
  readonly #onRecovered = new Set<() => void>();
  readonly #late: { topic: string; message: Uint8Array }[] = [];
  /** Decides about each message; by default all arrive. */
  fate: (topic: string) => Fate = () => "deliver";

  isHeard(): boolean {
    return true;
  }

  async publish(topic: string, message: Uint8Array): Promise<void> {
    const fate = this.fate(topic);
    if (fate === "lose") return;
    if (fate === "delay") {
      this.#late.push({ topic, message });
      return;
    }
    await this.memory.publish(topic, message);
    if (fate === "repeat") await this.memory.publish(topic, message);
  }

  subscribe(topic: string, listener: Listener): Promise<Subscription> {
    return this.memory.subscribe(topic, listener);
  }

  isAway(): boolean {
    return false;
  }

  onAway(): Unsubscribe {
    return () => {};
  }

  onRecovered(listener: () => void): Unsubscribe {
    this.#onRecovered.add(listener);
    return () => void this.#onRecovered.delete(listener);
  }

  close(): Promise<void> {
    return this.memory.close();
  }

  /** Messages in transit. */
  get lateCount(): number {
    return this.#late.length;
  }

  /** Deliver the delayed message that `choose` selects by its index. */
  async deliverLate(choose: (count: number) => number = () => 0): Promise<void> {
    const [late] = this.#late.splice(choose(this.#late.length), 1);
    if (late) await this.memory.publish(late.topic, late.message);
  }

  /** Drop the delayed messages. */
  loseLate(): void {
    this.#late.length = 0;
  }

  /** The bus was away and is back. */
  recover(): void {
    for (const listener of this.#onRecovered) listener();
  }
}
