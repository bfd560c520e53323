import { expect, test } from "vitest";
import { readiness } from "../../support/clients/node-client.ts";
import { ClockProxy } from "../../support/networks/clock-proxy.ts";
import { StallingProxy } from "../../support/networks/stalling-proxy.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";

const CATALOG = { agents: [{ name: "general" }] };
const USERS = Array.from({ length: 12 }, (_, n) => `user${n}`);

/** The answer of every floor at a gateway. */
async function askAll(door: ChildServer): Promise<number[]> {
  const asked = USERS.map((user) => door.ask("PUT", `/floor/${encodeURIComponent(`u:${user}`)}/flags`, {}));
  return (await Promise.all(asked)).map(({ status }) => status);
}
const ALL_WELL = USERS.map(() => 200);

describeClusters("one node of several", (servers) => {
  test("a node that copied a wrong time from the database continues working and corrects itself", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG, settings: { LOG_LEVEL: "info" } });
    const proxy = await ClockProxy.start(cluster.storeUrl);
    await proxy.setWrongBy(600);
    const [wrong, right] = await Promise.all([
      cluster.start(["gateway", "orchestrator", "worker"], { INTERLOCK_STORE: proxy.databaseUrl }),
      cluster.start(["gateway", "orchestrator", "worker"]),
    ]);
    const partitions = (node: ChildServer) => node.metric("interlock_partitions_owned");
    for (const node of [wrong, right]) {
      const hasSome = async () => {
        const count = await partitions(node);
        return count > 0 && count < 256;
      };
      await expect.poll(hasSome).toBe(true);
    }
    for (const door of [wrong, right]) expect(await askAll(door)).toEqual(ALL_WELL);
    await proxy.setWrongBy(0);
    // A session of each floor shows the floor's time.
    const isRight = async () => {
      const { body } = await wrong.post("/session/create", {});
      return Math.abs((body.session as unknown as { createdAt: number }).createdAt - Date.now()) < 60_000;
    };
    await expect.poll(isRight).toBe(true);
    for (const door of [wrong, right]) expect(await askAll(door)).toEqual(ALL_WELL);
  });

  test("a node that alone is cut off from the database leaves its floors to the others, and is not ready", async () => {
    const cluster = await Cluster.make(servers, { catalog: CATALOG, settings: { INTERLOCK_LEASE: "1s" } });
    const proxy = await StallingProxy.start(cluster.storeUrl);
    const storeUrl = new URL(cluster.storeUrl);
    storeUrl.hostname = "127.0.0.1";
    storeUrl.port = String(proxy.port);
    const [cut, whole] = await Promise.all([
      cluster.start(["gateway", "orchestrator", "worker"], { INTERLOCK_STORE: storeUrl.href }),
      cluster.start(["gateway", "orchestrator", "worker"]),
    ]);
    expect(await askAll(whole)).toEqual(ALL_WELL);
    proxy.stall();
    const away = [503, ["the store does not answer this node"]];
    await expect.poll(() => readiness(cut)).toEqual(away);
    expect(await askAll(whole)).toEqual(ALL_WELL);
    expect(await readiness(whole)).toEqual([200, []]);
    proxy.resume();
    await expect.poll(() => readiness(cut)).toEqual([200, []]);
    expect(await askAll(cut)).toEqual(ALL_WELL);
  });
});
