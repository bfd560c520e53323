import { expect, test } from "vitest";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { within } from "../../support/runner/within.ts";
import { freePort } from "../../support/servers/free-port.ts";

const SECRET = "hunter2-hunter2";
const ROLES = ["gateway", "orchestrator", "worker"] as const;

describeClusters("the start of a node in a cluster", (servers) => {
  test("a node whose PostgreSQL or Redis stays away does not start, and says so in a sentence without its password", async () => {
    const cluster = await Cluster.make(servers, { catalog: { agents: [{ name: "general" }] } });
    const nobody = `:${SECRET}@127.0.0.1:${await freePort()}`;
    // Both at once, because most of their time they wait.
    const refused = [
      [
        cluster.begin(ROLES, { INTERLOCK_STORE: `postgres://ann${nobody}/floors` }),
        /^interlock: .*127\.0\.0\.1:\d+ \(INTERLOCK_STORE\).*ECONNREFUSED.*$/,
      ],
      [
        cluster.begin(ROLES, { INTERLOCK_BUS: `redis://${nobody}` }),
        /^interlock: INTERLOCK_BUS: redis:\/\/127\.0\.0\.1:\d+ cannot be used: .*ECONNREFUSED.*$/,
      ],
    ] as const;
    for (const [node, sentence] of refused) {
      await within("refusing to start", node.ended);
      expect(await node.ended).toEqual({ code: 1, signal: null });
      expect(node.stderr).not.toContain(SECRET);
      // Without the line of the log that says that the start waits.
      expect(node.stderr.replace(/^\{.*\n/gm, "").trim()).toMatch(sentence);
    }
  });

  test("a node says that its database is new until it has had a session, so that a wrong address is seen", async () => {
    const cluster = await Cluster.make(servers, { catalog: { agents: [{ name: "general" }] } });
    const { host, pathname } = new URL(cluster.storeUrl);
    const storeOf = ({ stdout }: ChildServer) => /^ {2}store +(.*)$/m.exec(stdout)?.[1];
    const first = await cluster.start(ROLES);
    expect(storeOf(first)).toBe(`PostgreSQL at ${host}${pathname} (new: it has no sessions)`);
    expect((await first.post("/session/create", { userId: "ann" })).status).toBe(200);
    expect(storeOf(await cluster.start(ROLES))).toBe(`PostgreSQL at ${host}${pathname}`);
  });
});
