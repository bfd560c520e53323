import type { ClaimedNotice, DisabledHook, NoticeBacklog, NoticeStore } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";
import type { WriterThread } from "./writer/writer-thread.ts";

/** What counting a notice reads of the indexes, in bytes. */
const COUNTED_BYTES = 100;

/** The outbox of webhooks. This process alone claims and drops notices, so it may read what it is about to write. */
export function noticeOutbox(db: ReadConnection, thread: WriterThread): NoticeStore {
  const sql = {
    isDue: db.prepare<{ due: 1 }>(`
      SELECT 1 AS due FROM webhook_lanes WHERE hook = ?1 AND due_at <= ?2
        AND NOT EXISTS (SELECT 1 FROM webhooks_disabled WHERE hook = ?1 AND receiver = ?3) LIMIT 1`),
    claimed: db.prepare<ClaimedNotice>(`
      SELECT l.lane_key AS laneKey, l.claim, l.subject, l.failures, n.id, n.added_at AS at, n.payload
      FROM webhook_lanes l JOIN webhook_notices n
        ON n.notice_key = (SELECT min(notice_key) FROM webhook_notices WHERE lane_key = l.lane_key)
      WHERE l.claim = ?`),
    nextHook: db.prepare<{ hook: string | null }>("SELECT min(hook) AS hook FROM webhook_lanes WHERE hook > ?"),
    backlog: db.prepare<{ pending: number; oldestAt: number | null }>(`
      SELECT count(*) AS pending, min(n.added_at) AS oldestAt
      FROM webhook_lanes l JOIN webhook_notices n USING (lane_key) WHERE l.hook = ?`),
    worst: db.prepare<{ failures: number; reason: string }>(`
      SELECT failures, reason FROM webhook_lanes
      WHERE hook = ? AND failures > 0 ORDER BY failures DESC LIMIT 1`),
    oldest: db.prepare<{ key: number }>(`
      SELECT n.notice_key AS key FROM webhook_lanes l JOIN webhook_notices n USING (lane_key)
      WHERE l.hook = ? AND n.added_at < ? ORDER BY n.notice_key LIMIT ?`),
    disabled: db.prepare<DisabledHook>("SELECT hook, receiver, at FROM webhooks_disabled"),
  };
  const weigh = db.weighed<{ pending: number }>(({ pending }) => pending * COUNTED_BYTES);
  const countNext = (after: string): Promise<NoticeBacklog | undefined> =>
    db.readWeighed(() => {
      const hook = sql.nextHook.get(after)?.hook ?? undefined;
      if (hook === undefined) return undefined;
      const { pending, oldestAt } = sql.backlog.get(hook)!;
      weigh({ pending });
      return { hook, pending, oldestAt: oldestAt ?? 0, ...(sql.worst.get(hook) ?? { failures: 0 }) };
    });
  return {
    async claimNotices({ hook, receiver, claim, now, until, limit }) {
      if ((await db.read(() => sql.isDue.get(hook, now, receiver))) === undefined) return [];
      await thread.add({ kind: "claim", hook, claim, now, until, limit });
      return await db.read(() => sql.claimed.all(claim).map((row) => ({ ...row })));
    },

    async settleNotice(claimed, now, failed) {
      await thread.add({ kind: "settle", claimed: { ...claimed, payload: "" }, now, failed });
    },

    async countNotices() {
      const backlogs: NoticeBacklog[] = [];
      for (let next = await countNext(""); next; next = await countNext(next.hook)) {
        if (next.pending > 0) backlogs.push(next);
      }
      return backlogs;
    },

    async dropNotices({ hook, before, keep, now, limit }) {
      const keys = await db.read(() => {
        const surplus = keep > 0 ? sql.backlog.get(hook)!.pending - keep : limit;
        return surplus > 0 ? sql.oldest.all(hook, before, Math.min(limit, surplus)) : [];
      });
      if (keys.length > 0) await thread.add({ kind: "drop", hook, upTo: keys.at(-1)!.key, now });
      return keys.length;
    },

    disableHook: async (disabled) => (await thread.add({ kind: "disable", disabled })) === "done",
    enableHook: async (hook) => (await thread.add({ kind: "enable", hook })) === "done",
    disabledHooks: () => db.read(() => sql.disabled.all().map((row) => ({ ...row }))),
  };
}
