import { expect, test } from "vitest";
import { postUntilKnown } from "../../support/clients/node-client.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";

const RUNS = 25;
const CLIENTS = 64;

describeClusters("a budget", (servers) => {
  test("is exact with two nodes and 64 clients, over the death of a node and with repeats", async () => {
    const replies = [{ say: ["Hello."], usage: { input: 3, output: 2 } }];
    const cluster = await Cluster.make(servers, {
      catalog: {
        agents: [{ name: "talk", adapter: { kind: "scripted", replies } }],
        budgets: [{ per: "owner", runs: RUNS, within: "1d" }],
      },
    });
    const roles = ["gateway", "orchestrator", "worker"] as const;
    const nodes = await cluster.startAll(roles, roles);
    /** Of each client a turn on a floor of its own, all of one owner. */
    const ask = (index: number, node: number) =>
      postUntilKnown(
        nodes[node]!,
        "/message",
        { type: "chat", content: "Hi", agentId: "talk", userId: "ann", zone: `zone-${index}` },
        `turn-${index}`,
      );
    const all = (node: (index: number) => number) =>
      Promise.all(Array.from({ length: CLIENTS }, (_, index) => ask(index, node(index))));

    const answers = await all((index) => index % 2);
    const codes = answers.map(({ status, body }) => (status === 200 ? "begun" : String(body.errorCode)));
    expect(codes.filter((code) => code === "begun")).toHaveLength(RUNS);
    expect(codes.filter((code) => code === "budget_exhausted")).toHaveLength(CLIENTS - RUNS);

    // The same keys, at the other node.
    const repeats = await all((index) => (index + 1) % 2);
    expect(repeats.map(({ status }) => status)).toEqual(answers.map(({ status }) => status));

    // Its runs are tried again by the other one.
    await nodes[1]!.kill();
    const used = () => cluster.sql("SELECT sum(runs)::int AS runs, sum(tokens)::int AS tokens FROM interlock.usage");
    await expect.poll(used, { timeout: 30_000 }).toEqual([{ runs: RUNS, tokens: RUNS * 5 }]);
    expect(await cluster.sql("SELECT used::int FROM interlock.budgets")).toEqual([{ used: RUNS }]);
    const late = await ask(CLIENTS, 0);
    expect([late.status, late.body.errorCode]).toEqual([429, "budget_exhausted"]);
  });
});
