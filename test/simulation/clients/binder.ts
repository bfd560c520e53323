import type { SessionId } from "../../../src/protocol/ids.ts";
import { sleep } from "../../../src/shared/waiting.ts";
import type { Cluster } from "../nodes/cluster.ts";
import type { World } from "../world.ts";
import type { ConnectionReading } from "./connection-reading.ts";
import { visit } from "./visit.ts";

/** Bind a new session to a connection: the request is repeated at any gateway until it succeeds. */
export async function bindMade(
  world: World,
  cluster: Cluster,
  reading: ConnectionReading,
  sessionId: SessionId,
): Promise<void> {
  const { chance, clock, trace } = world;
  const { id, floorId } = reading;
  if (!id || !reading.beginBinding(sessionId)) return;
  while (world.broken === undefined) {
    const node = cluster.pickGateway();
    const bind = async () => {
      return (await node!.gateway!.bind(id, sessionId, floorId)) ? "bound" : "no room";
    };
    const outcome = node ? await visit(world, node, bind) : "cut";
    if (outcome !== "cut") {
      trace.add("binder", `${sessionId} at ${id}: ${outcome}`);
      return outcome === "bound" ? reading.endBinding(sessionId) : reading.giveUpBinding(sessionId);
    }
    await sleep(clock, 50 + chance.below(400));
  }
}
