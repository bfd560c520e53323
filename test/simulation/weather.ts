import type { Cluster } from "./nodes/cluster.ts";
import { FAIR_MEMBERS } from "./nodes/members.ts";
import { FAIR_QUEUE } from "./services/job-queue.ts";
import { FAIR_STORE } from "./services/store-link.ts";
import type { World } from "./world.ts";

/** The longest sleep of a node, past its lease and its locks, in ms. */
const SLEEP_MS = 6_000;
/** The longest sleep of nodes that still sleep when the weather becomes fair, in ms. */
const LAST_SLEEP_MS = 3_000;
/** The duration of a fault of the network or the store, in ms. */
const FAULT_MS = 4_000;
/**
 * The longest time for which a node is cut off from the store, beyond the leases after which others take its floors, in
 * ms.
 */
const CUT_OFF_MS = 15_000;
/** The longest error of the database's clock, in ms: shorter than the interval between two comparisons. */
const ERROR_MS = 9_900;
/** The time after which a node is restarted, in ms. */
const RESTART_MS = 2_500;

type Blow = (world: World, cluster: Cluster) => void;

/** Small faults throughout a history: some of them or none, drawn once. */
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
    const outputs = chance.below(12);
    trace.add(life.name, `will die at the output after ${outputs}`);
    life.dieAfter(outputs);
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

/** Both sides believe that the other nodes are gone, and serve all floors. */
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

/** The node's bus works, so the others hear it. */
const cutFromStore: Blow = ({ trace, chance, clock, cutOff }, cluster) => {
  const { nodeName } = cluster.pick();
  trace.add(nodeName, "is cut off from the store");
  cutOff.add(nodeName);
  clock.after(chance.below(CUT_OFF_MS), () => {
    trace.add(nodeName, "reaches the store again");
    cutOff.delete(nodeName);
  });
};

/** It is right again before any node can compare a second time, and stays right until all of them have. */
const clockErrs: Blow = (world, cluster) => {
  const { databaseClock, clock, chance, trace } = world;
  const isStarting = cluster.processes.some(({ life, isReady }) => !life.isDead && !isReady);
  // A node that starts has only the time that it reads.
  if (isStarting || clock.now() < databaseClock.mayErrAt) return;
  const errorMs = chance.pick([-10_800_000, -600_000, -8_000, 8_000, 600_000, 10_800_000]) + chance.below(1_000);
  trace.add("database", `errs by ${errorMs} ms`);
  world.count("errors of the database's clock");
  databaseClock.err(errorMs);
  clock.after(chance.below(ERROR_MS), () => {
    trace.add("database", "has the right time again");
    databaseClock.correct();
    cluster.restartDead();
  });
};

const forgetJobs: Blow = ({ queue }) => queue.forget();

const BLOWS = { crash, sleep, breakBus, split, storeGoes, cutFromStore, clockErrs, forgetJobs };
export type BlowKind = keyof typeof BLOWS;

/** A fault happens. */
export function strike(world: World, cluster: Cluster, blow = world.chance.pick(world.theme.blows)): void {
  BLOWS[blow](world, cluster);
}

/** From now on nothing fails, and everything that is down is restarted. */
export function clearUp(world: World, cluster: Cluster): void {
  world.trace.add("weather", "is fair from now on");
  world.isFair = true;
  world.network.clear();
  world.queue.weather = FAIR_QUEUE;
  world.members.weather = FAIR_MEMBERS;
  world.members.island = new Set();
  world.storeWeather = FAIR_STORE;
  world.cutOff.clear();
  world.databaseClock.correct();
  for (const { life } of cluster.processes) {
    life.live();
    world.clock.after(LAST_SLEEP_MS, () => life.wake({ losesMessages: false }));
  }
  cluster.restartDead();
}
