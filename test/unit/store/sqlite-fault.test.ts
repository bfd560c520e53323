import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { fileFaultOf, isUnreadable } from "../../../src/store/sqlite/result-code.ts";

/** SQLite's error for the last of some statements. */
function provoke(...statements: string[]): unknown {
  const db = new DatabaseSync(":memory:");
  onTestFinished(() => db.close());
  db.exec(`
    CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE plays (song_id INTEGER REFERENCES songs) STRICT;
    INSERT INTO songs VALUES (1, 'So What')`);
  try {
    for (const sql of statements) db.exec(sql);
  } catch (error) {
    return error;
  }
  throw new Error("nothing failed");
}

test.each([
  ["a unique key", "taken", ["INSERT INTO songs VALUES (2, 'So What')"]],
  ["a primary key", "taken", ["INSERT INTO songs VALUES (1, 'Blue in Green')"]],
  ["a missing parent", "data", ["INSERT INTO plays VALUES (7)"]],
  ["a missing value", "data", ["INSERT INTO songs VALUES (2, NULL)"]],
  ["a wrong type", "data", ["INSERT INTO songs VALUES ('x', 'Freddie')"]],
  ["a statement it does not understand", "data", ["INSERT INTO nothing VALUES (1)"]],
  ["a value that is too long", "data", ["INSERT INTO songs VALUES (2, zeroblob(2000000000))"]],
  ["a full database", "engine", ["PRAGMA max_page_count = 1", "INSERT INTO songs VALUES (2, printf('%9999d', 1))"]],
  ["a connection that may not write", "engine", ["PRAGMA query_only = 1", "DELETE FROM songs"]],
])("%s is a fault of kind %s", (_, fault, statements) => {
  expect(fileFaultOf(provoke(...statements))).toBe(fault);
});

test("an error of SQLite is distinguished from errors of this program", () => {
  expect(fileFaultOf(new TypeError("undefined is not a function"))).toBe("data");
  expect(isUnreadable(new TypeError("undefined is not a function"))).toBe(false);
  expect(isUnreadable(provoke("SELECT * FROM nothing"))).toBe(true);
  const closed = new DatabaseSync(":memory:");
  closed.close();
  expect(() => closed.exec("SELECT 1")).toThrow(expect.toSatisfy(isUnreadable));
});
