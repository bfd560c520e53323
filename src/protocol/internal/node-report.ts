import { z } from "zod";
import { ERROR_CODES } from "../errors.ts";

/** What a node may be. A node has one or more of these roles. */
export const NODE_ROLES = ["gateway", "orchestrator", "worker"] as const;
export type NodeRole = (typeof NODE_ROLES)[number];

/**
 * The maximum length of a name in a report, and the maximum number of reasons why a node is not ready: other nodes send
 * them over the bus.
 */
const MAX_TEXT = 256;
const MAX_MISSING = 16;
/** The longest reason of a failure. */
export const MAX_REASON = 512;

const count = () => z.number().int().nonnegative();
const text = () => z.string().max(MAX_TEXT);

/** Why a run failed, for operators: with the provider's own reason, if there is one. */
export const RunFailure = z.object({
  at: z.number().meta({ description: "ms since 1970" }),
  agentId: text(),
  errorCode: z.enum(ERROR_CODES),
  reason: z.string().max(MAX_REASON),
});
export type RunFailure = z.infer<typeof RunFailure>;

/** What a node says of itself: what it is, what it has open, what waits in it, and what it counted since it started. */
export const NodeReport = z
  .object({
    node: text().meta({ description: "its id, created anew whenever it starts" }),
    name: text()
      .optional()
      .meta({ description: "its name, by default its machine and process; absent: an older node" }),
    roles: z.array(z.enum(NODE_ROLES)).max(NODE_ROLES.length),
    version: text(),
    startedAt: z.number().meta({ description: "ms since 1970" }),
    missing: z.array(text()).max(MAX_MISSING).meta({ description: "why it is not ready; empty if it is" }),
    partitions: count().meta({ description: "partitions of the floors that it owns" }),
    connections: count().meta({ description: "open event streams" }),
    floors: count().meta({ description: "floors whose actors are in memory" }),
    commands: count().meta({ description: "commands answered since it started" }),
    commits: count().meta({ description: "commits since it started" }),
    commandsWaiting: count().meta({ description: "commands that its floors have not answered yet" }),
    asksWaiting: count().meta({ description: "commands that this node sent and no floor has answered yet" }),
    runs: z
      .object({ driven: count(), held: count(), waiting: count() })
      .meta({ description: "driven, held for paused sessions, or waiting for a person" }),
    lastFailure: RunFailure.optional().meta({ description: "of the runs that it drove; absent: none failed" }),
    slowReaders: count().meta({ description: "streams cut since it started because their reader was too slow" }),
  })
  .meta({ id: "NodeReport" });
export type NodeReport = z.infer<typeof NodeReport>;

/** A node's report as another node has it. */
export const HeardReport = NodeReport.extend({
  isSelf: z.literal(true).optional().meta({ description: "the node that answers" }),
  silentMs: count()
    .optional()
    .meta({ description: "how long ago it answered last; absent for a node that answered now" }),
}).meta({ id: "HeardReport" });
export type HeardReport = z.infer<typeof HeardReport>;
