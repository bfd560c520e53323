import { expect, test } from "vitest";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { ownersOf } from "../../../src/bus/rendezvous.ts";
import { Ownership, partitionTopic } from "../../../src/cluster/ownership.ts";
import { StoreWatch } from "../../../src/cluster/store-watch.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { writeMessage } from "../../../src/protocol/internal/bus-message.ts";
import { MemberList } from "../../support/nodes/member-list.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const LEASE_MS = 3_000;
const FLOORS = Array.from({ length: 200 }, (_, index) => `u:user-${index}` as FloorId);
const silent = { info() {}, warn() {}, error() {}, debug() {}, child: () => silent } as never;

class Cluster {
  readonly clock = new VirtualClock();
  readonly bus = new MemoryBus();
  readonly members = new MemberList(this.clock, LEASE_MS);
  /** The nodes that answer on each topic. */
  readonly answering = new Map<string, Set<string>>();
  readonly takings: string[] = [];
  readonly watches = new Map<string, StoreWatch>();
  /** Nodes whose requests to the store fail. */
  readonly cut = new Set<string>();
  /** What the subscription to a topic waits for. */
  readonly acknowledged = new Map<string, Promise<void>>();

  async node(nodeId: string, count = 256): Promise<Ownership> {
    const ownership = new Ownership({
      bus: this.bus,
      membership: this.members.of(nodeId),
      storeWatch: this.watch(nodeId),
      clock: this.clock,
      nodeId,
      epoch: "e",
      count,
      leaseMs: LEASE_MS,
      serve: async (topic) => {
        await this.acknowledged.get(topic);
        const nodes = this.answering.get(topic) ?? new Set();
        this.answering.set(topic, nodes.add(nodeId));
        return { end: () => nodes.delete(nodeId) };
      },
      onGained: () => this.takings.push(nodeId),
      log: silent,
    });
    await ownership.start();
    await this.settle();
    return ownership;
  }

  watch(nodeId: string): StoreWatch {
    const watch = new StoreWatch({
      clock: this.clock,
      probe: async () => {
        if (this.cut.has(nodeId)) throw new Error("cut off");
      },
      areOthersThere: async () => this.members.present().some((each) => each !== nodeId),
      leaseMs: LEASE_MS,
    });
    watch.start();
    this.watches.set(nodeId, watch);
    return watch;
  }

  /** Nodes `a` and `b`, of which each owns floors. */
  static async ofTwo(count?: number) {
    const cluster = new Cluster();
    return { cluster, first: await cluster.node("a", count), second: await cluster.node("b", count) };
  }

  /** The nodes that answer for each floor. */
  answers(count?: number): string[][] {
    return FLOORS.map((floor) => this.whoAnswers(floor, count));
  }

  /** The nodes that answer for a floor. */
  whoAnswers(floorId: FloorId, count = 256): string[] {
    return [...(this.answering.get(partitionTopic("e", floorId, count)) ?? [])];
  }

