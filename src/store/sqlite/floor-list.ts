import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { FLOOR_ROWS, IS_IN_STATE } from "../floor-rows.ts";
import { readPage, weightOfFloor } from "../row-page.ts";
import { type FloorListRow, floorOfRow } from "../rows.ts";
import type { StoredFloorPage, StoredFloorQuery } from "../store.ts";
import { prepareQuery, type Query } from "./query.ts";

/** Lists floors. Each combination of filters is one statement, prepared once. */
export class FloorList {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, Query<FloorListRow>>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  list({ after, ids, state, ownerId, limit }: StoredFloorQuery): StoredFloorPage {
    const conditions = ["f.id > ?"];
    const values: SQLInputValue[] = [after ?? ""];
    if (ownerId !== undefined) {
      conditions.push("f.floor_key IN (SELECT floor_key FROM sessions WHERE owner_id = ?)");
      values.push(ownerId);
    }
    if (ids !== undefined) {
      conditions.push("f.id IN (SELECT value FROM json_each(?))");
      values.push(JSON.stringify(ids));
    }
    if (state !== undefined) conditions.push(IS_IN_STATE[state]);
    const rows = this.#prepare(conditions.join(" AND ")).iterate(...values, limit + 1);
    const { page, hasMore } = readPage(rows, limit, weightOfFloor);
    return { floors: page.map(floorOfRow), hasMore };
  }

  #prepare(condition: string): Query<FloorListRow> {
    let statement = this.#statements.get(condition);
    if (!statement) {
      statement = prepareQuery(this.#db, `${FLOOR_ROWS} WHERE ${condition} ORDER BY f.id LIMIT ?`);
      this.#statements.set(condition, statement);
    }
    return statement;
  }
}
