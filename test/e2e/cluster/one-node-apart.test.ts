import { expect, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { readiness } from "../../support/clients/node-client.ts";
import { ClockProxy } from "../../support/networks/clock-proxy.ts";
import { StallingProxy } from "../../support/networks/stalling-proxy.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";

const CATALOG = { agents: [{ name: "general" }] };
const USERS = Array.from({ length: 12 }, (_, n) => `user${n}`);

/** Every floor carries out a command that a gateway sends it. A floor that is changing its owner is asked again. */
async function askAll(door: ChildServer): Promise<void> {
  const client = createClient({ baseUrl: door.url });
  await Promise.all(USERS.map((user) => client.setFlags(`u:${user}`, {})));
}

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
    for (const door of [wrong, right]) await askAll(door);
    await proxy.setWrongBy(0);
    // A session of each floor shows the floor's time.
    const isRight = async () => {
      const { body } = await wrong.post("/session/create", {});
      return Math.abs((body.session as unknown as { createdAt: number }).createdAt - Date.now()) < 60_000;
    };
    await expect.poll(isRight).toBe(true);
    for (const door of [wrong, right]) await askAll(door);
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
    await askAll(whole);
    proxy.stall();
    const away = [503, ["the store does not answer this node"]];
    await expect.poll(() => readiness(cut)).toEqual(away);
    await askAll(whole);
    expect(await readiness(whole)).toEqual([200, []]);
    proxy.resume();
    await expect.poll(() => readiness(cut)).toEqual([200, []]);
    await askAll(cut);
  });
});
