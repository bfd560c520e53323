import { z } from "zod";
import type { ConnectionId } from "./ids.ts";

/** What is told to whoever holds a connection's stream: a hint to read its row again, or an event for its eyes alone. */
export const ConnectionMessage = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("bound") }),
  /** `body` is what stands behind `data:`. */
  z.object({ kind: z.literal("notice"), body: z.string() }),
]);
export type ConnectionMessage = z.infer<typeof ConnectionMessage>;

export const connectionTopic = (epoch: string, id: ConnectionId): string => `${epoch}.connection.${id}`;
