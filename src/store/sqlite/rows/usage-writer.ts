// Rule C35 of docs/inside/correctness.md.
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { valuesOf, withColumns } from "../../columns.ts";
import { usageRowOf } from "../../rows.ts";
import type { BudgetCount, OverBudget, UsageCount, UsageLimits } from "../../store.ts";
import { prepareQuery, type Query } from "../query.ts";

/** The key of what belongs to no floor: rows that are summed over all floors have it. */
const SUMMED = 0;

/** Writes what turns use, and counts it towards budgets, inside the open transaction. */
export class UsageWriter {
  readonly #addUsage: StatementSync;
  readonly #remove: StatementSync;
  readonly #old: Query<UsageCount & { floorKey: number }>;
  readonly #removeRow: StatementSync;
  readonly #removeWindows: StatementSync;
  readonly #count: Query<{ used: number; freeAt: number }>;

  constructor(db: DatabaseSync) {
    this.#addUsage = db.prepare(
      withColumns(`
      INSERT INTO usage (floor_key, {{usage_keys: $name}}, {{usage: $name}})
      VALUES (?, {{usage_keys: ?}}, {{usage: ?}})
      ON CONFLICT DO UPDATE SET {{usage: $name = $name + excluded.$name}}`),
    );
    this.#remove = db.prepare(`
      DELETE FROM usage WHERE (floor_key, day, owner_id, agent_id) IN
        (SELECT floor_key, day, owner_id, agent_id FROM usage WHERE day < ? LIMIT ?)`);
    this.#old = prepareQuery(
      db,
      withColumns(`
      SELECT floor_key AS floorKey, {{usage_keys: $name AS $field}}, {{usage: $name}}
      FROM usage WHERE day < ? AND floor_key <> 0 LIMIT ?`),
    );
    this.#removeRow = db.prepare("DELETE FROM usage WHERE floor_key = ? AND day = ? AND owner_id = ? AND agent_id = ?");
    this.#removeWindows = db.prepare(`
      DELETE FROM budgets WHERE scope IN (SELECT scope FROM budgets WHERE ends_at <= ? ORDER BY ends_at LIMIT ?)`);
    // A window that ends later than one that began now was begun by a clock that was ahead.
    this.#count = prepareQuery(
      db,
      `
      INSERT INTO budgets AS b (scope, owner_id, ends_at, used) VALUES (?1, ?2, ?3 + ?4, ?5)
      ON CONFLICT DO UPDATE SET
        used = CASE WHEN b.ends_at <= ?3 THEN 0 ELSE b.used END + ?5,
        ends_at = CASE WHEN b.ends_at <= ?3 THEN ?3 + ?4 ELSE min(b.ends_at, ?3 + ?4) END
      RETURNING used, ends_at AS freeAt`,
    );
  }

  add(floorKey: number, usage: readonly UsageCount[]): void {
    for (const row of usage.map(usageRowOf)) {
      this.#addUsage.run(floorKey, ...valuesOf("usage_keys", row), ...valuesOf("usage", row));
    }
  }

  /** @returns the largest number of rows of a kind that were deleted */
  prune({ day, sumDay, time }: UsageLimits, limit: number): number {
    const deleted = Number(this.#remove.run(day, limit).changes);
    const old = this.#old.all(sumDay, limit);
    for (const { floorKey, ...usage } of old) {
      this.#removeRow.run(floorKey, usage.day, usage.ownerId, usage.agentId);
      this.add(SUMMED, [usage]);
    }
    return Math.max(deleted, old.length, Number(this.#removeWindows.run(time, limit).changes));
  }

  /** @returns the counts that are above their `max`: the caller undoes all of them then */
  count(counts: readonly BudgetCount[]): OverBudget | undefined {
    const over = counts.flatMap(({ scope, ownerId, time, withinMs, add, max }) => {
      const { used, freeAt } = this.#count.get(scope, ownerId ?? null, time, withinMs, add)!;
      if (max === undefined || used <= max) return [];
      return [{ scope, room: Math.max(0, max - (used - add)), freeAt }];
    });
    return over.length > 0 ? { over } : undefined;
  }
}
