import type { SQLInputValue } from "node:sqlite";
import { readPage } from "../row-page.ts";
import { type RunListRow, runListCondition, runListPage, weightOfRunRow } from "../run-list.ts";
import type { StoredRunPage, StoredRunQuery } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";

/** Lists sessions by their runs. Each combination of filters is one statement. */
export const runListRead = (db: ReadConnection) => ({
  listRuns(query: StoredRunQuery): Promise<StoredRunPage> {
    const values: SQLInputValue[] = [];
    const put = (value: string | number) => {
      values.push(value);
      return "?";
    };
    const { column, where, order } = runListCondition(query, put, (text, part) => `instr(${text}, ${part})`);
    const sql = `
      SELECT view, memory, ${column} AS at FROM sessions WHERE ${where} ORDER BY ${order} LIMIT ${put(query.limit + 1)}`;
    return db.readWeighed(() => {
      const rows = db.prepare<RunListRow>(sql).iterate(...values);
      return runListPage(readPage(rows, query.limit, db.weighed(weightOfRunRow)));
    });
  },
});
