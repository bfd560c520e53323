import { expect, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { askedAt, SCHEDULED, schedule } from "../../support/schedules/scheduled-sessions.ts";

/** Enough floors that each orchestrator probably owns one. */
const FLOORS = 6;

describeClusters("schedules of several nodes", (servers) => {
  test("sessions ask once each, although an orchestrator dies before their time and another one at it", async () => {
    const settings = { INTERLOCK_LEASE: "1s" };
    const cluster = await Cluster.make(servers, { catalog: SCHEDULED, settings });
    const [gateway, ...orchestrators] = await cluster.startAll(
      ["gateway", "worker"],
      ["orchestrator"],
      ["orchestrator"],
      ["orchestrator"],
    );
    const ids = Array.from({ length: FLOORS }, (_, index) => `sleeper-${index}`);
    for (const id of ids) await schedule(gateway, id, { in: "3s", content: "nod" });
    await orchestrators[0]!.kill();
    const readers = await Promise.all(ids.map((id) => SessionReader.of(gateway, id)));
    await Promise.race(readers.map((reader, index) => reader.has(ids[index]!, "session_transition")));
    await orchestrators[1]!.kill();
    await Promise.all(readers.map((reader, index) => reader.has(ids[index]!, "complete")));
    for (const id of ids) expect([id, await askedAt(gateway, id)]).toEqual([id, 1]);
  });
});
