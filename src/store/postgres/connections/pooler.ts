import type { Client } from "pg";
import type { PostgresAddress } from "./database-address.ts";

/** How long one statement of the check may take, in ms. */
const PATIENCE_MS = 5_000;
const WHERE = { text: "SELECT pg_backend_pid() AS pid", query_timeout: PATIENCE_MS };

/**
 * Refuse a pooler that moves a client between the server's connections, such as PgBouncer in transaction mode: settings
 * and prepared statements of one node would reach another. It shows when a second client begins a transaction, and is
 * given the server's connection that the first one used last.
 * @throws Error with a sentence for the operator
 */
export async function refuseMovingPooler(client: Client, address: PostgresAddress): Promise<void> {
  const before = await pidOf(client);
  const other = await address.connect();
  try {
    await other.query("BEGIN");
    await pidOf(other);
    if ((await pidOf(client)) === before) return;
  } finally {
    // Its end rolls the transaction back.
    await other.end();
  }
  throw new Error(
    `a pooler in front of ${address.name} moves clients between connections: use its session mode, or connect to the server`,
  );
}

async function pidOf(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>(WHERE);
  return rows[0]?.pid;
}
