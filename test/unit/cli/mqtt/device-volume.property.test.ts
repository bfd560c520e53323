import fc from "fast-check";
import { expect, test } from "vitest";
import { leftOf, newDeviceVolume, stepVolume, type VolumeEvent } from "../../../../src/cli/mqtt/device-volume.ts";
import { volumeAt } from "../../../../src/cli/mqtt/volumes.ts";

/** A device that does what it is told, a message later, and whose user turns it by hand. */
class TurnedDevice {
  volume: number;
  /** What its user has set last. */
  users: number;
  level = 0;
  machine = newDeviceVolume("percent");
  readonly orders: number[] = [];
  readonly reports: number[] = [];

  constructor(volume: number) {
    this.volume = volume;
    this.users = volume;
    this.reports.push(volume);
  }

  step(event: VolumeEvent): void {
    const [next, order] = stepVolume(this.machine, event);
    this.machine = next;
    if (order !== undefined) {
      expect(order).toBeLessThanOrEqual(this.machine.own!);
      this.orders.push(order);
    }
  }

  setLevel(level: number): void {
    this.level = level;
    this.step({ type: "level", level });
  }

  turn(volume: number): void {
    this.volume = volume;
    this.users = volume;
    this.reports.push(volume);
  }

  obey(): void {
    const order = this.orders.shift();
    if (order === undefined) return;
    this.volume = order;
    this.reports.push(order);
  }

  lose(): void {
    this.orders.shift();
    this.step({ type: "order is old" });
  }

  report(): void {
    const said = this.reports.shift();
    if (said !== undefined) this.step({ type: "reported", volume: said });
  }

  restart(): void {
    this.machine = newDeviceVolume("percent", leftOf(this.machine));
    this.orders.splice(0);
    this.reports.splice(0, this.reports.length, this.volume);
    // The next bridge hears from the floor what is demanded.
    this.setLevel(this.level);
  }

  settle(): void {
    for (let rounds = 0; rounds < 100 && this.orders.length + this.reports.length > 0; rounds++) {
      while (this.orders.length > 0) this.obey();
      while (this.reports.length > 0) this.report();
    }
    this.step({ type: "order is old" });
    while (this.orders.length > 0) this.obey();
    while (this.reports.length > 0) this.report();
  }
}

const deeds = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("level" as const), to: fc.constantFrom(0, -6, -14, -24, -60) }),
    fc.record({
      do: fc.constantFrom("obey" as const, "report" as const, "lose" as const, "restart" as const),
      to: fc.constant(0),
    }),
  ),
  { maxLength: 40 },
);

test("a device that its user leaves alone is as loud as the floor demands, and at last as loud as it was", () => {
  fc.assert(
    fc.property(fc.integer({ min: 10, max: 100 }), deeds, (own, all) => {
      const device = new TurnedDevice(own);
      device.settle();
      for (const { do: deed, to } of all) deed === "level" ? device.setLevel(to) : device[deed]();
      device.settle();
      expect(Math.abs(device.volume - volumeAt(own, device.level, "percent"))).toBeLessThanOrEqual(1);
      device.setLevel(0);
      device.settle();
      expect(Math.abs(device.volume - own)).toBeLessThanOrEqual(1);
      expect(leftOf(device.machine)).toBeUndefined();
    }),
    { numRuns: 2_000 },
  );
});

test("what the user turns by hand beneath a prompt stays, and is the device's own volume afterwards", () => {
  const device = new TurnedDevice(60);
  device.settle();
  device.setLevel(-14);
  device.settle();
  expect(device.volume).toBe(12);
  device.turn(40);
  device.settle();
  expect(device.volume).toBe(40);
  device.setLevel(-24);
  device.settle();
  expect(device.volume).toBe(40);
  device.setLevel(0);
  device.settle();
  expect(device.volume).toBe(40);
  device.setLevel(-14);
  device.settle();
  expect(device.volume).toBe(8);
});

test("a device that has not said its volume is never set", () => {
  const [machine, order] = stepVolume(newDeviceVolume("percent"), { type: "level", level: -14 });
  expect([machine.own, order]).toEqual([undefined, undefined]);
});

test("what a killed bridge left lowered is put back by the next one, and what its user has changed since is not", () => {
  const device = new TurnedDevice(60);
  device.settle();
  device.setLevel(-14);
  device.settle();
  device.level = 0;
  device.restart();
  device.settle();
  expect(device.volume).toBe(60);
  device.setLevel(-14);
  device.settle();
  device.volume = 33;
  device.level = 0;
  device.restart();
  device.settle();
  expect(device.volume).toBe(33);
});
