import type { DatabaseSync, StatementSync } from "node:sqlite";
import { valuesOf, withColumns } from "../../columns.ts";
import { receiptRowOf } from "../../rows.ts";
import type { StoredDefinitionChange } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";

/** The floor of receipts that belong to no floor. */
const NO_FLOOR = 0;

/** Writes definitions of agents, with the receipts of the writes. */
export class DefinitionWriter {
  readonly #find: Query<{ version: number }>;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #addReceipt: StatementSync;
  readonly #count: StatementSync;

  constructor(db: DatabaseSync) {
    this.#find = prepareQuery(db, "SELECT version FROM agent_definitions WHERE id = ?");
    this.#put = db.prepare(`
      INSERT INTO agent_definitions (id, version, body) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body`);
    this.#remove = db.prepare("DELETE FROM agent_definitions WHERE id = ?");
    this.#addReceipt = db.prepare(
      withColumns(`
      INSERT INTO receipts (floor_key, {{receipts: $name}}) VALUES (${NO_FLOOR}, {{receipts: ?}})
      ON CONFLICT DO NOTHING`),
    );
    this.#count = db.prepare("UPDATE meta SET definitions_version = definitions_version + 1 WHERE id = 1");
  }

  write({ id, expected, body, receipt }: StoredDefinitionChange): "done" | "conflict" {
    const version = this.#find.get(id)?.version ?? 0;
    if (version !== expected) return "conflict";
    if (this.#addReceipt.run(...valuesOf("receipts", receiptRowOf(receipt))).changes === 0) return "conflict";
    if (body === undefined) this.#remove.run(id);
    else this.#put.run(id, expected + 1, body);
    this.#count.run();
    return "done";
  }
}
