import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { AgentId, MessageId, RunRequestId, SessionId } from "../../../src/protocol/ids.ts";
import {
  type Database,
  poolConfig,
  StatementRefused,
} from "../../../src/store/postgres/connections/connection-pool.ts";
import { StoreIdentity } from "../../../src/store/postgres/connections/store-identity.ts";
import { FloorCommit } from "../../../src/store/postgres/floor-commit.ts";
import { noticeQueries } from "../../../src/store/postgres/notice-queries.ts";
import { pruneQueries } from "../../../src/store/postgres/prune-queries.ts";
import { smallWriter } from "../../../src/store/postgres/small-writer.ts";
import { serverFaultOf } from "../../../src/store/postgres/sql-state.ts";
import { stagedQueries } from "../../../src/store/postgres/staged-queries.ts";
import { stateQueries } from "../../../src/store/postgres/state-queries.ts";
import { viewQueries } from "../../../src/store/postgres/view-queries.ts";
import { commonReads } from "../../../src/store/reads.ts";
import { postgresHits } from "../../../src/store/search-words.ts";
import type { Store } from "../../../src/store/store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, OWN_POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter, makeMessage, NOON } from "../../support/stores/floor-writer.ts";
import { askReads } from "../store/common-reads.ts";
import { RUN_QUERIES } from "../store/store-runs.ts";

/** The number of sessions, each with a message and two events; there are a hundredth as many floors. */
const SESSIONS = 50_000;
/** The number of rows in every other table. */
const OTHERS = 5_000;

const FILL = `
  SET search_path = interlock;
  SET session_replication_role = replica;
  INSERT INTO floors (id, version, head, format, flags, snapshot, alarm, floor_hash)
    SELECT 'u:' || n, 1, 0, 1, '{}', '{}', n, n % 256 FROM generate_series(1, ${SESSIONS / 100}) AS n;
  INSERT INTO sessions (id, floor_key, state, agent_id, user_id, owner_id, workspace_id, last_activity_at, queued_at,
      standing, head, oldest_at, due_at, runs_at, failed_at, view, memory)
    SELECT 's' || n, n % ${SESSIONS / 100} + 1, (ARRAY['created', 'active', 'paused', 'archived'])[n % 4 + 1],
      'a' || n % 5, 'u' || n % 100, 'o' || n % 100, 'w' || n % 100, n, CASE WHEN n % 40 = 0 THEN n END,
      CASE n % 4 WHEN 1 THEN 0 WHEN 2 THEN n END, 2, n, CASE n % 4 WHEN 2 THEN n END,
      CASE WHEN n % 50 = 0 THEN n END, CASE WHEN n % 50 = 1 THEN n END, '{"id":"s' || n || '"}', '{}'
      FROM generate_series(1, ${SESSIONS}) AS n;
  INSERT INTO session_words SELECT session_key, ('''t' || session_key % 1000 || ''':1')::tsvector FROM sessions;
  INSERT INTO messages (session_key, floor_key, id, status, details, content, words)
    SELECT session_key, floor_key, 'm', CASE WHEN session_key % 100 = 0 THEN 'running' ELSE 'success' END, '{}', 'jazz',
      ('''w' || session_key % 1000 || ''':1')::tsvector FROM sessions;
  INSERT INTO message_logs (session_key, message_key, id, stream, text, at)
    SELECT session_key, message_key, '1', 'stdout', '', 1 FROM messages;
  INSERT INTO events (floor_key, floor_seq, session_key, seq, type, at, json)
    SELECT floor_key, 2 * session_key + seq, session_key, seq,
      CASE WHEN session_key % 9 = 0 THEN 'arbitration' ELSE 'data' END, 1, '{}'
      FROM sessions, generate_series(1, 2) AS seq;
  INSERT INTO effects SELECT 'e' || n, n % 256, 1, n, '{}' FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO receipts SELECT 'ann', 'r' || n, 1, '', n, '{}' FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO tombstones SELECT 'g' || n, n % 500 + 1, NULL, n, n, 1, 'data', NULL, 1, '{}'
    FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO webhook_lanes (subject, hook, floor_key, due_at, failures)
    SELECT 's' || n, 'h' || n % 5, n % 500 + 1, n, n % 2 FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO webhook_notices (lane_key, id, added_at, payload)
    SELECT lane_key, 'm' || lane_key, lane_key, '{}' FROM webhook_lanes, generate_series(1, 2) AS n;
  INSERT INTO usage SELECT n % 500 + 1, n / 500, 'o' || n % 50, 'a' || n % 5, 1, 1, 1, 2
    FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO budgets SELECT 'runs ' || n, 'o' || n, n, 1 FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO connections SELECT 'c' || n, 1, n, '{}' FROM generate_series(1, ${OTHERS}) AS n;
  INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes, uses)
    SELECT 's' || n, 'h', 'x', n, '', n % 2 FROM generate_series(1, ${OTHERS}) AS n;`;

