import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type DeviceVolume,
  leftOf,
  newDeviceVolume,
  stepVolume,
  type VolumeEvent,
} from "../../../../src/cli/mqtt/device-volume.ts";
import { type VolumeScale, volumeAt } from "../../../../src/cli/mqtt/volumes.ts";

/** A device that does what it is told, a message later, and whose user turns it by hand. */
class TurnedDevice {
  volume: number;
  /** What its user has set last. */
  users: number;
  level = 0;
  machine: DeviceVolume;
  readonly orders: number[] = [];
  readonly reports: number[] = [];

  constructor(volume: number, scale: VolumeScale = "percent") {
    this.machine = newDeviceVolume(scale);
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
    this.machine = newDeviceVolume(this.machine.scale, leftOf(this.machine));
    this.orders.splice(0);
    this.reports.splice(0, this.reports.length, this.volume);
    // The next bridge hears from the floor what is demanded.
    this.setLevel(this.level);
  }

  /** Until nothing happens any more: an order is given again at most twenty times. */
  settle(): void {
    for (let rounds = 0; rounds <= 20; rounds++) {
      while (this.orders.length + this.reports.length > 0) {
        this.obey();
        this.report();
      }
      this.step({ type: "order is old" });
    }
    expect(this.orders).toEqual([]);
  }
}

/** The floor demands a level, or one of these happens, in any order. */
const deedsOf = <Deed extends string>(...deeds: Deed[]) =>
  fc.array(
    fc.oneof(
      fc.record({ do: fc.constant("level" as const), to: fc.constantFrom(0, -6, -14, -24, -60) }),
      fc.record({ do: fc.constantFrom(...deeds), to: fc.constant(0) }),
    ),
    { maxLength: 40 },
  );
const deeds = deedsOf("obey", "report", "lose", "restart");
/** Each lost order is one more that the machine gives again before it knows that none is under way. */
const MANY_LOST = [
  { do: "level" as const, to: -60 as const },
  ...Array.from({ length: 4 }, () => ({ do: "lose" as const, to: 0 as const })),
  { do: "level" as const, to: 0 as const },
  { do: "level" as const, to: -60 as const },
  { do: "obey" as const, to: 0 as const },
  { do: "lose" as const, to: 0 as const },
];

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
    { numRuns: 2_000, examples: [[10, MANY_LOST]] },
  );
});

/** Volumes in no order, each of them once, and louder than any that a floor makes quieter. */
const volumeOfTurn = (turn: number) => 0.52 + ((turn * 37) % 90) / 200;

const turned = deedsOf("turn", "obey", "report", "lose");

test("the answer to an earlier order is not taken for that to an equal later one", () => {
  const device = new TurnedDevice(10);
  device.settle();
  device.setLevel(-6);
  device.obey();
  for (const level of [0, -14, 0]) device.setLevel(level);
  device.obey();
  device.report();
  device.report();
  // A quieter order and an equal one are under way.
  expect([device.orders, leftOf(device.machine)?.own]).toEqual([[2, 10], 10]);
  device.setLevel(-6);
  device.settle();
  expect([device.volume, device.machine.own]).toEqual([5, 10]);
  device.setLevel(0);
  device.settle();
  expect([device.volume, leftOf(device.machine)]).toEqual([10, undefined]);
});

// A volume that equals an order cannot be told from its echo: so the user never sets the same one twice.
test("what the user turns by hand at any moment is not exceeded, and is at last the volume of the device", () => {
  fc.assert(
    fc.property(turned, (all) => {
      let turns = 0;
      const device = new TurnedDevice(volumeOfTurn(turns), "fraction");
      device.settle();
      for (const { do: deed, to } of all) {
        if (deed === "level") device.setLevel(to);
        else if (deed === "turn") device.turn(volumeOfTurn(++turns));
        else device[deed]();
      }
      device.settle();
      expect(device.volume).toBeLessThanOrEqual(device.users);
      device.setLevel(0);
      device.settle();
      expect(device.volume).toBe(device.users);
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
