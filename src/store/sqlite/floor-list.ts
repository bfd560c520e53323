import type { SQLInputValue } from "node:sqlite";
import { FLOOR_ROWS, IS_IN_STATE } from "../floor-rows.ts";
import { readPage, weightOfFloor } from "../row-page.ts";
import { type FloorListRow, floorOfRow } from "../rows.ts";
import type { StoredFloorPage, StoredFloorQuery } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";

/** Lists floors. Each combination of filters is one statement. */
export const floorListRead = (db: ReadConnection) => ({
  listFloors({ after, ids, state, ownerId, limit }: StoredFloorQuery): Promise<StoredFloorPage> {
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
    const sql = `${FLOOR_ROWS} WHERE ${conditions.join(" AND ")} ORDER BY f.id LIMIT ?`;
    return db.readSnapshot(() => {
      const rows = db.prepare<FloorListRow>(sql).iterate(...values, limit + 1);
      const { page, hasMore } = readPage(rows, limit, weightOfFloor);
      return { floors: page.map(floorOfRow), hasMore };
    });
  },
});
