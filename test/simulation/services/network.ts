import type { Bus, Listener, Subscription, Unsubscribe } from "../../../src/bus/bus.ts";
import { AppError } from "../../../src/protocol/errors.ts";
import { describeMessage } from "../description.ts";
import type { Life } from "../nodes/life.ts";
import type { Surroundings } from "../surroundings.ts";

/** The chance of each fault of a message, in percent. */
export interface NetworkWeather {
  lose: number;
  repeat: number;
  /** Delayed, and overtaken by others. */
  late: number;
  lateMs: number;
}

const FAIR: NetworkWeather = { lose: 0, repeat: 0, late: 0, lateMs: 0 };
/** The delay of a message without faults, in ms. */
const TRAVEL_MS = 3;
/** The longest time until a subscription takes effect, in ms. */
const SUBSCRIBE_MS = 150;
/** The time after which a publisher gives up on a bus that is away, in ms. */
const PUBLISH_MS = 100;
/** The time that a node needs to notice that no message arrives, in ms. */
const NOTICE_MS = 1_200;

/** The network between the nodes, with all faults that a bus may have. */
export class Network {
  readonly world: Surroundings;
  readonly #buses = new Set<NodeBus>();
  weather = FAIR;
  /** Groups of nodes that only hear one another. */
  #island: ReadonlySet<string> = new Set();

  constructor(world: Surroundings) {
    this.world = world;
  }

  attach(life: Life, nodeName: string): NodeBus {
    const bus = new NodeBus(this, life, nodeName);
    this.#buses.add(bus);
    life.onDeath(() => this.#buses.delete(bus));
    return bus;
  }

  detach(bus: NodeBus): void {
    this.#buses.delete(bus);
  }

  /** Cut these nodes off from the others; no node is notified. */
  split(island: ReadonlySet<string>): void {
    this.#island = island;
  }

  /** From now on there are no faults. */
  clear(): void {
    this.weather = FAIR;
    this.#island = new Set();
    for (const bus of this.#buses) bus.mend();
  }

  /** Deliver a message to its subscribers. */
  carry(from: NodeBus, topic: string, message: Uint8Array): void {
    for (const to of this.#buses) {
      if (!to.listensTo(topic)) continue;
      if (this.#island.has(from.nodeName) !== this.#island.has(to.nodeName))
        this.#tell(from, to, topic, message, "cut off");
      else this.#send(from, to, topic, message);
    }
  }

  #send(from: NodeBus, to: NodeBus, topic: string, message: Uint8Array): void {
    const { chance, clock } = this.world;
    const { lose, repeat, late, lateMs } = this.weather;
    if (lose > 0 && chance.percent(lose)) return this.#tell(from, to, topic, message, "lost");
    if (late > 0 && chance.percent(late)) {
      const delayMs = chance.below(lateMs);
      this.#tell(from, to, topic, message, `${delayMs} ms late`);
      clock.after(delayMs, () => to.arrive(topic, message));
    } else {
      // Messages of one publisher arrive in order.
      const at = from.nextArrival(to, clock.now() + 1 + chance.below(TRAVEL_MS));
      this.#tell(from, to, topic, message, "");
      clock.after(at - clock.now(), () => to.arrive(topic, message));
    }
    if (repeat > 0 && chance.percent(repeat)) {
      const delayMs = chance.below(Math.max(lateMs, 20));
      this.#tell(from, to, topic, message, `again, ${delayMs} ms late`);
      clock.after(delayMs, () => to.arrive(topic, message));
    }
  }

  #tell(from: NodeBus, to: NodeBus, topic: string, message: Uint8Array, fate: string): void {
    const { trace } = this.world;
    const what = () => `→ ${to.life.name}: ${describeMessage(topic, message)}`;
    trace.add(from.life.name, fate === "" ? what : () => `${what()} (${fate})`);
  }
}

/** The network as one process of a node has it. */
export class NodeBus implements Bus {
  readonly life: Life;
  readonly nodeName: string;
  readonly #network: Network;
  readonly #topics = new Map<string, Set<Listener>>();
  readonly #onRecovered = new Set<() => void>();
  readonly #onAway = new Set<() => void>();
  readonly #lastArrivals = new Map<NodeBus, number>();
  /** `cut`: nothing is sent or received. `deaf`: its subscriptions are lost, and it does not know yet. */
  #state: "fine" | "cut" | "deaf" = "fine";
  #isKnownAway = false;
  #breaks = 0;
  #waiting: (() => void)[] = [];

