import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { readiness } from "../../support/clients/node-client.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { clientOf, LOAD_CATALOG, Load } from "../../support/nodes/load.ts";
import { WatchedSession } from "../../support/nodes/watched-session.ts";

async function suite(servers: Parameters<Parameters<typeof describeClusters>[1]>[0]) {
  test("an orderly restart of the database under load, and a crash, cause clear errors, and everything works afterwards", async () => {
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG });
    const [here, there] = await cluster.startAll(["gateway", "orchestrator"], ["gateway", "orchestrator"], ["worker"]);
    const nodes = [here, there];
    const client = clientOf(() => nodes);
    const watched = await WatchedSession.create(client, nodes);
    const load = new Load({ users: 4, clientsEach: 2, seed: 11, nodes: () => nodes });
    load.begin();
    const failures = () => [...load.failures.values()].flat();
    for (const how of ["orderly", "crash"] as const) {
      await load.answered(5);
      const before = failures().length;
      let isBack = false;
      const restarting = servers.postgres().restart(how);
      const looking = nodes.map(async (node) => {
        const statuses = new Set<string>();
        while (!isBack) {
          const { status, body } = await node.ask("GET", "/session/watched");
          statuses.add(`${status} ${body.errorCode ?? ""}`);
        }
        return statuses;
      });
      await restarting;
      isBack = true;
      for (const statuses of await Promise.all(looking)) {
        expect(
          [...statuses].filter((each) => !["200 ", "503 unavailable"].includes(each)),
          how,
        ).toEqual([]);
      }
      const tookMs = await load.answered(1);
      console.info(`${how}: every client was answered again after ${tookMs} ms`);
      await load.answered(3);
      expect(failures().length, how).toBeGreaterThan(before);
    }
    await load.end();
    expect(failures().filter((each) => !each.includes('"errorCode":"unavailable"'))).toEqual([]);
    await watched.rename(client);
    await load.audit(cluster, nodes);
  });

  test("while PostgreSQL takes no writes, nodes refuse commands, keep their floors and stay ready; then all continues", async () => {
    const settings = { INTERLOCK_LEASE: "500ms" };
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG, settings });
    const nodes = await cluster.startAll(["gateway", "orchestrator", "worker"], ["gateway", "orchestrator", "worker"]);
    const admin = new pg.Client({
      connectionString: cluster.storeUrl,
      options: "-c default_transaction_read_only=off",
    });
    await admin.connect();
    const setReadOnly = async (value: "on" | "off") => {
      await admin.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await admin.query("SELECT pg_reload_conf()");
    };
    onTestFinished(async () => {
      await setReadOnly("off");
      await admin.end();
    });
    // One node alone commits, and therefore loses the connections that other nodes keep.
    const ask = async (title: string) => {
      const { status, body } = await nodes[0].ask("PATCH", "/session/watched", { title }, title);
      return `${status} ${body.errorCode ?? ""}`;
    };
    const ready = () => Promise.all(nodes.map(async (node) => (await node.ask("GET", "/ready")).status));
    await clientOf(() => nodes).createSession({ id: "watched", userId: "watcher" });
    expect(await ask("before")).toBe("200 ");
    await setReadOnly("on");
    await expect.poll(() => ask("meanwhile")).toBe("503 unavailable");
    // Long enough for a node that takes itself for the only one without a database to say so.
    const until = Date.now() + 10 * 500;
    while (Date.now() < until) {
      expect(await ask("meanwhile")).toBe("503 unavailable");
      expect(await ready()).toEqual([200, 200]);
    }
    await setReadOnly("off");
    await expect.poll(() => ask("meanwhile")).toBe("200 ");
    expect(await ready()).toEqual([200, 200]);
  });

  test("a node whose store was restored meanwhile is not ready, and the node that is started anew is", async () => {
    const cluster = await Cluster.make(servers, { catalog: LOAD_CATALOG });
    const node = await cluster.start(["gateway", "orchestrator", "worker"]);
    expect((await node.post("/session/create", { id: "watched", userId: "watcher" })).status).toBe(200);
    await cluster.sql("UPDATE interlock.meta SET epoch = 'r1'");
    const missing = ["the database is not the store that this node opened: the log says what to do"];
    await expect.poll(() => readiness(node)).toEqual([503, missing]);
    const renamed = await node.ask("PATCH", "/session/watched", { title: "later" });
    expect([renamed.status, renamed.body.errorCode]).toEqual([503, "unavailable"]);
    await node.printed("it is another store than this node opened (r1): restart the node");
    const next = await cluster.start(["gateway", "orchestrator", "worker"]);
    expect((await next.ask("GET", "/session/watched")).body.position).toMatch(/^r1\.1\./);
  });
}

describeClusters("a restart of PostgreSQL", suite, { own: true });
