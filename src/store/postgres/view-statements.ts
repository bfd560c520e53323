/**
 * The reads of answers and streams, one statement each, so that an answer is one snapshot. The row of the session or
 * floor comes with every row of its list, and alone if the list is empty. A page ends with the row that reaches its
 * size limit. The sizes of later rows are computed without reading their content, and they are not sent.
 */

import { withColumns } from "../columns.ts";
import type { Statement } from "../reads.ts";
import { ANSWER_BYTES, LOG_BYTES } from "../row-page.ts";

const MESSAGE = `$1::text AS "sessionId", m.id, m.status, m.details, m.content`;
const EVENT = withColumns('e.session_id AS "sessionId", {{events: e.$name AS "$field"}}');
/** For each row in its order: the total size of the rows before it, and the number of rows. */
export const weighed = (weight: string, order: string) =>
  `sum(${weight}) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - ${weight} AS before, count(*) OVER () AS found`;
/** These rows in their order, up to and including the one that reaches the size limit of an answer. */
const within = (rows: string, weight: string, order: string) =>
  `SELECT * FROM (SELECT r.*, ${weighed(weight, order)} FROM (${rows}) r) r WHERE before < ${ANSWER_BYTES}`;
export const MESSAGE_WEIGHT = "(octet_length(m.content) + octet_length(m.details))";
const LAST_KEY = "9223372036854775807";

/** $1: a session. One row, for an existing or a deleted session. */
export const WHEREABOUTS = {
  name: "whereabouts",
  text: withColumns(`
    SELECT f.id AS "floorId", place.owner_id AS "ownerId", $1::text AS "sessionId", {{events: place.$name AS "$field"}}
    FROM (
      SELECT 1 AS rank, floor_key, owner_id, {{events: NULL::$type AS $name}} FROM sessions WHERE id = $1
      UNION ALL
      SELECT 2, floor_key, owner_id, {{events: $name}} FROM tombstones WHERE session_id = $1
    ) place JOIN floors f USING (floor_key)
    ORDER BY place.rank LIMIT 1`),
};

/**
 * $1: a session; $2: the number of newest messages plus one, to see whether more exist. The first row holds the
 * session's view.
 */
export const SESSION_VIEW = {
  name: "session_view",
  text: `
    SELECT s.head, CASE WHEN coalesce(m.place, 1) = 1 THEN s.view END AS view, coalesce(m.found, 0) AS found,
      $1::text AS "sessionId", m.id, m.status, m.details, CASE WHEN m.place < $2 THEN m.content END AS content
    FROM sessions s LEFT JOIN LATERAL (
      SELECT * FROM (
        SELECT m.*, row_number() OVER (ORDER BY m.message_key DESC) AS place,
          ${weighed(MESSAGE_WEIGHT, "m.message_key DESC")}
        FROM (
          SELECT * FROM messages m WHERE m.session_key = s.session_key ORDER BY m.message_key DESC LIMIT $2
        ) m
      ) m WHERE m.before < ${ANSWER_BYTES} AND (m.place = 1 OR m.place < $2)
    ) m ON true
    WHERE s.id = $1 ORDER BY m.message_key DESC NULLS LAST`,
};

function messagePage(name: string, condition: string, direction: "ASC" | "DESC"): Statement {
  return {
    name,
    text: `
      SELECT s.head, a.message_key AS "afterKey", b.message_key AS "beforeKey", coalesce(m.found, 0) AS found, ${MESSAGE}
      FROM sessions s
      LEFT JOIN messages a ON a.session_key = s.session_key AND a.id = $2
      LEFT JOIN messages b ON b.session_key = s.session_key AND b.id = $3
      LEFT JOIN LATERAL (
        SELECT * FROM (
          SELECT m.*, ${weighed(MESSAGE_WEIGHT, `m.message_key ${direction}`)}
          FROM (
            SELECT m.* FROM messages m WHERE m.session_key = s.session_key AND ${condition}
            ORDER BY m.message_key ${direction} LIMIT $4
          ) m
        ) m WHERE m.before < ${ANSWER_BYTES}
      ) m ON true
      WHERE s.id = $1 ORDER BY m.message_key ${direction}`,
  };
}

const BEFORE = `m.message_key < coalesce(b.message_key, ${LAST_KEY})`;
/** $1: a session; $2 and $3: messages of it or null; $4: the limit. Newest first. */
export const MESSAGES_BEFORE = messagePage("messages_before", BEFORE, "DESC");
/** The same, oldest first, after $2 or from the first one. */
export const MESSAGES_AFTER = messagePage(
  "messages_after",
  `m.message_key > coalesce(a.message_key, 0) AND ${BEFORE}`,
  "ASC",
);

