import { expect, test } from "vitest";
import { createClient } from "../../../src/client/client.ts";
import { readiness } from "../../support/clients/node-client.ts";
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
