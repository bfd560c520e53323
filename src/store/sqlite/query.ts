import type { DatabaseSync, SQLInputValue } from "node:sqlite";

/** A prepared statement that reads rows of the shape `Row`. */
export interface Query<Row> {
  /** The first row; undefined if there is none. */
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  /** Reads one row at a time. */
  iterate(...values: SQLInputValue[]): Iterable<Row>;
}

/** Prepare a statement. The caller declares the shape of its rows, because SQLite's driver does not know it. */
export function prepareQuery<Row>(db: DatabaseSync, sql: string): Query<Row> {
  return db.prepare(sql) as unknown as Query<Row>;
}

/** The same, with all integers as `bigint`, because some of them exceed the range of exact numbers. */
export function prepareBigQuery<Row>(db: DatabaseSync, sql: string): Query<Row> {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  return statement as unknown as Query<Row>;
}
