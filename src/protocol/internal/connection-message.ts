import { z } from "zod";
import type { ConnectionId } from "../ids.ts";

/**
 * A message to the node that holds a connection's stream: a hint to read the connection's row again, or an event for it
 * alone.
 */
export const ConnectionMessage = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("bound") }),
  /** `body`: the text of the `data:` field. */
  z.object({ kind: z.literal("live"), body: z.string() }),
]);
export type ConnectionMessage = z.infer<typeof ConnectionMessage>;

/** The topic on which the node with a connection's stream receives messages about it. */
export const connectionTopic = (epoch: string, id: ConnectionId): string => `${epoch}.connection.${id}`;
