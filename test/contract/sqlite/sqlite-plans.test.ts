import { DatabaseSync, type StatementSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { commonReads } from "../../../src/store/reads.ts";
import { sqliteHits } from "../../../src/store/search-words.ts";
import { prepareFile } from "../../../src/store/sqlite/database-file.ts";
import { FileGuard } from "../../../src/store/sqlite/file-identity.ts";
import { noticeOutbox } from "../../../src/store/sqlite/notice-queries.ts";
import { ReadConnection } from "../../../src/store/sqlite/read-connection.ts";
import { JobWriter } from "../../../src/store/sqlite/rows/job-writer.ts";
import { stateReads } from "../../../src/store/sqlite/state-reads.ts";
import { viewReads } from "../../../src/store/sqlite/view-reads.ts";
import type { WriterThread } from "../../../src/store/sqlite/writer/writer-thread.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";
import { askReads } from "../store/common-reads.ts";
import { RUN_QUERIES } from "../store/store-runs.ts";

/** Scans that the query intends. */
const MEANT = [
  /^SCAN (session_words|message_words) VIRTUAL TABLE/,
  /^SCAN json_each VIRTUAL TABLE/,
  /^SCAN (CONSTANT ROW|hits|\(subquery-\d+\))$/,
  // The number of all sessions of a list, with those of its page.
  /^SCAN (counted|listed LEFT-JOIN)$/,
  // Receipts are stored in the order of their creation: the first few, or the last one, are read from the end.
  /^SCAN receipts$/,
  // A list without a user or an owner reads all sessions, newest first.
  /^SCAN sessions USING (COVERING )?INDEX sessions_by_activity$/,
  // Of the sessions, these have runs.
  /^SCAN sessions USING INDEX sessions_by_(run|failure)$/,
  // Every node keeps all definitions.
  /^SCAN agent_definitions$/,
  // What waits for webhooks is counted whole.
  /^SCAN l USING (COVERING )?INDEX webhook_lanes_due$/,
  // Those of a file are few.
  /^SCAN webhooks_disabled$/,
  // Counting them reads them all, in the smallest index.
  /^SCAN sessions USING COVERING INDEX/,
];

/** Records the prepared statements. */
class WatchedDatabase extends DatabaseSync {
  readonly prepared: string[] = [];

  override prepare(sql: string): StatementSync {
    this.prepared.push(sql);
    return super.prepare(sql);
  }

  plan(sql: string): string[] {
    return super
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all()
      .map(({ detail }) => String(detail));
  }
}

test("every statement finds its rows by an index", async () => {
  const { file, remove } = await makeFolder();
  onTestFinished(remove);
  const opened = { database: undefined, lock: undefined };
  await prepareFile({ file, opened, isDurable: false }, { now: 0, checksPages: true });
  const db = new WatchedDatabase(file);
  onTestFinished(() => db.close());
  new JobWriter(db, new FileGuard(file, opened));
  const reader = new ReadConnection(db, () => {});
  stateReads(reader);
  noticeOutbox(reader, {} as WriterThread);
  const { listRuns } = viewReads(reader);
  await askReads(commonReads(reader, sqliteHits), "u:ann" as FloorId, "s1" as SessionId);
  for (const query of RUN_QUERIES) await listRuns(query);

  const statements = db.prepared.map((sql) => sql.trim()).filter((sql) => !/^(BEGIN|COMMIT|ROLLBACK)/.test(sql));
  expect(statements.length).toBeGreaterThan(60);
  const slow = statements
    // Every run request is moved.
    .filter((sql) => sql !== "UPDATE effects SET due_at = due_at + ?")
    .map((sql) => ({ sql, scans: db.plan(sql).filter((step) => isScan(step) && !isMeant(step)) }))
    .filter(({ scans }) => scans.length > 0);
  expect(slow).toEqual([]);

  const sorting = statements.filter((sql) => {
    const sorts = db.plan(sql).filter((step) => step === "USE TEMP B-TREE FOR ORDER BY");
    // The page of a list of sessions, once it is read.
    return sorts.length > (sql.endsWith("ORDER BY listed.last_activity_at DESC, listed.session_key DESC") ? 1 : 0);
  });
  // The ducked sessions of one floor are few: max_paused bounds them. Notices are dropped when there are too many.
  const isShort = (sql: string) =>
    sql.includes("hits") || sql.includes("standing < 0") || sql.includes("n.notice_key LIMIT");
  expect(sorting.filter((sql) => !isShort(sql))).toEqual([]);
});

/** SQLite builds an index for one execution of a statement by reading the whole table. */
const isScan = (step: string): boolean => step.startsWith("SCAN") || step.includes(" AUTOMATIC ");
const isMeant = (step: string): boolean => MEANT.some((pattern) => pattern.test(step));
