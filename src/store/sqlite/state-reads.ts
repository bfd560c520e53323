import type { FloorId } from "../../protocol/ids.ts";
import { withColumns } from "../columns.ts";
import { ANSWER_BYTES, readPage, rowsWithin, weightOfBody, weightOfMessage } from "../row-page.ts";
import { type DraftRow, draftPageOf } from "../rows.ts";
import type { DefinitionRow, DraftPage, NewReceipt, Receipt, ReceiptKey } from "../store.ts";
import type { ReadConnection } from "./read-connection.ts";

/** Reads the rows that hosts, workers and gateways continue from. */
export function stateReads(db: ReadConnection) {
  const sql = statementsOf(db);
  return {
    confirm: (id: FloorId, version: number): Promise<boolean> =>
      db.read(() => (sql.version.get(id)?.version ?? 0) === version),

    loadDrafts: (id: FloorId, after = 0): Promise<DraftPage> =>
      db.readWeighed(() => {
        const rows = sql.drafts.iterate(id, after);
        const { page, hasMore } = readPage(rows, Number.POSITIVE_INFINITY, db.weighed(weightOfMessage));
        return draftPageOf(page, hasMore);
      }),

    findReceipts: (keys: readonly ReceiptKey[]): Promise<Receipt[]> =>
      db.readSnapshot(() =>
        keys.flatMap(({ caller, commandId }) => {
          const row = sql.receipt.get(caller, commandId);
          return row ? [{ ...row }] : [];
        }),
      ),

    newestReceipts: (since: number, limit: number) =>
      db.read(() => sql.newestReceipts.all(since, limit).map((row) => ({ ...row }))),

    lateRings: (until: number, aheadMs: number, limit: number): Promise<FloorId[]> =>
      db.read(() => sql.lateRings.all(until, aheadMs, limit).map(({ id }) => id)),

    newestTime: (): Promise<number> => db.read(() => sql.newestTime.get()!.at),

    listDefinitions: (after = ""): Promise<DefinitionRow[]> =>
      db.readWeighed(() => {
        const rows = sql.definitions.iterate(after);
        return rowsWithin(rows, ANSWER_BYTES, db.weighed(weightOfBody)).map((row) => ({ ...row }));
      }),
  };
}

function statementsOf(db: ReadConnection) {
  const message = "s.id AS sessionId, m.id, m.status, m.details, m.content";
  return {
    version: db.prepare<{ version: number }>("SELECT version FROM floors WHERE id = ?"),
    drafts: db.prepare<DraftRow>(`
      SELECT ${message}, m.message_key AS key
      FROM floors f JOIN messages m ON m.floor_key = f.floor_key JOIN sessions s USING (session_key)
      WHERE f.id = ? AND m.status = 'running' AND m.message_key > ? ORDER BY m.message_key`),
    definitions: db.prepare<DefinitionRow>("SELECT id, version, body FROM agent_definitions WHERE id > ? ORDER BY id"),
    receipt: db.prepare<Receipt>(
      withColumns(`
      SELECT f.id AS floorId, {{receipts: r.$name AS $field}}
      FROM receipts r JOIN floors f USING (floor_key) WHERE r.caller = ? AND r.command_id = ?`),
    ),
    newestReceipts: db.prepare<NewReceipt>(`
      SELECT caller, commandId, floorId, at, reply FROM (
        SELECT caller, command_id AS commandId, floors.id AS floorId, at, reply
        FROM receipts JOIN floors USING (floor_key) ORDER BY receipt_key DESC LIMIT ?2) WHERE at >= ?1`),
    lateRings: db.prepare<{ id: FloorId }>(
      "SELECT id FROM floors WHERE rings_at <= ?1 AND alarm > rings_at - ?2 + 5 ORDER BY rings_at LIMIT ?3",
    ),
    newestTime: db.prepare<{ at: number }>(`
      SELECT max(
        coalesce((SELECT max(last_activity_at) FROM sessions), 0),
        coalesce((SELECT at FROM receipts ORDER BY receipt_key DESC LIMIT 1), 0),
        coalesce((SELECT max(deleted_at) FROM tombstones), 0)) AS at`),
  };
}
