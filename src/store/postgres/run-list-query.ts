import { readPage } from "../row-page.ts";
import { type RunListRow, runListCondition, runListPage, weightOfRunRow } from "../run-list.ts";
import type { StoredRunPage, StoredRunQuery } from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";

/** Lists sessions by their runs. Each combination of filters is a statement of its own. */
export const runListQuery = (db: Database) => ({
  async listRuns(query: StoredRunQuery): Promise<StoredRunPage> {
    const values: (string | number)[] = [];
    const put = (value: string | number) => `$${values.push(value)}`;
    const { column, where, order } = runListCondition(query, put, (text, part) => `strpos(${text}, ${part})`);
    const text = `
      SELECT view, memory, ${column} AS at FROM sessions WHERE ${where} ORDER BY ${order} LIMIT ${put(query.limit + 1)}`;
    const rows = await db.query<RunListRow>({ text }, values);
    return runListPage(readPage(rows, query.limit, weightOfRunRow));
  },
});
