import type { ClaimedNotice, NoticeStore } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";
import type { WriterThread } from "./writer/writer-thread.ts";

/** The outbox of webhooks. This process alone claims and drops notices, so it may read what it is about to write. */
export function noticeOutbox(db: ReadConnection, thread: WriterThread): NoticeStore {
  const sql = {
    isDue: db.prepare<{ due: 1 }>("SELECT 1 AS due FROM webhook_lanes WHERE hook = ? AND due_at <= ? LIMIT 1"),
    claimed: db.prepare<ClaimedNotice>(`
      SELECT l.lane_key AS laneKey, l.claim, l.subject, l.failures, n.id, n.added_at AS at, n.payload
      FROM webhook_lanes l JOIN webhook_notices n
        ON n.notice_key = (SELECT min(notice_key) FROM webhook_notices WHERE lane_key = l.lane_key)
      WHERE l.claim = ?`),
    backlogs: db.prepare<{ hook: string; pending: number; oldestAt: number }>(`
      SELECT l.hook, count(*) AS pending, min(n.added_at) AS oldestAt
      FROM webhook_lanes l JOIN webhook_notices n USING (lane_key) GROUP BY l.hook ORDER BY l.hook`),
    worst: db.prepare<{ failures: number; reason: string }>(`
      SELECT failures, reason FROM webhook_lanes
      WHERE hook = ? AND failures > 0 ORDER BY failures DESC LIMIT 1`),
    oldest: db.prepare<{ key: number }>(`
      SELECT n.notice_key AS key FROM webhook_lanes l JOIN webhook_notices n USING (lane_key)
      WHERE l.hook = ? AND n.added_at < ? ORDER BY n.notice_key LIMIT ?`),
  };
  return {
    async claimNotices({ hook, claim, now, until, limit }) {
      if ((await db.read(() => sql.isDue.get(hook, now))) === undefined) return [];
      await thread.add({ kind: "claim", hook, claim, now, until, limit });
      return await db.read(() => sql.claimed.all(claim).map((row) => ({ ...row })));
    },

    async settleNotice(claimed, now, failed) {
      await thread.add({ kind: "settle", claimed: { ...claimed, payload: "" }, now, failed });
    },

    countNotices: () =>
      db.readSnapshot(() =>
        sql.backlogs.all().map((row) => ({ ...row, ...(sql.worst.get(row.hook) ?? { failures: 0 }) })),
      ),

    async dropNotices({ hook, before, now, limit }) {
      const keys = await db.read(() => sql.oldest.all(hook, before, limit));
      if (keys.length > 0) await thread.add({ kind: "drop", hook, upTo: keys.at(-1)!.key, now });
      return keys.length;
    },
  };
}
