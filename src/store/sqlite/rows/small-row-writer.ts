import type { DatabaseSync, StatementSync } from "node:sqlite";
import { valuesOf, withColumns } from "../../columns.ts";
import { receiptRowOf } from "../../rows.ts";
import type { Blob, ConnectionRow, Jumps, StoredDefinitionChange } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";

/** The floor of receipts that belong to no floor. */
const NO_FLOOR = 0;

/** Writes rows that no floor's change has: connections, images, definitions of agents, and the clock's jumps. */
export class SmallRowWriter {
  readonly #addConnection: StatementSync;
  readonly #putConnection: StatementSync;
  readonly #putBlob: StatementSync;
  readonly #saveJumps: StatementSync;
  readonly #probe: StatementSync;
  readonly #findDefinition: Query<{ version: number }>;
  readonly #putDefinition: StatementSync;
  readonly #removeDefinition: StatementSync;
  readonly #addReceipt: StatementSync;
  readonly #countChange: StatementSync;

  constructor(db: DatabaseSync) {
    this.#addConnection = db.prepare(`
      INSERT INTO connections (version, expires_at, binding, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`);
    this.#putConnection = db.prepare(`
      UPDATE connections SET version = ?, expires_at = ?, binding = ? WHERE id = ? AND version = ?`);
    // Storing a blob again restarts its grace period.
    this.#putBlob = db.prepare(`
      INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET created_at = max(created_at, excluded.created_at)`);
    this.#saveJumps = db.prepare("UPDATE meta SET jumped_ms = ?, doubt_until = ? WHERE id = 1");
    this.#probe = db.prepare("UPDATE meta SET doubt_until = doubt_until WHERE id = 1");
    this.#findDefinition = prepareQuery(db, "SELECT version FROM agent_definitions WHERE id = ?");
    this.#putDefinition = db.prepare(`
      INSERT INTO agent_definitions (id, version, body) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body`);
    this.#removeDefinition = db.prepare("DELETE FROM agent_definitions WHERE id = ?");
    this.#addReceipt = db.prepare(
      withColumns(`
      INSERT INTO receipts (floor_key, {{receipts: $name}}) VALUES (${NO_FLOOR}, {{receipts: ?}})
      ON CONFLICT DO NOTHING`),
    );
    this.#countChange = db.prepare("UPDATE meta SET definitions_version = definitions_version + 1 WHERE id = 1");
  }

  saveConnection({ id, version, expiresAt, ...binding }: ConnectionRow): "done" | "conflict" {
    const values = [version + 1, expiresAt, JSON.stringify(binding), id];
    const { changes } =
      version === 0 ? this.#addConnection.run(...values) : this.#putConnection.run(...values, version);
    return changes === 1 ? "done" : "conflict";
  }

  saveBlob(sessionId: string, { hash, mimeType, bytes, createdAt }: Blob): void {
    this.#putBlob.run(sessionId, hash, mimeType, createdAt, bytes);
  }

  saveJumps({ jumpedMs, doubtUntil }: Jumps): void {
    this.#saveJumps.run(jumpedMs, doubtUntil);
  }

  /** Write a row as it is. @throws Error if the database takes no writes */
  probe(): void {
    this.#probe.run();
  }

  /** Write a definition of an agent, with the receipt of the write. */
  changeDefinition({ id, expected, body, receipt }: StoredDefinitionChange): "done" | "conflict" {
    const version = this.#findDefinition.get(id)?.version ?? 0;
    if (version !== expected) return "conflict";
    if (this.#addReceipt.run(...valuesOf("receipts", receiptRowOf(receipt))).changes === 0) return "conflict";
    if (body === undefined) this.#removeDefinition.run(id);
    else this.#putDefinition.run(id, expected + 1, body);
    this.#countChange.run();
    return "done";
  }
}
