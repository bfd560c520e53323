import { AppError } from "../../protocol/errors.ts";
import type { AgentId, FloorId } from "../../protocol/ids.ts";
import { withColumns } from "../columns.ts";
import { ANSWER_BYTES } from "../row-page.ts";
import { type DraftRow, draftPageOf } from "../rows.ts";
import type { DefinitionRow, DraftPage, NewReceipt, Receipt, ReceiptKey } from "../store.ts";
import type { Database } from "./connections/connection-pool.ts";
import type { FoundStore } from "./connections/store-identity.ts";
import { MESSAGE_WEIGHT, weighed } from "./view-statements.ts";

/** Always one row. */
const VERSION = {
  name: "version",
  text: `
    SELECT (SELECT version FROM floors WHERE id = $1) AS version,
      current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
};
const DRAFTS = {
  name: "drafts",
  text: `
    SELECT s.id AS "sessionId", m.id, m.status, m.details, m.content, m.message_key AS key, m.found
    FROM (
      SELECT m.*, ${weighed(MESSAGE_WEIGHT, "m.message_key")}
      FROM floors f JOIN messages m USING (floor_key)
      WHERE f.id = $1 AND m.status = 'running' AND m.message_key > $2
    ) m JOIN sessions s USING (session_key)
    WHERE m.before < ${ANSWER_BYTES} ORDER BY m.message_key`,
};
const RECEIPTS = {
  name: "receipts",
  text: withColumns(`
    SELECT f.id AS "floorId", {{receipts: r.$name AS "$field"}}
    FROM unnest($1::text[], $2::text[]) AS key (caller, command_id)
    JOIN receipts r ON r.caller = key.caller AND r.command_id = key.command_id JOIN floors f USING (floor_key)`),
};
const NEWEST_RECEIPTS = {
  name: "newest_receipts",
  text: `
    SELECT r.caller, r.command_id AS "commandId", f.id AS "floorId", r.at, r.reply
    FROM receipts r JOIN floors f USING (floor_key) WHERE r.at >= $1 ORDER BY r.at DESC LIMIT $2`,
};
const NEWEST_TIME = {
  name: "newest_time",
  text: `
    SELECT greatest(0,
      (SELECT max(last_activity_at) FROM sessions),
      (SELECT max(at) FROM receipts),
      (SELECT max(deleted_at) FROM tombstones)) AS at`,
};
const NOW = {
  name: "now",
  text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, epoch, lost FROM meta",
};
/** $1: the id before the first. */
const DEFINITIONS = {
  name: "definitions",
  text: `
    SELECT id, version, body FROM (
      SELECT d.*, ${weighed("octet_length(d.body)", 'd.id COLLATE "C"')}
      FROM agent_definitions d WHERE d.id COLLATE "C" > $1
    ) d WHERE before < ${ANSWER_BYTES} ORDER BY id COLLATE "C"`,
};
/**
 * Reads the rows that hosts, workers and gateways continue from. Each method is one statement, and thus one snapshot.
 */
export const stateQueries = (db: Database) => ({
  async confirm(id: FloorId, version: number): Promise<boolean> {
    const [row] = await db.query<{ version: number | null; isReadOnly: boolean }>(VERSION, [id]);
    // Another server may have newer commits (rule C1). New connections to such a server are refused.
    if (row!.isReadOnly) throw new AppError("unavailable", "the server of this connection has stopped taking writes");
    return (row!.version ?? 0) === version;
  },

  async loadDrafts(id: FloorId, after = 0): Promise<DraftPage> {
    const rows = await db.query<DraftRow & { found: number }>(DRAFTS, [id, after]);
    return draftPageOf(rows, rows.length > 0 && rows[0]!.found > rows.length);
  },

  async findReceipts(keys: readonly ReceiptKey[]): Promise<Receipt[]> {
    const callers = keys.map(({ caller }) => caller);
    return await db.query<Receipt>(RECEIPTS, [callers, keys.map(({ commandId }) => commandId)]);
  },

  async newestReceipts(since: number, limit: number): Promise<NewReceipt[]> {
    return await db.query(NEWEST_RECEIPTS, [since, limit]);
  },

  async newestTime(): Promise<number> {
    return (await db.query<{ at: number }>(NEWEST_TIME))[0]!.at;
  },

  /** The server's time, in ms since 1970, and what it says of its store. */
  async now(): Promise<{ now: number } & FoundStore> {
    return (await db.query<{ now: number } & FoundStore>(NOW))[0]!;
  },

  async listDefinitions(after?: AgentId): Promise<DefinitionRow[]> {
    return await db.query<DefinitionRow>(DEFINITIONS, [after ?? ""]);
  },
});
