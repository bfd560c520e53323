import { expect, test } from "vitest";
import { create } from "../../support/clients/node-client.ts";
import { SessionReader } from "../../support/clients/session-reader.ts";
import type { ChildServer } from "../../support/nodes/child-server.ts";
import { Cluster, describeClusters } from "../../support/nodes/cluster.ts";
import { Player } from "../../support/nodes/player.ts";
import { PLAYERS } from "../../support/nodes/players.ts";

const LEASE_MS = 2_000;
/** Enough floors that each orchestrator probably owns one. */
const FLOORS = 4;

describeClusters("participants of several nodes", (servers) => {
  /** A floor of an orchestrator that has just died answers when another one owns it. */
  async function read(gateway: ChildServer, id: string, activate: boolean): Promise<SessionReader> {
    await create(gateway, id, "music", { activate });
    return await SessionReader.of(gateway, id);
  }

  const moves = (reader: SessionReader, id: string) =>
    reader.eventsOf(id, "session_transition").map(({ data }) => data);

  test("leases lapse when participants die, and not when the orchestrator of their floor dies", async () => {
    const settings = { INTERLOCK_LEASE: "1s" };
    const cluster = await Cluster.make(servers, { catalog: { agents: PLAYERS }, settings });
    const [gateway, ...orchestrators] = await cluster.startAll(
      ["gateway", "worker"],
      ["orchestrator"],
      ["orchestrator"],
    );
    const ids = Array.from({ length: FLOORS }, (_, index) => `living-${index}`);
    const living = new Map<string, SessionReader>();
    for (const id of ids) {
      living.set(id, await read(gateway, id, false));
      await Player.start(gateway.url, id, LEASE_MS);
      // Its lease starts now.
      expect((await gateway.post(`/session/${id}/activate`)).status).toBe(200);
    }
    /** A session without a participant lapses. By then the others would have lapsed, too, without heartbeats. */
    const watchOneDie = async (id: string) => {
      const dead = await read(gateway, id, true);
      await dead.until(() => moves(dead, id).at(-1)?.to === "paused");
      expect(moves(dead, id).at(-1)).toMatchObject({ event: "yield", reason: "lease_expired" });
    };
    await watchOneDie("dead-0");
    await orchestrators[0]!.kill();
    for (let index = 1; index <= FLOORS; index += 1) await watchOneDie(`dead-${index}`);
    for (const [id, reader] of living) expect(moves(reader, id), id).toHaveLength(1);
  });
});
