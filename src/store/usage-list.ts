import { withColumns } from "./columns.ts";
import type { StoredUsagePage, StoredUsageQuery, UsageCount } from "./store.ts";

/** A list of usage as a query for both databases: its places are `?`. */
export function usageList({ from, to, ownerId, agentId, after, limit }: StoredUsageQuery) {
  const conditions = ["day BETWEEN ? AND ?"];
  const values: (string | number)[] = [from, to];
  if (ownerId !== undefined) {
    conditions.push("owner_id = ?");
    values.push(ownerId);
  }
  if (agentId !== undefined) {
    conditions.push("agent_id = ?");
    values.push(agentId);
  }
  if (after) {
    conditions.push("(day < ? OR (day = ? AND (owner_id, agent_id) > (?, ?)))");
    values.push(after.day, after.day, after.ownerId, after.agentId);
  }
  const sql = withColumns(`
    SELECT {{usage_keys: $name AS "$field"}}, {{usage: CAST(sum($name) AS bigint) AS $name}} FROM usage
    WHERE ${conditions.join(" AND ")} GROUP BY {{usage_keys: $name}}
    ORDER BY day DESC, owner_id, agent_id LIMIT ?`);
  return { sql, values: [...values, limit + 1] };
}

/** The page that these rows are of. */
export const usagePage = (rows: readonly UsageCount[], limit: number): StoredUsagePage => ({
  usage: rows.slice(0, limit),
  hasMore: rows.length > limit,
});
