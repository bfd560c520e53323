import { expect, test } from "vitest";
import type { Bus } from "../../../src/bus/bus.ts";
import { MemoryBus } from "../../../src/bus/memory-bus.ts";
import { RollCall } from "../../../src/cluster/roll-call.ts";
import type { NodeReport } from "../../../src/protocol/internal/node-report.ts";
import { UnreliableBus } from "../../support/networks/unreliable-bus.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const encode = (message: unknown) => new TextEncoder().encode(JSON.stringify(message));
const reportOf = (node: string): NodeReport => ({
  ...{
    node,
    roles: ["gateway"],
    version: "1.0.0",
    startedAt: 0,
    missing: [],
    partitions: 0,
    connections: 0,
    floors: 0,
  },
  ...{ commands: 0, commits: 0, commandsWaiting: 0, asksWaiting: 0, slowReaders: 0 },
  runs: { driven: 0, held: 0, waiting: 0 },
});

function stage() {
  const clock = new VirtualClock();
  const bus = new UnreliableBus();
  /** A node that started half a second ago. */
  const join = async (nodeId: string, on: Bus = bus) => {
    const rollCall = await start(nodeId, on);
    await clock.advance(500);
    return rollCall;
  };
  const start = async (nodeId: string, on: Bus = bus) => {
    const rollCall = new RollCall({ bus: on, clock, epoch: "e", nodeId, report: async () => reportOf(nodeId) });
    await rollCall.start();
    return rollCall;
  };
  /** Lets so many ms pass during a call. */
  const callWithin = async (rollCall: RollCall, ms: number) => {
    const called = rollCall.call();
    await clock.advance(ms);
    return (await called).map(({ node, silentMs, isSelf }) => [node, ...(isSelf ? ["self"] : []), silentMs]);
  };
  return { clock, bus, join, start, callWithin };
}

test("the answer has every node, beginning with the one that was asked", async () => {
  const { join, callWithin } = stage();
  const [b] = [await join("b"), await join("c"), await join("a")];
  expect(await callWithin(b!, 500)).toEqual([
    ["b", "self", undefined],
    ["a", undefined],
    ["c", undefined],
  ]);
});

test("the first answer after a start has all nodes, at the one that started and at the others, however late they answer", async () => {
  const { clock, bus, join, start, callWithin } = stage();
  const [a, b] = [await join("a"), await join("b")];
  let answers = 0;
  bus.fate = (topic) => (topic === "e.reports.c" && ++answers === 2 ? "delay" : "deliver");
  const c = await start("c");
  await clock.advance(100);
  await bus.deliverLate();
  await clock.advance(400);
  expect((await callWithin(c, 0)).map(([node]) => node)).toEqual(["c", "a", "b"]);
  for (const each of [a, b]) {
    expect((await callWithin(each, 500)).map(([node]) => node).sort()).toEqual(["a", "b", "c"]);
  }
});

test("a later roll call ends once all known nodes have answered", async () => {
  const { join, callWithin } = stage();
  const a = await join("a");
  await join("b");
  await callWithin(a, 500);
  expect((await callWithin(a, 0)).map(([node]) => node)).toEqual(["a", "b"]);
});

test("a node that does not answer is shown as silent for a minute, and then forgotten", async () => {
  const { clock, bus, join, callWithin } = stage();
  const a = await join("a");
  await join("b");
  await callWithin(a, 500);
  bus.fate = (topic) => (topic === "e.reports" ? "lose" : "deliver");
  await clock.advance(10_000);
  expect(await callWithin(a, 500)).toEqual([
    ["a", "self", undefined],
    ["b", 11_000],
  ]);
  await clock.advance(60_000);
  expect(await callWithin(a, 500)).toEqual([["a", "self", undefined]]);
});

test("a node that stops is removed at once", async () => {
  const { join, callWithin } = stage();
  const a = await join("a");
  const b = await join("b");
  await callWithin(a, 500);
  await b.stop();
  expect(await callWithin(a, 500)).toEqual([["a", "self", undefined]]);
});

test("malformed reports are dropped, and so are reports beyond the limit of nodes", async () => {
  const { bus, join, callWithin } = stage();
  const a = await join("a");
  await bus.publish("e.reports.a", encode({ node: "x", roles: ["emperor"] }));
  await bus.publish("e.reports.a", new Uint8Array([0xff]));
  await bus.publish("e.reports", encode({ by: 7 }));
  await bus.publish("e.reports.a", encode({ ...reportOf("a"), version: "another" }));
  expect(await callWithin(a, 500)).toEqual([["a", "self", undefined]]);
  for (let node = 0; node < 1_100; node += 1) await bus.publish("e.reports.a", encode(reportOf(`n${node}`)));
  expect((await callWithin(a, 500)).length).toBe(1_001);
});

test("concurrent requests share a roll call", async () => {
  const { clock, bus, join } = stage();
  const a = await join("a");
  let asked = 0;
  await bus.subscribe("e.reports", () => {
    asked += 1;
  });
  const calls = [a.call(), a.call()];
  await clock.advance(500);
  expect(await calls[0]).toBe(await calls[1]);
  expect(asked).toBe(1);
});

test("a single node sends no roll call", async () => {
  const { join } = stage();
  const alone = await join("alone", new MemoryBus());
  expect((await alone.call()).map(({ node }) => node)).toEqual(["alone"]);
});
