import type { FloorState } from "../protocol/floor.ts";

/** SQL of every store, up to its WHERE: the floors, `f`, with their holders and the numbers of their other sessions. */
export const FLOOR_ROWS = `
  SELECT f.id AS "floorId", f.head, f.flags, f.reserved, h.id AS "sessionId", h.agent_id AS "agentId",
    (SELECT o.owner_id FROM sessions o WHERE f.id LIKE 's:%' AND o.id = substr(f.id, 3)) AS "ownerId",
    (SELECT count(*) FROM sessions p WHERE p.floor_key = f.floor_key AND p.standing > 0) AS paused,
    (SELECT count(*) FROM sessions d WHERE d.floor_key = f.floor_key AND d.standing < 0) AS ducked,
    (SELECT count(*) FROM sessions q WHERE q.floor_key = f.floor_key AND q.queued_at IS NOT NULL) AS queued
  FROM floors f LEFT JOIN sessions h ON h.floor_key = f.floor_key AND h.standing = 0`;

const HELD = "SELECT floor_key FROM sessions WHERE standing = 0";
const WAITED_FOR = `SELECT floor_key FROM sessions WHERE standing <> 0
  UNION SELECT floor_key FROM sessions WHERE queued_at IS NOT NULL`;

/** SQL: the condition that a floor `f` is in a state. */
export const IS_IN_STATE: Record<FloorState, string> = {
  held: `f.floor_key IN (${HELD})`,
  waiting: `f.floor_key NOT IN (${HELD}) AND f.floor_key IN (${WAITED_FOR})`,
  idle: `f.floor_key NOT IN (${HELD}) AND f.floor_key NOT IN (${WAITED_FOR})`,
};
