import type { Statement } from "../reads.ts";
import { BLOB_GRACE_MS, BLOB_UNUSED_MS } from "../retention.ts";
import type { PruneLimits } from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";

/** Locked rows are left for the next pass, so that pruning neither waits nor blocks. */
function deletion(table: string, which: string): Statement {
  return {
    name: `prune_${table}`,
    text: `
      WITH gone AS (
        DELETE FROM ${table} WHERE ctid = ANY (ARRAY (
          SELECT ctid FROM ${table} WHERE ${which} FOR UPDATE SKIP LOCKED)) RETURNING 1
      )
      SELECT count(*) FROM gone`,
  };
}

const RECEIPTS = deletion("receipts", "at < $1 ORDER BY at LIMIT $2");
const TOMBSTONES = deletion("tombstones", "deleted_at < $1 ORDER BY deleted_at LIMIT $2");
const CONNECTIONS = deletion("connections", "expires_at <= $1 ORDER BY expires_at LIMIT $2");
const BLOBS = deletion(
  "blobs",
  `uses = 0 AND created_at < $1
    AND (created_at < $2 OR NOT EXISTS (SELECT FROM sessions WHERE id = blobs.session_id))
   ORDER BY created_at LIMIT $3`,
);
const USAGE = deletion("usage", "day < $1 LIMIT $2");
const WINDOWS = deletion("budgets", "ends_at <= $1 ORDER BY ends_at LIMIT $2");
const SUM_USAGE = {
  name: "sum_usage",
  text: `
    WITH old AS (
      DELETE FROM usage WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM usage WHERE day < $1 AND floor_key <> 0 LIMIT $2 FOR UPDATE SKIP LOCKED))
      RETURNING day, owner_id, agent_id, runs, input, output, tokens
    ), summed AS (
      INSERT INTO usage AS u (floor_key, day, owner_id, agent_id, runs, input, output, tokens)
      SELECT 0, day, owner_id, agent_id, sum(runs), sum(input), sum(output), sum(tokens)
        FROM old GROUP BY day, owner_id, agent_id ORDER BY day, owner_id, agent_id
      ON CONFLICT (floor_key, day, owner_id, agent_id) DO UPDATE SET
        runs = u.runs + excluded.runs, input = u.input + excluded.input, output = u.output + excluded.output,
        tokens = u.tokens + excluded.tokens
    )
    SELECT count(*) FROM old`,
};
const STAGED = { name: "prune_staged", text: "SELECT prune_staged($1, $2) AS count" };
const EVENTS = { name: "prune_events", text: "SELECT prune_log($1, $2) AS count" };

/** Deletes expired rows, each kind in its own statement. Several nodes may do so at once. */
export function pruneQueries(db: Database) {
  /** Run a statement that looks at one session each time. Returns the number of rows considered. */
  async function repeat(statement: Statement, before: number, limit: number): Promise<number> {
    let touched = 0;
    while (touched < limit) {
      const count = await run(statement, [before, limit - touched]);
      if (count === 0) break;
      touched += count;
    }
    return touched;
  }

  async function run(statement: Statement, values: readonly unknown[]): Promise<number> {
    return (await db.query<{ count: number }>(statement, values))[0]!.count;
  }

  return {
    /** True while more may remain. */
    async prune({ now, eventsBefore, receiptsBefore, stagedBefore, usage, limit }: PruneLimits): Promise<boolean> {
      const deleted = [
        await run(RECEIPTS, [receiptsBefore, limit]),
        await run(TOMBSTONES, [receiptsBefore, limit]),
        await run(CONNECTIONS, [now, limit]),
        await run(BLOBS, [now - BLOB_GRACE_MS, now - BLOB_UNUSED_MS, limit]),
        stagedBefore === undefined ? 0 : await repeat(STAGED, stagedBefore, limit),
        eventsBefore === undefined ? 0 : await repeat(EVENTS, eventsBefore, limit),
        ...(usage === undefined
          ? []
          : [
              await run(USAGE, [usage.day, limit]),
              await run(SUM_USAGE, [usage.sumDay, limit]),
              await run(WINDOWS, [usage.time, limit]),
            ]),
      ];
      return deleted.some((count) => count >= limit);
    },
  };
}
