import type { DatabaseSync } from "node:sqlite";

/**
 * Which floors a user has: its own with their zones, and those of single sessions that it owned, which the sessions'
 * tombstones still name.
 */
const FLOORS = `
  SELECT floor_key FROM floors WHERE id = ?2 OR (id >= ?2 || '/' AND id < ?2 || '0')
  UNION SELECT f.floor_key FROM tombstones t JOIN floors f USING (floor_key)
    WHERE t.owner_id = ?1 AND f.id >= 's:' AND f.id < 's;'`;
/** In this order: later statements need the rows that earlier ones leave. */
const ERASURES = [
  `DELETE FROM blobs WHERE session_id IN
    (SELECT session_id FROM tombstones WHERE owner_id = ?1 OR floor_key IN (SELECT floor_key FROM forgotten))`,
  `DELETE FROM event_blobs WHERE event_key IN (SELECT e.event_key FROM forgotten f JOIN events e
    ON e.event_key BETWEEN f.floor_key << 32 AND f.floor_key << 32 | 0xffffffff)`,
  `DELETE FROM events WHERE event_key IN (SELECT e.event_key FROM forgotten f JOIN events e
    ON e.event_key BETWEEN f.floor_key << 32 AND f.floor_key << 32 | 0xffffffff)`,
  `DELETE FROM decision_blocks WHERE block IN (SELECT b.block FROM forgotten f JOIN decision_blocks b
    ON b.block BETWEEN f.floor_key << 27 AND f.floor_key << 27 | 0x7ffffff)`,
  "DELETE FROM effects WHERE floor_key IN (SELECT floor_key FROM forgotten)",
  "DELETE FROM webhook_lanes WHERE floor_key IN (SELECT floor_key FROM forgotten)",
  "DELETE FROM receipts WHERE caller = 'owner:' || ?1 OR floor_key IN (SELECT floor_key FROM forgotten)",
  "DELETE FROM usage WHERE owner_id = ?1",
  "DELETE FROM budgets WHERE owner_id = ?1",
  "DELETE FROM tombstones WHERE owner_id = ?1 OR floor_key IN (SELECT floor_key FROM forgotten)",
  "DELETE FROM connections WHERE ?1 IN (binding ->> 'userId', binding ->> 'ownerId')",
  "UPDATE floors SET low_water = head WHERE floor_key IN (SELECT floor_key FROM forgotten)",
];
/** Without merging, the index keeps the words of deleted rows in its older parts. */
const MERGES = ["session_words", "message_words"].map((table) => `INSERT INTO ${table} (${table}) VALUES ('optimize')`);

/**
 * Delete all rows about a user whose sessions are deleted, inside the open transaction. It is rare, so its statements
 * are not kept.
 * @param floorId the user's floor without a zone
 * @returns false if the user has sessions; nothing is deleted then
 */
export function eraseUser(db: DatabaseSync, { userId, floorId }: { userId: string; floorId: string }): boolean {
  if (db.prepare("SELECT 1 FROM sessions WHERE user_id = ?1 OR owner_id = ?1").get(userId)) return false;
  db.exec("CREATE TEMP TABLE forgotten (floor_key INTEGER PRIMARY KEY)");
  db.prepare(`INSERT INTO forgotten ${FLOORS}`).run(userId, floorId);
  for (const sql of ERASURES) {
    const statement = db.prepare(sql);
    if (sql.includes("?1")) statement.run(userId);
    else statement.run();
  }
  db.exec("DROP TABLE forgotten");
  for (const sql of MERGES) db.exec(sql);
  return true;
}

/**
 * Write the whole database anew, without free pages and what was on them, and empty the write-ahead log.
 * @returns false if that failed, for example because the disk has no room for a second database
 */
export function clearFreePages(db: DatabaseSync): boolean {
  try {
    db.exec("VACUUM");
    return db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()!["busy"] === 0;
  } catch {
    return false;
  }
}
