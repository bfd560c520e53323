import type { StoredUsagePage, StoredUsageQuery, UsageCount } from "../store.ts";
import { usageList, usagePage } from "../usage-list.ts";
import type { Database } from "./connections/connection-pool.ts";

export const usageQuery = (db: Database) => ({
  async listUsage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const { sql, values } = usageList(query);
    let count = 0;
    const text = sql.replace(/\?/g, () => `$${++count}`);
    return usagePage(await db.query<UsageCount>({ text }, values), query.limit);
  },
});
