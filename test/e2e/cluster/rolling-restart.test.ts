import { expect, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters, type Role } from "../../support/nodes/cluster.ts";
import { clientOf, LOAD_CATALOG, Load } from "../../support/nodes/load.ts";
import { within } from "../../support/runner/within.ts";

const SONG = { kind: "scripted", replies: [{ say: ["la "], delay: "100ms", repeat: 60 }] };
const CATALOG = { ...LOAD_CATALOG, agents: [...LOAD_CATALOG.agents, { name: "tenor", adapter: SONG }] };

describeClusters("a rolling restart", (servers) => {
  test("nodes replaced under load fail no request that is repeated by the contract, and readers miss nothing", async () => {
    const settings = { INTERLOCK_DRAIN: "3s" };
    const cluster = await Cluster.make(servers, { catalog: CATALOG, settings });
    const kinds: Role[][] = [
      ["gateway", "orchestrator"],
      ["gateway", "orchestrator", "worker"],
      ["gateway", "worker"],
    ];
    let nodes = await Promise.all(kinds.map((roles) => cluster.start(roles)));
    const client = clientOf(() => nodes);

    // Readers are closed or cut off, and reconnect to the next node.
    let isOver = false;
    let turn = 0;
    async function follow(id: string): Promise<SessionReader> {
      const next = () => nodes[turn++ % nodes.length]!;
      const reader = await SessionReader.of(next(), id);
      const comeBack = async () => {
        while (!isOver) {
          await reader.stream.over();
          if (isOver) return;
          reader.moveTo(next().url);
          await reader.open().catch(() => {});
        }
      };
      void comeBack();
      return reader;
    }
    const readers = new Map<SessionReader, string>();
    for (let n = 0; n < 3; n++) {
      const id = `watched${n}`;
      await client.createSession({ id, userId: id, agentId: "tenor", activate: true });
      readers.set(await follow(id), id);
      readers.set(await follow(id), id);
    }
    const renaming = [...new Set(readers.values())].map(async (id) => {
      for (let n = 0; !isOver; n++) await client.renameSession(id, `${id} ${n}`);
    });
    const load = new Load({ users: 3, clientsEach: 2, seed: 13, nodes: () => nodes });
    load.begin();
    await load.answered(3);
    for (const id of new Set(readers.values())) await client.send({ type: "chat", sessionId: id, content: "sing" });

    const replace = async (old: ChildServer, roles: Role[]) => {
      nodes = [...nodes, await cluster.start(roles)];
      old.signal("SIGTERM");
      // Clients do not check whether a node is ready, and use it until it is gone.
      const tookMs = await within("stopping", old.ended);
      expect(await old.ended, old.stderr).toEqual({ code: 0, signal: null });
      nodes = nodes.filter((node) => node !== old);
      console.info(`${roles}: stopped after ${tookMs} ms`);
      await load.answered(2);
    };
    for (const [index, old] of [...nodes].entries()) await replace(old, kinds[index]!);
    await load.end();
    expect(load.undecided).toBe(0);
    isOver = true;
    await Promise.all(renaming);

    for (const [reader, id] of readers) {
      await client.renameSession(id, "the end");
      const isRenamed = () => reader.eventsOf(id).some(({ data }) => data.title === "the end");
      const hasAll = Promise.all([reader.has(id, "complete"), reader.until(isRenamed)]);
      await within(`all of ${id}`, hasAll);
      reader.check();
    }
    await load.audit(cluster, nodes);
    console.info(`${load.tracked.length} commands, ${[...load.failures.values()].flat().length} repeated`);
  });
});
