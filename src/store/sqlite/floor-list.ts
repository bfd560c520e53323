import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { FloorState } from "../../protocol/floor.ts";
import { takePage, weightOfFloor } from "../row-page.ts";
import { type FloorListRow, floorOf } from "../rows.ts";
import type { FloorPage, FloorQuery } from "../store.ts";
import { prepareQuery, type Query } from "./query.ts";

const HELD = "SELECT floor_key FROM sessions WHERE standing = 0";
const WAITED_FOR = `SELECT floor_key FROM sessions WHERE standing <> 0
  UNION SELECT floor_key FROM sessions WHERE queued_at IS NOT NULL`;
const IN_STATE: Record<FloorState, string> = {
  held: `f.floor_key IN (${HELD})`,
  waiting: `f.floor_key NOT IN (${HELD}) AND f.floor_key IN (${WAITED_FOR})`,
  idle: `f.floor_key NOT IN (${HELD}) AND f.floor_key NOT IN (${WAITED_FOR})`,
};

/** Lists floors. Each combination of filters is one statement, prepared once. */
export class FloorList {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, Query<FloorListRow>>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  list({ after, ids, state, ownerId, limit }: FloorQuery): FloorPage {
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
    if (state !== undefined) conditions.push(IN_STATE[state]);
    const rows = this.#prepare(conditions.join(" AND ")).iterate(...values, limit + 1);
    const { page, hasMore } = takePage(rows, limit, weightOfFloor);
    return { floors: page.map(floorOf), hasMore };
  }

  #prepare(condition: string): Query<FloorListRow> {
    let statement = this.#statements.get(condition);
    if (!statement) {
      statement = prepareQuery<FloorListRow>(
        this.#db,
        `
        SELECT f.id AS floorId, f.head, f.flags, f.reserved, h.id AS sessionId, h.agent_id AS agentId,
          (SELECT o.owner_id FROM sessions o WHERE f.id LIKE 's:%' AND o.id = substr(f.id, 3)) AS ownerId,
          (SELECT count(*) FROM sessions p WHERE p.floor_key = f.floor_key AND p.standing > 0) AS paused,
          (SELECT count(*) FROM sessions d WHERE d.floor_key = f.floor_key AND d.standing < 0) AS ducked,
          (SELECT count(*) FROM sessions q WHERE q.floor_key = f.floor_key AND q.queued_at IS NOT NULL) AS queued
        FROM floors f LEFT JOIN sessions h ON h.floor_key = f.floor_key AND h.standing = 0
        WHERE ${condition} ORDER BY f.id LIMIT ?`,
      );
      this.#statements.set(condition, statement);
    }
    return statement;
  }
}