/** The allowed plans of a query that must read a whole table. */
const MEANT = [
  // A list without a user or an owner reads all sessions, newest first; counting them reads them all, in the smallest
  // index.
  /^Index Scan using sessions_by_activity on sessions$/,
  /^Index Only Scan using \w+ on sessions$/,
  // Of the sessions, these have runs.
  /^Index Scan using sessions_by_(run|failure) on sessions$/,
  // What waits for webhooks is counted whole; when it is too much, the oldest is dropped.
  /^Index Scan using webhook_notices_pkey on webhook_notices$/,
  /^Index Only Scan using webhook_notices_in_order on webhook_notices$/,
  /^(Seq Scan|Index Scan using \w+) on webhook_(lanes|notices) in SELECT b\.\*/,
  // Those of a file are few.
  /^Seq Scan on webhooks_disabled in SELECT hook/,
  // Every run request is moved.
  /^Seq Scan on effects in UPDATE effects SET due_at = due_at \+ by_ms$/,
];

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Index Cond"?: string;
  "Recheck Cond"?: string;
  Plans?: PlanNode[];
}

/** A connection like those of the pool that records the plan of every statement, including nested ones. */
class PlannedDatabase implements Database {
  readonly #client: pg.Client;
  readonly plans: { query: string; plan: PlanNode }[] = [];

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("notice", ({ message = "" }) => {
      const start = message.indexOf("{");
      if (!message.startsWith("duration:") || start < 0) return;
      const explained = JSON.parse(message.slice(start)) as { "Query Text": string; Plan: PlanNode };
      this.plans.push({ query: explained["Query Text"], plan: explained.Plan });
    });
  }

  static async open(url: string): Promise<PlannedDatabase> {
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`
      LOAD 'auto_explain';
      SET auto_explain.log_min_duration = 0;
      SET auto_explain.log_nested_statements = on;
      SET auto_explain.log_format = json;
      SET auto_explain.log_level = notice;
      SET plan_cache_mode = force_generic_plan`);
    const { rows } = await client.query("SELECT epoch FROM interlock.meta");
    await poolConfig(new StoreIdentity({ epoch: rows[0].epoch, lostCommits: "stop", onNewEpoch() {} })).onConnect!(
      client as never,
    );
    return new PlannedDatabase(client);
  }

  async query<Row>({ name, text }: { name?: string; text: string }, values: readonly unknown[] = []): Promise<Row[]> {
    try {
      const { rows } = await this.#client.query({ ...(name !== undefined && { name }), text, values: [...values] });
      return rows as Row[];
    } catch (error) {
      throw new StatementRefused(serverFaultOf(error) as StatementRefused["fault"], error);
    }
  }

  /** Every scan of one of our tables that reads more rows than were asked for. */
  get wide(): string[] {
    const scans = this.plans.flatMap(({ query, plan }) =>
      [...nodesOf(plan)].filter(isWide).map((node) => `${titleOf(node)} in ${query.trim()}`),
    );
    return [...new Set(scans)].filter(
      (scan) => !MEANT.some((pattern) => pattern.test(scan) || pattern.test(scan.split(" in ")[0]!)),
    );
  }
}

function* nodesOf(node: PlanNode): Generator<PlanNode> {
  yield node;
  for (const child of node.Plans ?? []) yield* nodesOf(child);
}

function titleOf(node: PlanNode): string {
  const { "Node Type": type, "Relation Name": table, "Index Name": index } = node;
  return index === undefined ? `${type} on ${table}` : `${type} using ${index} on ${table}`;
}

function isWide(node: PlanNode): boolean {
  const { "Node Type": type } = node;
  if (type === "Seq Scan") return true;
  return type.startsWith("Index") && node["Index Cond"] === undefined;
}

