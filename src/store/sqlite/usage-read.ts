import type { StoredUsagePage, StoredUsageQuery, UsageCount } from "../store.ts";
import { usageList, usagePage } from "../usage-list.ts";
import type { ReadConnection } from "./read-connection.ts";

export const usageRead = (db: ReadConnection) => ({
  listUsage(query: StoredUsageQuery): Promise<StoredUsagePage> {
    const { sql, values } = usageList(query);
    return db.read(() => usagePage(db.prepare<UsageCount>(sql).all(...values), query.limit));
  },
});
