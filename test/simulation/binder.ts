import { sleep } from "../../src/protocol/clock.ts";
import type { SessionId } from "../../src/protocol/ids.ts";
import type { Cluster } from "./cluster.ts";
import type { ConnectionReading } from "./connection-reading.ts";
import { visit } from "./visit.ts";
import type { World } from "./world.ts";

/** See to it that a session that was made is carried by a connection: asked for at any gateway until it is done. */
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
      await node!.gateway!.bind(id, sessionId, floorId);
      return "bound" as const;
    };
    if (node && (await visit(world, node, bind)) === "bound") {
      trace.add("binder", `${sessionId} is bound to ${id}`);
      return reading.endBinding(sessionId);
    }
    await sleep(clock, 50 + chance.below(400));
  }
}
