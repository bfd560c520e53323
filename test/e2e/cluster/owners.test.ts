import { expect, test } from "vitest";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { LOAD_CATALOG, Load } from "../../support/nodes/load.ts";

/** The floor was not served; a database that is slow for lack of CPU is a different case. */
const isUnheard = (failure: string) => failure.includes("did not answer in time");

describeClusters("the owner of a floor", (servers) => {
  /** The node that answers for each user's floor. It is found by asking, because no interface names it. */
  async function ownersOf(users: readonly string[], gateway: ChildServer, nodes: readonly ChildServer[]) {
    const asked = 'interlock_commands_total{type="floor.flags",outcome="ok"}';
    const counts = () => Promise.all(nodes.map((node) => node.metric(asked)));
    const owners = new Map<string, ChildServer>();
    let before = await counts();
    for (const user of users) {
      const path = `/floor/${encodeURIComponent(`u:${user}`)}/flags`;
      expect((await gateway.ask("PUT", path, {})).status).toBe(200);
      const after = await counts();
      const owner = after.findIndex((count, index) => count > before[index]!);
      owners.set(user, nodes[owner]!);
      before = after;
    }
    return owners;
  }

  const conflictsOf = (node: ChildServer) => node.metric("interlock_commit_conflicts_total");

  async function checkUnbroken(...nodes: ChildServer[]) {
    for (const node of nodes) {
      for (const what of ["snapshot", "actors", "commit"]) {
        expect(await node.metric(`interlock_floors_broken_total{what="${what}"}`)).toBe(0);
      }
    }
  }

  test("an orchestrator that is killed under load loses nothing, and only its own floors wait", async () => {
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG });
    const [gateway, , ...nodes] = await cluster.startAll(
      ["gateway"],
      ["worker"],
      ["orchestrator"],
      ["orchestrator"],
      ["orchestrator"],
    );
    const load = new Load({ users: 12, clientsEach: 2, seed: 7, nodes: () => [gateway] });
    const owners = await ownersOf(load.users, gateway, nodes);
    // Which nodes own floors is chance; that others than the killed one do is enough.
    expect(new Set(owners.values()).size).toBeGreaterThan(1);
    const dying = owners.get("user0")!;
    const orphans = load.users.filter((user) => owners.get(user) === dying);
    load.begin();
    await load.answered(5);
    await dying.kill();
    // The first answer may have been in transit.
    const tookMs = await load.answered(2, orphans);
    await load.answered(3);
    await load.end();
    for (const user of load.users) {
      if (!orphans.includes(user)) expect(load.failures.get(user)!.filter(isUnheard), user).toEqual([]);
    }
    console.info(`floors of a killed orchestrator answered after ${tookMs} ms; ${load.tracked.length} commands`);
    await load.audit(cluster, [gateway]);
    await checkUnbroken(...nodes.filter((node) => node !== dying));
  });

  test("an orchestrator that was frozen past its lease commits nothing when it wakes", async () => {
    const settings = { INTERLOCK_LEASE: "1s" };
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG, settings });
    const [gateway, , ...nodes] = await cluster.startAll(["gateway"], ["worker"], ["orchestrator"], ["orchestrator"]);
    const load = new Load({ users: 8, clientsEach: 2, seed: 3, nodes: () => [gateway] });
    const owners = await ownersOf(load.users, gateway, nodes);
    const frozen = owners.get("user0")!;
    load.begin();
    await load.answered(5);
    const before = await conflictsOf(frozen);
    frozen.freeze();
    await load.answered(4);
    frozen.thaw();
    // It receives what its floors were asked meanwhile, and still assumes that it owns them.
    await expect.poll(() => conflictsOf(frozen)).toBeGreaterThan(before);
    await load.answered(5);
    await load.end();
    await load.audit(cluster, [gateway]);
    await checkUnbroken(...nodes);
  });

  test("two orchestrators that both believe they own every floor corrupt nothing", async () => {
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG });
    // A message published in one of Redis's databases is delivered in all of them, but each has its own members and
    // queues.
    const elsewhere = { INTERLOCK_BUS: `${servers.redis().url}/1` };
    const [gateway, one, other] = await Promise.all([
      cluster.start(["gateway"]),
      cluster.start(["orchestrator", "worker"]),
      cluster.start(["orchestrator", "worker"], elsewhere),
    ]);
    const load = new Load({ users: 6, clientsEach: 2, seed: 5, nodes: () => [gateway] });
    load.begin();
    await load.answered(20);
    await load.end();
    expect((await conflictsOf(one)) + (await conflictsOf(other))).toBeGreaterThan(0);
    await load.audit(cluster, [gateway]);
    await checkUnbroken(one, other);
  });
});
