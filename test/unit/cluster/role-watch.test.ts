import { expect, test } from "vitest";
import { RoleWatch } from "../../../src/cluster/role-watch.ts";
import type { NodeRole } from "../../../src/protocol/internal/node-report.ts";
import { MemberList } from "../../support/nodes/member-list.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";

const LEASE_MS = 3_000;

function stage() {
  const clock = new VirtualClock();
  const members = new MemberList(clock, LEASE_MS);
  const lines: string[] = [];
  const start = async (nodeId: string, ...roles: NodeRole[]) => {
    const write = (level: string) => (fields: object, message: string) =>
      void lines.push(`${nodeId} ${level} ${(fields as { role: string }).role}: ${message}`);
    const log = { debug() {}, info: write("info"), warn: write("warn"), error() {} };
    const membersOf = (name: string) => members.of(name);
    const watch = new RoleWatch({ clock, membersOf, nodeId, roles, leaseMs: LEASE_MS, log });
    await watch.start();
    return watch;
  };
  return { clock, members, lines, start };
}

test("a role is absent when its last node stopped a lease ago, or died two leases ago; nodes that start together have all", async () => {
  const { clock, start } = stage();
  const gateway = await start("a", "gateway");
  expect(gateway.absent).toEqual([]);
  await clock.advance(LEASE_MS + 1_000);
  expect(gateway.absent).toEqual(["orchestrator", "worker"]);
  const [one, other] = [await start("b", "orchestrator", "worker"), await start("c", "worker")];
  await clock.advance(1_000);
  expect(gateway.absent).toEqual([]);
  await one.stop();
  await clock.advance(LEASE_MS);
  expect(gateway.absent).toEqual([]);
  await clock.advance(2_000);
  expect(gateway.absent).toEqual(["orchestrator"]);
  other.die();
  await clock.advance(2 * LEASE_MS + 2_000);
  expect(gateway.absent).toEqual(["orchestrator", "worker"]);
});

test("one node writes that a role is absent, once it has been for a lease, and that it is there again", async () => {
  const { clock, lines, start } = stage();
  const nodes = [await start("a", "worker"), await start("b", "gateway"), await start("c", "gateway")];
  const orchestrator = await start("d", "orchestrator");
  await clock.advance(10 * LEASE_MS);
  await orchestrator.stop();
  await clock.advance(LEASE_MS);
  const again = await start("e", "orchestrator");
  await clock.advance(10 * LEASE_MS);
  expect(lines).toEqual([]);

  await again.stop();
  await clock.advance(10 * LEASE_MS);
  expect(lines.splice(0)).toEqual(["a warn orchestrator: no node has the role: commands are unavailable"]);
  await start("f", "orchestrator");
  await clock.advance(1_000);
  expect(lines.splice(0)).toEqual(["a info orchestrator: a node has the role again"]);
  await nodes[0]!.stop();
  await clock.advance(10 * LEASE_MS);
  expect(lines).toEqual(["b warn worker: no node has the role: turns wait"]);
});

test("while the members cannot be read, what was known stays, and a node that has read nothing reports nothing absent", async () => {
  const { clock, members, lines, start } = stage();
  const gateway = await start("a", "gateway", "orchestrator");
  await clock.advance(2 * LEASE_MS);
  members.isAway = true;
  const late = await start("b", "worker");
  expect(late.absent).toEqual([]);
  await clock.advance(10 * LEASE_MS);
  expect(gateway.absent).toEqual(["worker"]);
  members.isAway = false;
  await clock.advance(2_000);
  expect(gateway.absent).toEqual([]);
  expect(lines.map((line) => line.split(":")[0])).toEqual(["a warn worker", "a info worker"]);
  await late.stop();
  members.isAway = true;
  await expect(gateway.stop()).resolves.toBeUndefined();
});
