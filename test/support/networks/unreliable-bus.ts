import type { Bus, Listener, Subscription, Unsubscribe } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";

/** What becomes of a message on its way. */
export type Fate = "deliver" | "lose" | "repeat" | "delay";

/** A bus that does all a bus may do: it loses, repeats, delays and reorders what it is told to. */
export class UnreliableBus implements Bus {
  readonly memory = new MemoryBus();
  readonly #onRecovered = new Set<() => void>();
  readonly #late: { topic: string; message: Uint8Array }[] = [];
  /** Decides about each message; left out, all arrive. */
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

  /** Messages that are still on their way. */
  get lateCount(): number {
    return this.#late.length;
  }

  /** Deliver one that is late: the one `choose` picks of so many. */
  async deliverLate(choose: (count: number) => number = () => 0): Promise<void> {
    const [late] = this.#late.splice(choose(this.#late.length), 1);
    if (late) await this.memory.publish(late.topic, late.message);
  }

  /** Forget what is late. */
  loseLate(): void {
    this.#late.length = 0;
  }

  /** It was away and is there again. */
  recover(): void {
    for (const listener of this.#onRecovered) listener();
  }
}
