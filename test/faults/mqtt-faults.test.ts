import { expect, onTestFinished, test, vi } from "vitest";
import { MqttWorld, type WorldDevice } from "../support/networks/mqtt-world.ts";
import { Chance } from "../support/runner/chance.ts";

/** As in `faults.test.ts`. Twenty seeds are 10,000 faults. */
const SEEDS = Number(process.env["FAULT_SEEDS"] ?? 1);
const FROM = Number(process.env["FAULT_FROM"] ?? 1);
const FAULTS = 500;
const FAULTS_BETWEEN_CHECKS = 25;

type Fault = (world: MqttWorld, device: WorldDevice, floorId: string) => void;

const FAULTS_BY_NAME: Record<string, Fault> = {
  "the broker is killed": ({ broker }) => broker.kill(),
  "the broker starts": ({ broker }) => broker.begin(),
  "the bridge is killed": (world) => world.killBridge(),
  "a bridge starts": (world) => world.startBridge(),
  "the bridge's connection is cut": (world) => world.cutBridge(),
  "the node is away": ({ node }) => node.setUp(false),
  "the node is back": ({ node }) => node.setUp(true),
  "a device is cut": ({ broker }, device) => broker.cut(device),
  "a device loses its power": (_, device) => device.powerOff(),
  "a device has its power again": (_, device) => device.powerOn(),
  "its user plays it": (_, device) => device.press("playing"),
  "its user pauses it": (_, device) => device.press("paused"),
  "its user stops it": (_, device) => device.press("stopped"),
  "a call comes": ({ node }, _, floorId) => node.setOthers(floorId, "call"),
  "a prompt comes": ({ node }, _, floorId) => node.setOthers(floorId, "prompt"),
  "the floor is free": ({ node }, _, floorId) => node.setOthers(floorId, "nobody"),
};
const NAMES = Object.keys(FAULTS_BY_NAME);

const floorOf = ({ id }: WorldDevice): string => `u:house/${id}`;

/** What each device does, and what its session lets it do. */
function report({ devices, node }: MqttWorld) {
  return devices.map((device) => {
    const session = node.sessionOn(floorOf(device));
    // Without a volume it is paused where it would be quieter.
    const isHeard = session?.state === "active" || (session?.state === "ducked" && device.id !== "bath");
    const volume = session?.state === "ducked" && device.id !== "bath" ? 12 : 60;
    const { id, playing, volume: own } = device;
    const wanted = { id, isPlaying: isHeard, volume: playing === "playing" ? volume : own };
    return { is: { id, isPlaying: playing === "playing", volume: own }, wanted, state: session?.state };
  });
}

/** The retained topics of the floors, and what they should be. */
function published({ devices, node, broker }: MqttWorld) {
  const topics = [...broker.retained.keys()].filter((topic) => topic.includes("/session/")).sort();
  const wanted = devices.flatMap((device) => {
    const session = node.sessionOn(floorOf(device));
    return session ? [`interlock/floor/house/${device.id}/session/${session.id}`] : [];
  });
  return { topics, wanted: wanted.sort() };
}

test.each(Array.from({ length: SEEDS }, (_, n) => FROM + n))(
  "after kills, cuts and restarts of broker, bridge, node and devices each device does what its session says (seed %i)",
  async (seed) => {
    const chance = new Chance(seed);
    vi.useFakeTimers({ now: 0 });
    // A seed is played the same each time.
    vi.spyOn(Math, "random").mockImplementation(() => chance.next());
    onTestFinished(() => {
      vi.useRealTimers();
      vi.restoreAllMocks();
    });
    const world = new MqttWorld(chance);
    onTestFinished(() => world.end());
    /** How sessions stood when everything was up again. */
    const outcomes = new Set<string>();
    let story: string[] = [];
    for (let count = 1; count <= FAULTS; count += 1) {
      const device = chance.pick(world.devices);
      const name = chance.pick(NAMES);
      story.push(`${name} (${device.id})`);
      FAULTS_BY_NAME[name]!(world, device, floorOf(device));
      await vi.advanceTimersByTimeAsync(chance.pick([0, 3, 20, 100, 700, 3_000]));
      if (count % FAULTS_BETWEEN_CHECKS !== 0) continue;
      const isOn = chance.percent(50);
      world.mend();
      await vi.advanceTimersByTimeAsync(5_000);
      world.broker.publish("night", isOn ? "ON" : "OFF", true);
      // Everything has been up for 5 s once the bridge's connection is there again, which takes 2.5 s at most.
      await vi.advanceTimersByTimeAsync(2_500);
      for (const each of world.devices) {
        const isForbidden = world.node.othersOn(floorOf(each)) === "call";
        expect(isForbidden && each.playing === "playing", `${each.id} in a call, after ${story.join(", ")}`).toBe(
          false,
        );
      }
      await vi.advanceTimersByTimeAsync(20_000);
      for (const { is, wanted, state } of report(world))
        expect(is, `${state}, after ${story.join(", ")}`).toEqual(wanted);
      for (const { state } of world.node.sessions) outcomes.add(state);
      const { topics, wanted } = published(world);
      expect(topics, story.join(", ")).toEqual(wanted);
      expect(world.broker.repeated, story.join(", ")).toEqual([]);
      expect(world.node.flags["night"] ?? false, story.join(", ")).toBe(isOn);
      story = [];
    }
    expect(outcomes.size).toBeGreaterThan(2);
  },
);
