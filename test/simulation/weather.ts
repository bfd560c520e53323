import type { Cluster } from "./cluster.ts";
import { FAIR_QUEUE } from "./job-queue.ts";
import { FAIR_MEMBERS } from "./members.ts";
import { FAIR_STORE } from "./store-link.ts";
import type { World } from "./world.ts";

/** How long a node may sleep, past its lease and its locks, in ms. */
const SLEEP_MS = 6_000;
/** Those that still sleep when the weather is fair do so for so long, in ms. */
const LAST_SLEEP_MS = 3_000;
/** How long a fault of the network or the store lasts, in ms. */
const FAULT_MS = 4_000;
/** A node is started again after so long, in ms. */
const RESTART_MS = 2_500;

type Blow = (world: World, cluster: Cluster) => void;

/** Small faults that happen all the time: drawn once for a history, some of them or none. */
export function drawWeather(world: World): void {
  const { chance, network, queue, members } = world;
  const some = (most: number) => (chance.percent(50) ? 0 : 1 + chance.below(most));
  network.weather = { lose: some(25), repeat: some(20), late: some(25), lateMs: chance.pick([20, 300, 3_000]) };
  queue.weather = { refuse: some(15), late: some(30), lateMs: 3_000, twice: some(30) };
  members.weather = { fail: some(20), wrong: some(40) };
  const stallMs = chance.pick([50, 600, 3_500]);
  world.storeWeather = {
    ...FAIR_STORE,
    failBefore: some(5),
    failAfter: some(8),
    stall: some(15),
    stallMs,
    conflict: some(8),
  };
}

const crash: Blow = ({ trace, chance, clock }, cluster) => {
  const { life } = cluster.pick();
  if (chance.percent(50)) {
    trace.add(life.name, "dies");
    life.die();
  } else {
    const deeds = chance.below(12);
    trace.add(life.name, `will die with the deed after ${deeds}`);
    life.dieAfter(deeds);
  }
  clock.after(chance.below(RESTART_MS), () => cluster.restartDead());
};

const sleep: Blow = (world, cluster) => {
  const { trace, chance, clock } = world;
  const { life, bus } = cluster.pick();
  if (!life.isAwake) return;
  world.count("nodes that slept");
  const forMs = chance.below(SLEEP_MS);
  trace.add(life.name, `sleeps for ${forMs} ms`);
  life.sleep();
  clock.after(forMs, () => {
    if (life.isAwake || life.isDead) return;
    const losesMessages = chance.percent(50);
    trace.add(life.name, losesMessages ? "wakes, and messages are lost" : "wakes");
    life.wake({ losesMessages });
    if (losesMessages) bus.tellRecovered();
  });
};

const breakBus: Blow = ({ trace, chance, clock }, cluster) => {
  const { life, bus } = cluster.pick();
  const how = chance.pick(["cut", "deaf"] as const);
  trace.add(life.name, `its bus is ${how}`);
  bus.break(how);
  clock.after(chance.below(FAULT_MS), () => {
    trace.add(life.name, "its bus is mended");
    bus.mend();
  });
};

/** Both sides believe that the others are gone, and look after all floors. */
const split: Blow = ({ trace, chance, clock, network, members }, cluster) => {
  const island = new Set(cluster.names.filter(() => chance.percent(50)));
  trace.add("network", `cuts off ${[...island]}`);
  network.split(island);
  members.island = island;
  clock.after(chance.below(FAULT_MS), () => {
    trace.add("network", "is whole again");
    network.split(new Set());
    members.island = new Set();
  });
};

const storeGoes: Blow = (world) => {
  const { trace, chance, clock } = world;
  trace.add("store", "cannot be had");
  world.storeWeather = { ...world.storeWeather, isAway: true };
  clock.after(chance.below(FAULT_MS), () => {
    trace.add("store", "is there again");
    world.storeWeather = { ...world.storeWeather, isAway: false };
  });
};

const forgetJobs: Blow = ({ queue }) => queue.forget();

const BLOWS = { crash, sleep, breakBus, split, storeGoes, forgetJobs };
export type BlowKind = keyof typeof BLOWS;

/** Something breaks. */
export function strike(world: World, cluster: Cluster): void {
  BLOWS[world.chance.pick(world.theme.blows)](world, cluster);
}

/** Nothing goes wrong any more, and whatever is down is up again. */
export function clearUp(world: World, cluster: Cluster): void {
  world.trace.add("weather", "is fair from now on");
  world.isFair = true;
  world.network.clear();
  world.queue.weather = FAIR_QUEUE;
  world.members.weather = FAIR_MEMBERS;
  world.members.island = new Set();
  world.storeWeather = FAIR_STORE;
  for (const { life } of cluster.processes) {
    life.live();
    world.clock.after(LAST_SLEEP_MS, () => life.wake({ losesMessages: false }));
  }
  cluster.restartDead();
}