  constructor(network: Network, life: Life, nodeName: string) {
    this.#network = network;
    this.life = life;
    this.nodeName = nodeName;
  }

  /** Subscriptions of this process. */
  get listenerCount(): number {
    return this.#topics.values().reduce((sum, listeners) => sum + listeners.size, 0);
  }

  listensTo(topic: string): boolean {
    return this.#state === "fine" && this.#topics.has(topic);
  }

  nextArrival(to: NodeBus, at: number): number {
    const next = Math.max(at, this.#lastArrivals.get(to) ?? 0);
    this.#lastArrivals.set(to, next);
    return next;
  }

  arrive(topic: string, message: Uint8Array): void {
    if (this.#state !== "fine") return;
    this.life.enter(() => {
      for (const listener of [...(this.#topics.get(topic) ?? [])]) listener(message);
    }, true);
  }

  /** Until `mend` no message is received; with `cut` none is sent either. */
  break(state: "cut" | "deaf"): void {
    this.#state = state;
    this.#breaks += 1;
    const nth = this.#breaks;
    this.#network.world.clock.after(NOTICE_MS, () => {
      this.life.enter(() => {
        if (this.#state === "fine" || this.#breaks !== nth) return;
        this.#isKnownAway = true;
        for (const listener of this.#onAway) listener();
      });
    });
  }

  mend(): void {
    if (this.#state === "fine") return;
    this.#state = "fine";
    this.#isKnownAway = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const subscribe of waiting) subscribe();
    this.tellRecovered();
  }

  /** Messages may have been lost. */
  tellRecovered(): void {
    this.life.enter(() => {
      for (const listener of this.#onRecovered) listener();
    });
  }

  // The port.

  publish(topic: string, message: Uint8Array): Promise<void> {
    if (this.#state === "cut") {
      return this.life.call((done) => this.#network.world.clock.after(PUBLISH_MS, () => done(undefined)));
    }
    if (!this.life.acts()) return new Promise(() => {});
    this.#network.carry(this, topic, message);
    return Promise.resolve();
  }

  hasSubscribers(): boolean {
    return true;
  }

  isAway(): boolean {
    return this.#isKnownAway;
  }

  onAway(listener: () => void): Unsubscribe {
    this.#onAway.add(listener);
    return () => void this.#onAway.delete(listener);
  }

  async subscribe(topic: string, listener: Listener): Promise<Subscription> {
    if (this.#isKnownAway) throw new AppError("unavailable", "the bus is away");
    // The same function may subscribe twice: each subscription is separate.
    const own: Listener = (message) => listener(message);
    const { clock, chance } = this.#network.world;
    await this.life.call((done) => {
      const subscribe = () => {
        if (this.#state === "cut") return void this.#waiting.push(subscribe);
        clock.after(1 + chance.below(SUBSCRIBE_MS), () => {
          if (this.#state === "cut") return void this.#waiting.push(subscribe);
          this.#add(topic, own);
          clock.after(1 + chance.below(TRAVEL_MS), () => done(undefined));
        });
      };
      subscribe();
    });
    return { end: () => this.#remove(topic, own) };
  }

  onRecovered(listener: () => void): Unsubscribe {
    this.#onRecovered.add(listener);
    return () => void this.#onRecovered.delete(listener);
  }

  async close(): Promise<void> {
    this.#topics.clear();
    this.#network.detach(this);
  }

  #add(topic: string, listener: Listener): void {
    const listeners = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, listeners.add(listener));
  }

  #remove(topic: string, listener: Listener): void {
    const listeners = this.#topics.get(topic);
    listeners?.delete(listener);
    if (listeners?.size === 0) this.#topics.delete(topic);
  }
}
