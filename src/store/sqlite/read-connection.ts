import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { AppError } from "../../protocol/errors.ts";
import { LoopBudget } from "../../shared/loop-budget.ts";
import type { Reader, Statement } from "../reads.ts";
import { prepareQuery, type Query } from "./query.ts";
import { isUnreadable } from "./result-code.ts";

/** Bytes of pages that are read in one iteration of the event loop. */
const LOOP_BYTES = 1_048_576;

/** SQL of every store, which is PostgreSQL's, as SQLite takes it: values have no types, and a list of them is JSON. */
const asSqlite = (sql: string): string =>
  sql
    .replaceAll(/\$(\d+)(::\w+(\[\])?)?/g, "?$1")
    .replaceAll(/= ANY \((\?\d+)\)/g, "IN (SELECT value FROM json_each($1))")
    .replaceAll(/<> ALL \((\?\d+)\)/g, "NOT IN (SELECT value FROM json_each($1))")
    .replaceAll("strpos(", "instr(");

/** The connection that reads the database, on the main thread. */
export class ReadConnection implements Reader {
  readonly #db: DatabaseSync;
  readonly #onFailure: (error: Error) => void;
  readonly #budget = new LoopBudget(LOOP_BYTES);
  readonly #prepared = new Map<string, Query<never>>();
  readonly #begin: StatementSync;
  readonly #end: StatementSync;

  /** @param onFailure called with each error of the database or the disk, while the connection is open */
  constructor(db: DatabaseSync, onFailure: (error: Error) => void) {
    this.#db = db;
    this.#onFailure = onFailure;
    this.#begin = db.prepare("BEGIN");
    this.#end = db.prepare("ROLLBACK");
  }

  /** Prepare a statement; each text once. The caller declares the shape of its rows. */
  prepare<Row>(sql: string): Query<Row> {
    let query: Query<Row> | undefined = this.#prepared.get(sql);
    if (!query) {
      query = prepareQuery<Row>(this.#db, asSqlite(sql));
      this.#prepared.set(sql, query as Query<never>);
    }
    return query;
  }

  /** Run a statement of every store. @throws AppError `unavailable` if the database or the disk fails */
  async query<Row>({ text }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const bound = values.map((value) => (Array.isArray(value) ? JSON.stringify(value) : value)) as SQLInputValue[];
    return this.#read(() =>
      this.prepare<Row & object>(text)
        .all(...bound)
        .map((row) => ({ ...row })),
    );
  }

  /**
   * Run one statement.
   * @throws AppError `unavailable` if the database or the disk fails
   */
  async read<T>(read: () => T): Promise<T> {
    return this.#read(read);
  }

  /** The same for several statements, on one snapshot. */
  async readSnapshot<T>(read: () => T): Promise<T> {
    return this.#readSnapshot(read);
  }

  /** The same for rows that are `weighed`, in an iteration of the event loop that has budget left. */
  readWeighed<T>(read: () => T): Promise<T> {
    return this.#budget.read(() => this.#readSnapshot(read));
  }

  /** This weight of a row, in bytes, which counts as read. */
  weighed<Row>(weightOf: (row: Row) => number): (row: Row) => number {
    return (row) => {
      const weight = weightOf(row);
      this.#budget.spend(weight);
      return weight;
    };
  }

  #read<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      if (this.#db.isOpen) this.#onFailure(error as Error);
      throw new AppError("unavailable", undefined, { cause: error });
    }
  }

  #readSnapshot<T>(read: () => T): T {
    return this.#read(() => {
      this.#begin.run();
      try {
        return read();
      } finally {
        this.#end.run();
      }
    });
  }
}