/** $1: a session; $2: a message of it; $3: a line of its log or null; $4: the limit. */
export const LOGS = {
  name: "logs",
  text: `
    SELECT m.message_key AS "messageKey", a.log_key AS "afterKey", coalesce(l.found, 0) AS found, l.id,
      l.stream, l.text, l.at AS timestamp
    FROM sessions s
    LEFT JOIN messages m ON m.session_key = s.session_key AND m.id = $2
    LEFT JOIN message_logs a ON a.session_key = s.session_key AND a.message_key = m.message_key AND a.id = $3
    LEFT JOIN LATERAL (
      SELECT * FROM (
        SELECT l.*, ${weighed("octet_length(l.text)", "l.log_key")}
        FROM (
          SELECT l.* FROM message_logs l
          WHERE l.session_key = s.session_key AND l.message_key = m.message_key AND l.log_key > coalesce(a.log_key, 0)
          ORDER BY l.log_key LIMIT $4
        ) l
      ) l WHERE l.before < ${ANSWER_BYTES}
    ) l ON true
    WHERE s.id = $1 ORDER BY l.log_key`,
};

/** $1: a session; $2: the number before the first event; $3: the limit. */
export const SESSION_LOG = {
  name: "session_log",
  text: `
    SELECT s.head, s.low_water AS "lowWater", ${EVENT}
    FROM sessions s LEFT JOIN LATERAL (
      SELECT * FROM (
        SELECT e.*, s.id AS session_id, ${weighed("octet_length(e.json)", "e.seq")}
        FROM (
          SELECT e.* FROM events e WHERE e.session_key = s.session_key AND e.seq > $2 ORDER BY e.seq LIMIT $3
        ) e
      ) e WHERE e.before < ${LOG_BYTES}
    ) e ON true
    WHERE s.id = $1 ORDER BY e.seq`,
};

/** The last event of a deleted session stays in the floor's log, although its row was deleted with the session. */
function floorLog(name: string, direction: "ASC" | "DESC"): Statement {
  const beyond = direction === "ASC" ? ">" : "<";
  const page = `floor_key = f.floor_key AND floor_seq ${beyond} $2 ORDER BY floor_seq ${direction} LIMIT $3`;
  return {
    name,
    text: `
      SELECT f.head, f.low_water AS "lowWater", ${EVENT}
      FROM floors f LEFT JOIN LATERAL (
        SELECT * FROM (
          SELECT logged.*, ${weighed("octet_length(json)", `floor_seq ${direction}`)}
          FROM (
            (SELECT floor_seq, (SELECT id FROM sessions s WHERE s.session_key = e.session_key) AS session_id, seq, type,
              request_id, at, json FROM events e WHERE ${page})
            UNION ALL
            (SELECT floor_seq, session_id, seq, type, request_id, at, json FROM tombstones WHERE ${page})
            ORDER BY floor_seq ${direction} LIMIT $3
          ) logged
        ) logged WHERE before < ${LOG_BYTES}
      ) e ON true
      WHERE f.id = $1 ORDER BY e.floor_seq ${direction}`,
  };
}

/** $1: a floor; $2: the number before the first event; $3: the limit. Oldest first. */
export const FLOOR_LOG = floorLog("floor_log", "ASC");
/** $1: a floor; $2: the number after the first event; $3: the limit. Newest first. */
export const FLOOR_LOG_BACK = floorLog("floor_log_back", "DESC");

/** $1: a floor; $2: the limit of sessions of each kind; $3: the limit of decisions. The floor's own row comes first. */
export const FLOOR_VIEW = {
  name: "floor_view",
  text: `
    WITH f AS MATERIALIZED (SELECT floor_key, head, flags, reserved FROM floors WHERE id = $1)
    SELECT 'floor' AS kind, head, flags AS body FROM f
    UNION ALL
    SELECT 'reserved', NULL, reserved FROM f WHERE reserved IS NOT NULL
    UNION ALL
    (SELECT 'holder', NULL, s.view FROM f JOIN sessions s USING (floor_key) WHERE s.standing = 0)
    UNION ALL
    (SELECT 'ducked', NULL, s.view FROM f, LATERAL (${within(
      `SELECT view, (view::json->>'priority')::float AS priority, session_key FROM sessions
      WHERE floor_key = f.floor_key AND standing < 0
      ORDER BY 2 DESC, session_key LIMIT $2`,
      "octet_length(view)",
      "priority DESC, session_key",
    )}) s ORDER BY s.priority DESC, s.session_key)
    UNION ALL
    (SELECT 'paused', NULL, s.view FROM f, LATERAL (${within(
      `SELECT view, standing FROM sessions WHERE floor_key = f.floor_key AND standing > 0
      ORDER BY standing DESC LIMIT $2`,
      "octet_length(view)",
      "standing DESC",
    )}) s ORDER BY s.standing DESC)
    UNION ALL
    (SELECT 'queued', NULL, s.view FROM f, LATERAL (${within(
      `SELECT view, queued_at, session_key FROM sessions WHERE floor_key = f.floor_key AND queued_at IS NOT NULL
      ORDER BY queued_at LIMIT $2`,
      "octet_length(view)",
      "queued_at, session_key",
    )}) s ORDER BY s.queued_at)
    UNION ALL
    (SELECT 'decision', NULL, e.json FROM f, LATERAL (${within(
      `SELECT json, floor_seq FROM events WHERE floor_key = f.floor_key AND type = 'arbitration'
      ORDER BY floor_seq DESC LIMIT $3`,
      "octet_length(json)",
      "floor_seq DESC",
    )}) e ORDER BY e.floor_seq DESC)`,
};
