import type { Statement } from "./postgres-pool.ts";

/**
 * What answers and streams show, one statement for each so that all of an answer is one view. A row of the session or
 * the floor comes with every row of its list, and alone when that is empty.
 */

const MESSAGE = `$1::text AS "sessionId", m.id, m.status, m.details, m.content`;
const EVENT = `e.floor_seq AS "floorSeq", e.session_id AS "sessionId", e.seq, e.type, e.request_id AS "requestId", e.at,
    e.json`;
const LAST_KEY = "9223372036854775807";

/** $1: a session. One row, of a session that is there or of one that is gone. */
export const WHEREABOUTS = {
  name: "whereabouts",
  text: `
    SELECT f.id AS "floorId", place.owner_id AS "ownerId", place.floor_seq AS "floorSeq", $1::text AS "sessionId",
      place.seq, place.type, place.request_id AS "requestId", place.at, place.json
    FROM (
      SELECT 1 AS rank, floor_key, owner_id, NULL::bigint AS floor_seq, NULL::bigint AS seq, NULL::text AS type,
        NULL::text AS request_id, NULL::bigint AS at, NULL::text AS json
      FROM sessions WHERE id = $1
      UNION ALL
      SELECT 2, floor_key, owner_id, floor_seq, seq, type, request_id, at, json FROM tombstones WHERE session_id = $1
    ) place JOIN floors f USING (floor_key)
    ORDER BY place.rank LIMIT 1`,
};

/** $1: a session; $2: how many of its newest messages. Its view stands in the first row. */
export const SESSION_VIEW = {
  name: "session_view",
  text: `
    SELECT s.head, CASE WHEN coalesce(m.place, 1) = 1 THEN s.view END AS view, ${MESSAGE}
    FROM sessions s LEFT JOIN LATERAL (
      SELECT m.*, row_number() OVER (ORDER BY m.message_key DESC) AS place FROM messages m
      WHERE m.session_key = s.session_key ORDER BY m.message_key DESC LIMIT $2
    ) m ON true
    WHERE s.id = $1 ORDER BY m.message_key DESC NULLS LAST`,
};

function messagePage(name: string, condition: string, direction: "ASC" | "DESC"): Statement {
  return {
    name,
    text: `
      SELECT s.head, a.message_key AS "afterKey", b.message_key AS "beforeKey", ${MESSAGE}
      FROM sessions s
      LEFT JOIN messages a ON a.session_key = s.session_key AND a.id = $2
      LEFT JOIN messages b ON b.session_key = s.session_key AND b.id = $3
      LEFT JOIN LATERAL (
        SELECT m.* FROM messages m WHERE m.session_key = s.session_key AND ${condition}
        ORDER BY m.message_key ${direction} LIMIT $4
      ) m ON true
      WHERE s.id = $1 ORDER BY m.message_key ${direction}`,
  };
}

const BEFORE = `m.message_key < coalesce(b.message_key, ${LAST_KEY})`;
/** $1: a session; $2 and $3: messages of it or null; $4: how many. Newest first. */
export const MESSAGES_BEFORE = messagePage("messages_before", BEFORE, "DESC");
/** The same, oldest first, after $2. */
export const MESSAGES_AFTER = messagePage("messages_after", `m.message_key > a.message_key AND ${BEFORE}`, "ASC");

/** $1: a session; $2: a message of it; $3: a line of its log or null; $4: how many. */
export const LOGS = {
  name: "logs",
  text: `
    SELECT m.message_key AS "messageKey", a.log_key AS "afterKey", l.id, l.stream, l.text, l.at AS timestamp
    FROM sessions s
    LEFT JOIN messages m ON m.session_key = s.session_key AND m.id = $2
    LEFT JOIN message_logs a ON a.session_key = s.session_key AND a.message_key = m.message_key AND a.id = $3
    LEFT JOIN LATERAL (
      SELECT l.* FROM message_logs l
      WHERE l.session_key = s.session_key AND l.message_key = m.message_key AND l.log_key > coalesce(a.log_key, 0)
      ORDER BY l.log_key LIMIT $4
    ) l ON true
    WHERE s.id = $1 ORDER BY l.log_key`,
};

/** $1: a session; $2: the place before the first; $3: how many. */
export const SESSION_LOG = {
  name: "session_log",
  text: `
    SELECT s.head, s.low_water AS "lowWater", ${EVENT}
    FROM sessions s LEFT JOIN LATERAL (
      SELECT e.*, s.id AS session_id FROM events e
      WHERE e.session_key = s.session_key AND e.seq > $2 ORDER BY e.seq LIMIT $3
    ) e ON true
    WHERE s.id = $1 ORDER BY e.seq`,
};

/**
 * $1: a floor; $2: the place before the first; $3: how many. The last event of a deleted session has its place in the
 * floor's log, although its row went with the session.
 */
export const FLOOR_LOG = {
  name: "floor_log",
  text: `
    SELECT f.head, f.low_water AS "lowWater", ${EVENT}
    FROM floors f LEFT JOIN LATERAL (
      SELECT * FROM (
        (SELECT e.floor_seq, (SELECT s.id FROM sessions s WHERE s.session_key = e.session_key) AS session_id, e.seq,
            e.type, e.request_id, e.at, e.json
          FROM events e WHERE e.floor_key = f.floor_key AND e.floor_seq > $2 ORDER BY e.floor_seq LIMIT $3)
        UNION ALL
        (SELECT t.floor_seq, t.session_id, t.seq, t.type, t.request_id, t.at, t.json
          FROM tombstones t WHERE t.floor_key = f.floor_key AND t.floor_seq > $2 ORDER BY t.floor_seq LIMIT $3)
      ) logged ORDER BY floor_seq LIMIT $3
    ) e ON true
    WHERE f.id = $1 ORDER BY e.floor_seq`,
};

/** $1: a floor; $2: how many sessions of each kind; $3: how many decisions. The floor's own row comes first. */
export const FLOOR_VIEW = {
  name: "floor_view",
  text: `
    WITH f AS MATERIALIZED (SELECT floor_key, head, flags FROM floors WHERE id = $1)
    SELECT 'floor' AS kind, head, flags AS body FROM f
    UNION ALL
    (SELECT 'holder', NULL, s.view FROM f JOIN sessions s USING (floor_key) WHERE s.standing = 0)
    UNION ALL
    (SELECT 'paused', NULL, s.view FROM f, LATERAL (
      SELECT view, standing FROM sessions WHERE floor_key = f.floor_key AND standing > 0
      ORDER BY standing DESC LIMIT $2) s ORDER BY s.standing DESC)
    UNION ALL
    (SELECT 'queued', NULL, s.view FROM f, LATERAL (
      SELECT view, queued_at FROM sessions WHERE floor_key = f.floor_key AND queued_at IS NOT NULL
      ORDER BY queued_at LIMIT $2) s ORDER BY s.queued_at)
    UNION ALL
    (SELECT 'decision', NULL, e.json FROM f, LATERAL (
      SELECT json, floor_seq FROM events WHERE floor_key = f.floor_key AND type = 'arbitration'
      ORDER BY floor_seq DESC LIMIT $3) e ORDER BY e.floor_seq DESC)`,
};

/** $1: floors. */
export const HEADS = { name: "heads", text: "SELECT id, head FROM floors WHERE id = ANY ($1::text[])" };
