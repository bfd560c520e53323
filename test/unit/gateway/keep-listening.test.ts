import { expect, test, vi } from "vitest";
import type { Bus, Listener } from "../../../src/bus/bus.ts";
import { keepListening } from "../../../src/gateway/streams/keep-listening.ts";
import { AppError } from "../../../src/protocol/errors.ts";

/** A bus whose subscriptions the test controls. */
class MoodyBus {
  readonly listening: Listener[] = [];
  /** The results of the next tries, one each; later ones succeed. */
  readonly tries: ("away" | "broken" | Promise<void>)[] = [];
  tried = 0;
  readonly #onRecovered = new Set<() => void>();

  get waiting(): number {
    return this.#onRecovered.size;
  }

  async subscribe(_: string, listener: Listener) {
    this.tried += 1;
    const fate = this.tries.shift();
    if (fate === "broken") throw new Error("broken");
    await (typeof fate === "object" ? fate : undefined);
    if (fate === "away") throw new AppError("unavailable");
    this.listening.push(listener);
    return { end: () => void this.listening.splice(this.listening.indexOf(listener), 1) };
  }

  onRecovered(listener: () => void) {
    this.#onRecovered.add(listener);
    return () => void this.#onRecovered.delete(listener);
  }

  async recover(): Promise<void> {
    for (const listener of [...this.#onRecovered]) listener();
    await new Promise(setImmediate);
  }

  get asBus(): Bus {
    return this as unknown as Bus;
  }
}

const listen = async (bus: MoodyBus) => {
  const late = vi.fn();
  const subscription = await keepListening(bus.asBus, "topic", () => {}, late);
  /** How often it was tried, what listens, what waits, and how often it was late. */
  const counts = () => [bus.tried, bus.listening.length, bus.waiting, late.mock.calls.length];
  return { subscription, counts };
};

test("a persistent subscription starts at once while the bus is available, and ignores later recoveries of the bus", async () => {
  const bus = new MoodyBus();
  const { subscription, counts } = await listen(bus);
  await bus.recover();
  expect(counts()).toEqual([1, 1, 0, 0]);
  subscription.end();
  expect(bus.listening).toEqual([]);
});

test("a topic is subscribed when the bus returns, and this is reported once", async () => {
  const bus = new MoodyBus();
  bus.tries.push("away", "away");
  const { subscription, counts } = await listen(bus);
  expect(counts()).toEqual([1, 0, 1, 0]);
  await bus.recover();
  expect(counts()).toEqual([2, 0, 1, 0]);
  await bus.recover();
  await bus.recover();
  expect(counts()).toEqual([3, 1, 0, 1]);
  subscription.end();
  expect(bus.listening).toEqual([]);
});

test("a persistent subscription is tried again if the bus came back during the previous attempt", async () => {
  const bus = new MoodyBus();
  const refused = Promise.withResolvers<void>();
  bus.tries.push(refused.promise);
  const listening = listen(bus);
  await bus.recover();
  refused.reject(new AppError("unavailable"));
  await listening;
  expect([bus.tried, bus.listening.length, bus.waiting]).toEqual([2, 1, 0]);
});

test("a stopped subscription receives nothing, even if the bus confirms it late", async () => {
  const bus = new MoodyBus();
  const answered = Promise.withResolvers<void>();
  bus.tries.push("away", answered.promise);
  const { subscription, counts } = await listen(bus);
  await bus.recover();
  subscription.end();
  answered.resolve();
  await new Promise(setImmediate);
  await bus.recover();
  expect(counts()).toEqual([2, 0, 0, 0]);
});

test("an error other than an unavailable bus is thrown, and nothing is left behind", async () => {
  const bus = new MoodyBus();
  bus.tries.push("broken");
  await expect(listen(bus)).rejects.toThrow("broken");
  expect(bus.waiting).toBe(0);
});