  /** Resolves when no message is in transit. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      await this.clock.advance(500);
      await this.settle();
    }
  }
}

test("a single node owns all floors and arms all run requests", async () => {
  const cluster = new Cluster();
  const node = await cluster.node("a");
  expect(FLOORS.every((floor) => node.serves(floor) && cluster.whoAnswers(floor).join() === "a")).toBe(true);
  expect(node.ownedHashes()).toBeUndefined();
  expect(cluster.takings).toEqual(["a"]);
});

test("a node that joins takes its partitions at once, and every floor has exactly one owner again", async () => {
  const { cluster, first, second } = await Cluster.ofTwo();
  expect(cluster.answers().every(({ length }) => length === 1)).toBe(true);
  expect(new Set(cluster.answers().flat())).toEqual(new Set(["a", "b"]));
  const hashes = [...first.ownedHashes()!, ...second.ownedHashes()!].sort((x, y) => x - y);
  expect(hashes).toEqual(Array.from({ length: 256 }, (_, each) => each));
  for (const floor of FLOORS) expect(first.serves(floor)).toBe(!second.serves(floor));
  const partitions = { a: first.ownedCount, b: second.ownedCount };
  for (const node of [first, second]) expect(Object.fromEntries(node.partitionsOf)).toEqual(partitions);
});

test("a node that stops hands over its floors at once: no floor is without an owner in between", async () => {
  const { cluster, first } = await Cluster.ofTwo();
  let unanswered = 0;
  const stopping = first.stop(LEASE_MS);
  for (let turn = 0; turn < 60; turn++) {
    await Promise.resolve();
    unanswered += FLOORS.filter((floor) => cluster.whoAnswers(floor).length === 0).length;
  }
  await stopping;
  expect(unanswered).toBe(0);
  expect(new Set(cluster.answers().flat())).toEqual(new Set(["b"]));
});

test("the last node to stop does not wait", async () => {
  const cluster = new Cluster();
  const only = await cluster.node("a");
  await only.stop(Number.MAX_SAFE_INTEGER);
  expect(cluster.answers().flat()).toEqual([]);
});

test("a node that another one joins while it starts, and that dies meanwhile, answers for all floors", async () => {
  const cluster = new Cluster();
  const owners = ownersOf(["a", "b"], 256);
  const gained = owners.flatMap((owner, partition) => (owner === "b" ? [partition] : []));
  const acknowledged = Promise.withResolvers<void>();
  cluster.acknowledged.set(`e.floors.${gained[0]}`, acknowledged.promise);
  const starting = cluster.node("a");
  await cluster.settle();
  cluster.acknowledged.clear();
  await cluster.members.of("b").renew();
  await cluster.bus.publish("e.nodes", writeMessage({ by: "b", gained }));
  await cluster.pass(LEASE_MS);
  acknowledged.resolve();
  await starting;
  await cluster.pass(LEASE_MS);
  expect(cluster.answers().filter((nodes) => nodes.join() !== "a")).toEqual([]);
});

test("the partitions of a dead node move when its lease ends", async () => {
  const cluster = new Cluster();
  const survivor = await cluster.node("a");
  await cluster.members.of("dead").renew();
  await cluster.pass(1_000);
  expect(survivor.ownedHashes()).toBeDefined();
  await cluster.pass(LEASE_MS);
  expect(survivor.ownedHashes()).toBeUndefined();
});

test("a node keeps its floors while the list of members cannot be read", async () => {
  const { cluster, first } = await Cluster.ofTwo();
  const before = first.ownedHashes();
  cluster.members.isAway = true;
  await cluster.pass(10 * LEASE_MS);
  expect(first.ownedHashes()).toEqual(before);
  cluster.members.isAway = false;
  await cluster.pass(2 * LEASE_MS);
  expect(first.ownedHashes()).toEqual(before);
  expect(cluster.answers().every(({ length }) => length === 1)).toBe(true);
});

test("after the members' server restarts empty, all members return, and double owners end within two leases", async () => {
  const { cluster, first, second } = await Cluster.ofTwo();
  const before = [first.ownedHashes(), second.ownedHashes()];
  cluster.members.forgetAll();
  await cluster.pass(2 * LEASE_MS);
  expect([first.ownedHashes(), second.ownedHashes()]).toEqual(before);
  expect(cluster.answers().every(({ length }) => length === 1)).toBe(true);
});

test("a successor that never announces itself is taken for the owner after one lease", async () => {
  const cluster = new Cluster();
  const first = await cluster.node("a");
  const silentNode = cluster.members.of("silent");
  for (let passed = 0; passed < 2 * LEASE_MS; passed += 1_000) {
    await silentNode.renew();
    await cluster.pass(1_000);
  }
  const left = FLOORS.filter((floor) => !first.serves(floor));
  expect(left.length).toBeGreaterThan(0);
  expect(left.flatMap((floor) => cluster.whoAnswers(floor))).toEqual([]);
});

test("with fewer partitions than hashes, rows and topics still agree", async () => {
  const { cluster, first, second } = await Cluster.ofTwo(4);
  expect(cluster.answers(4).every(({ length }) => length === 1)).toBe(true);
  expect((first.ownedHashes()?.length ?? 0) + (second.ownedHashes()?.length ?? 0)).toBe(256);
});

test("a node that the store does not answer logs it and leaves its floors to others until the store answers again", async () => {
  const { cluster } = await Cluster.ofTwo();
  const before = cluster.answers();
  cluster.cut.add("a");
  await cluster.pass(5 * LEASE_MS);
  expect(cluster.answers()).toEqual(FLOORS.map(() => ["b"]));
  expect([cluster.watches.get("a")!.isCutOff, cluster.watches.get("b")!.isCutOff]).toEqual([true, false]);
  cluster.cut.clear();
  await cluster.pass(2 * LEASE_MS);
  expect(cluster.answers()).toEqual(before);
  expect(cluster.watches.get("a")!.isCutOff).toBe(false);
});

test("a node keeps its floors if the store answers no other node either, and no node is reported as cut off", async () => {
  const { cluster } = await Cluster.ofTwo();
  const before = cluster.answers();
  cluster.cut.add("a").add("b");
  await cluster.pass(6 * LEASE_MS);
  expect(cluster.answers()).toEqual(before);
  expect([...cluster.watches.values()].map(({ isCutOff }) => isCutOff)).toEqual([false, false]);
  cluster.cut.clear();
  await cluster.pass(3 * LEASE_MS);
  expect(cluster.answers()).toEqual(before);
});
