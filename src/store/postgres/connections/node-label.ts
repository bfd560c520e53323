import type { Client } from "pg";
import type { Logger } from "../../../shared/ports/logger.ts";

/** Which node connects, for other nodes of the same database and for its administrators. */
export interface NodeLabel {
  /** Visible ASCII, at most 48 characters. */
  readonly name: string;
  readonly bus: "memory" | "redis";
}

/** Other nodes that a warning names. */
const MAX_NAMED = 8;

/** The connection's `application_name`; PostgreSQL keeps 63 bytes of it. */
export const applicationName = (node: NodeLabel | undefined): string =>
  node ? `interlock ${node.bus} ${node.name}` : "interlock";

/**
 * Warn if this node, or another one that is connected, has a bus of its own: nodes of one store that do not share a bus
 * do not hear of each other's commits.
 */
export async function warnOfLoneNodes(client: Client, node: NodeLabel, log: Logger): Promise<void> {
  const { rows } = await client.query<{ application_name: string }>(
    `select distinct application_name from pg_stat_activity
     where datname = current_database() and application_name like 'interlock % %' order by 1`,
  );
  const others = rows
    .map(({ application_name }) => application_name.split(" ") as [string, string, string])
    .filter(([, bus, name]) => name !== node.name && (node.bus === "memory" || bus === "memory"));
  if (others.length === 0) return;
  log.warn(
    { bus: node.bus, others: others.slice(0, MAX_NAMED).map(([, bus, name]) => `${name} (${bus})`) },
    "other nodes have this store open, and at least one of them or this one has no bus: set INTERLOCK_BUS to the same Redis on all nodes",
  );
}
