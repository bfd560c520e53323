import type { ClaimedNotice, DisabledHook, NoticeBacklog, NoticeStore } from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";

const CLAIM = {
  name: "claim_notices",
  text: `
    WITH claimed AS (
      UPDATE webhook_lanes SET due_at = $4, claim = $2
      WHERE lane_key = ANY (ARRAY (
        SELECT lane_key FROM webhook_lanes WHERE hook = $1 AND due_at <= $3
          AND NOT EXISTS (SELECT FROM webhooks_disabled WHERE hook = $1 AND receiver = $6)
        ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED))
      RETURNING lane_key, claim, subject, failures
    )
    SELECT l.lane_key AS "laneKey", l.claim, l.subject, l.failures, n.id, n.added_at AS at, n.payload
    FROM claimed l CROSS JOIN LATERAL (
      SELECT id, added_at, payload FROM webhook_notices WHERE lane_key = l.lane_key ORDER BY notice_key LIMIT 1) n`,
};
const SETTLE = { name: "settle_notice", text: "SELECT settle_notice($1, $2, $3, $4, $5, $6, $7)" };
const BACKLOGS = {
  name: "notice_backlogs",
  text: `
    SELECT b.*, coalesce(w.failures, 0) AS failures, w.reason
    FROM (
      SELECT l.hook, count(*) AS pending, min(n.added_at) AS "oldestAt"
      FROM webhook_lanes l JOIN webhook_notices n USING (lane_key) GROUP BY l.hook
    ) b LEFT JOIN LATERAL (
      SELECT failures, reason FROM webhook_lanes
      WHERE hook = b.hook AND failures > 0 ORDER BY failures DESC LIMIT 1
    ) w ON true
    ORDER BY b.hook`,
};
const DROP = { name: "drop_notices", text: "SELECT drop_notices($1, $2, $3, $4, $5) AS count" };
const DISABLE = {
  name: "disable_hook",
  text: `
    INSERT INTO webhooks_disabled (hook, receiver, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING hook`,
};
const ENABLE = { name: "enable_hook", text: "DELETE FROM webhooks_disabled WHERE hook = $1 RETURNING hook" };
const DISABLED = { name: "disabled_hooks", text: "SELECT hook, receiver, at FROM webhooks_disabled" };

/** The outbox of webhooks. A lane that another statement changes is left for the next one. */
export const noticeQueries = (db: Database): NoticeStore => ({
  claimNotices: ({ hook, receiver, claim, now, until, limit }) =>
    db.query<ClaimedNotice>(CLAIM, [hook, claim, now, until, limit, receiver]),

  async settleNotice({ laneKey, claim, id }, now, failed) {
    const { dueAt = null, failures = null, reason = null } = failed ?? {};
    await db.query(SETTLE, [laneKey, claim, id, now, dueAt, failures, reason]);
  },

  async countNotices() {
    const rows = await db.query<NoticeBacklog & { reason: string | null }>(BACKLOGS);
    return rows.map(({ reason, ...row }) => ({ ...row, ...(reason !== null && { reason }) }));
  },

  async dropNotices({ hook, before, keep, now, limit }) {
    return (await db.query<{ count: number }>(DROP, [hook, before, limit, now, keep]))[0]!.count;
  },

  disableHook: async ({ hook, receiver, at }) => (await db.query(DISABLE, [hook, receiver, at])).length > 0,
  enableHook: async (hook) => (await db.query(ENABLE, [hook])).length > 0,
  disabledHooks: () => db.query<DisabledHook>(DISABLED),
});
