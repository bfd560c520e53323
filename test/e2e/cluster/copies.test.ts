import { onTestFinished } from "vitest";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { copyingSuite } from "../../support/nodes/copying-nodes.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";

describeClusters("several nodes", (servers) => {
  // What a client uploads and what the store copies are staged in different ways, and so is what replaces its source.
  copyingSuite(
    "a gateway",
    [
      ["fork", "begins"],
      ["import", "begins"],
    ],
    () => open("gateway"),
  );
  const last = [
    ["rollback", "is almost done"],
    ["edit", "is almost done"],
    ["move", "is almost done"],
  ] as const;
  copyingSuite("an orchestrator and worker", last, () => open("rest"));

  async function open(victim: "gateway" | "rest") {
    const cluster = await Cluster.make(servers, { catalog: { agents: [{ name: "general" }] } });
    const [copying, other, rest] = await cluster.startAll(["gateway"], ["gateway"], ["orchestrator", "worker"]);
    const count = async (sql: string) => Number((await cluster.sql(`SELECT count(*) AS n FROM ${sql}`))[0]!["n"]);
    return {
      copying,
      staged: () =>
        count(
          "interlock.messages WHERE session_key IN (SELECT session_key FROM interlock.sessions WHERE state = 'staged')",
        ),
      async kill() {
        await (victim === "gateway" ? copying : rest).kill();
        if (victim === "rest") await cluster.start(["orchestrator", "worker"]);
        return victim === "gateway" ? other : copying;
      },
      async openStore() {
        const url = cluster.storeUrl;
        const store = await openPostgresStore({ url, clock: new StandingClock(), log: new KeptLog() });
        onTestFinished(() => store.close());
        return store;
      },
      rows: async () => ({
        messages: await count("interlock.messages"),
        staged: await count("interlock.sessions WHERE state = 'staged'"),
        images: await count("interlock.blobs"),
      }),
    };
  }
});