/** Call every method of a store, on existing rows. */
async function askAll(db: Database, name: string): Promise<void> {
  const changes = new FloorCommit(db);
  const small = smallWriter(db);
  const [state, views] = [stateQueries(db), viewQueries(db)];
  const floor = new FloorWriter({ commit: (change) => changes.commit(change) } as Store, `u:${name}`);
  const [a, m] = [name as SessionId, "m" as MessageId];
  const image = { hash: "a".repeat(64), mimeType: "image/png", bytes: 1 };
  const message = makeMessage(a, m, { status: "running", images: [image] });
  const event = (at: number) => floor.event("arbitration", {}, { session: a, at });
  await small.putBlob(a, { ...image, bytes: new Uint8Array([1]), createdAt: 1 });
  await floor.write({
    sessions: [floor.session(a)],
    messages: [{ kind: "add", message }],
    logs: [{ sessionId: a, messageId: m, line: { id: "1", stream: "stdout", text: "", timestamp: 1 } }],
    events: [event(1), event(2)],
    runRequestsAdded: [{ kind: "run", id: name, floorId: floor.id, dueAt: 1 } as never],
    receipts: [floor.receipt(name)],
    notices: [{ id: name, hook: "h1", subject: a, at: 1, payload: "{}" }],
  });
  const notices = noticeQueries(db);
  const [claimed] = await notices.claimNotices({
    ...{ hook: "h1", receiver: "r", claim: name },
    ...{ now: 9, until: 10, limit: 1 },
  });
  await notices.settleNotice(claimed!, 9, { dueAt: 9, failures: 1, reason: "no" });
  await notices.settleNotice(claimed!, 9);
  await notices.dropNotices({ hook: "h1", before: 9, keep: 0, now: 9, limit: 1 });
  await notices.dropNotices({ hook: "h1", before: 9, keep: 1, now: 9, limit: 1 });
  await notices.countNotices();
  await notices.disableHook({ hook: name, receiver: "r", at: 1 });
  await notices.disabledHooks();
  await notices.enableHook(name);
  await floor.write({
    sessions: [floor.session(a, { title: "Changed", state: "archived", lastActivityAt: 1 })],
    messages: [
      { kind: "append", sessionId: a, id: m, text: "!" },
      { kind: "status", sessionId: a, id: m, status: "error" },
      { kind: "put", message: { ...message, status: "success" } },
    ],
    runRequestsRemoved: [name as RunRequestId],
  });
  const use = { day: 3, ownerId: "o1", agentId: "a1" as AgentId, runs: 1, input: 1, output: 1, tokens: 2 };
  const budget = { scope: "runs 1", ownerId: "o1", withinMs: 10, time: 5, add: 1, max: 9 };
  await floor.write({ usage: [use], budgets: [budget, { ...budget, scope: name }] });
  await changes.commitAll([floor.change()], NOON);

  await askReads(commonReads(db, postgresHits), floor.id, a);
  await state.confirm(floor.id, 1);
  await state.loadDrafts(floor.id);
  await state.findReceipts([{ caller: "ann", commandId: name }]);
  await state.newestReceipts(NOON, 10);
  await state.newestTime();
  await views.whereIs(a);
  await views.viewSession(a, 10);
  await views.viewFloor(floor.id, { sessions: 10, decisions: 10 });
  await views.listMessages(a, { limit: 10 });
  await views.listMessages(a, { after: m, limit: 10 });
  await views.listLogs(a, m, { after: "1", limit: 10 });
  await views.readSessionLog(a, 0, 10);
  await views.readFloorLog(floor.id, 0, 10);
  await views.readFloorLogBack(floor.id, undefined, 10);
  for (const query of RUN_QUERIES) await views.listRuns(query);

  const connection = { id: name as never, slots: [], expiresAt: 1 };
  for (const version of [0, 1]) await small.saveConnection({ ...connection, version });
  await small.saveJumps({ jumpedMs: 1, doubtUntil: 1 });
  await pruneQueries(db).prune({
    now: 10,
    receiptsBefore: 10,
    eventsBefore: 10,
    usage: { day: 1, sumDay: 2, time: 3 },
    limit: 5,
  });
  const staged = stagedQueries(db);
  const [copy, made] = [`c${name}` as SessionId, `~${name}` as const];
  const receipt = { caller: "ops", commandId: name, bodyHash: "b", at: 1, reply: "{}" };
  await small.changeDefinition({ id: name as never, expected: 0, body: "{}", receipt });
  await small.changeDefinition({
    id: name as never,
    expected: 1,
    body: undefined,
    receipt: { ...receipt, commandId: `${name}2` },
  });
  await staged.copyBlob(a, copy, image.hash, 1);
  await staged.stageMessages(made, [makeMessage(copy, m, { images: [image] })], 1);
  await staged.stageMessages(made, [makeMessage(copy, "n")], 2);
  await staged.discardStaged("~nothing");
  await floor.write({ sessions: [floor.session(copy)], staged: [{ sessionId: copy, stagedAs: made }] });
  await staged.stageMessages(`~old-${name}`, [makeMessage(copy, m, { images: [image] })], 1);
  await pruneQueries(db).prune({ now: 10, receiptsBefore: 10, stagedBefore: 10, limit: 5 });
  await floor.write({ messages: [{ kind: "remove", sessionId: a, id: m }] });
  const last = floor.event("session_transition", {}, { session: a });
  await floor.write({ deleted: [{ sessionId: a, last, at: 1 }] });
}

describeWith([OWN_POSTGRES], "plans on PostgreSQL", (start) => {
  const server = serverOf(start);

  test("every statement finds its rows by an index, planned while the store is empty", async () => {
    const url = await makeDatabase(server());
    await openNode(url);
    const db = await PlannedDatabase.open(url);
    await askAll(db, "empty");
    expect(db.plans.length).toBeGreaterThan(80);
    expect(db.wide).toEqual([]);
  });

  test("every query uses an index with fifty thousand sessions, before and after ANALYZE", async () => {
    const url = await makeDatabase(server());
    await openNode(url);
    await askDatabase(url, FILL);
    const uncounted = await PlannedDatabase.open(url);
    await askAll(uncounted, "uncounted");
    expect(uncounted.wide).toEqual([]);
    await askDatabase(url, "ANALYZE");
    const counted = await PlannedDatabase.open(url);
    await askAll(counted, "counted");
    expect(counted.wide).toEqual([]);
  });
});
