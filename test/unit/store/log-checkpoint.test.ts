import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { checkpointPages, LogCheckpoint } from "../../../src/store/sqlite/log-checkpoint.ts";

test.each([
  ["a large disk", 100 * 1_024 ** 3, 4_000],
  ["a small disk", 8 * 1_024 ** 2, 256],
  ["a full disk", 0, 100],
])("on %s with %i bytes free the log is copied after %i pages", (_, free, pages) => {
  expect(checkpointPages(free)).toBe(pages);
});

/** A database that says whether its log could be emptied, and a clock that the test moves. */
function makeCheckpoint() {
  const db = new DatabaseSync(":memory:");
  onTestFinished(() => db.close());
  let now = 0;
  const copies: string[] = [];
  const found = { busy: 1 };
  db.prepare = ((sql: string) => ({ get: () => copies.push(sql) && found })) as unknown as typeof db.prepare;
  const checkpoint = new LogCheckpoint(db, () => now);
  const pass = (ms: number) => {
    now += ms;
  };
  return { checkpoint, copies, found, pass };
}

const sqliteError = (errcode: number) => Object.assign(new Error(), { code: "ERR_SQLITE_ERROR", errcode });
const FULL = sqliteError(13);
const CONSTRAINT = sqliteError(19);

test("the log is copied only when a write found no room", () => {
  const { checkpoint, copies, found } = makeCheckpoint();
  found.busy = 0;
  expect(checkpoint.makeRoomAfter(CONSTRAINT)).toBe(false);
  expect(copies).toEqual([]);
  expect(checkpoint.makeRoomAfter(FULL)).toBe(true);
  expect(copies).toEqual(["PRAGMA wal_checkpoint(TRUNCATE)"]);
});

test("a copy that found no room is not repeated for a second, and one that made room is", () => {
  const { checkpoint, copies, found, pass } = makeCheckpoint();
  expect(checkpoint.makeRoomAfter(FULL)).toBe(false);
  pass(999);
  found.busy = 0;
  expect(checkpoint.makeRoomAfter(FULL)).toBe(false);
  expect(copies.length).toBe(1);
  pass(1);
  expect(checkpoint.makeRoomAfter(FULL)).toBe(true);
  expect(checkpoint.makeRoomAfter(FULL)).toBe(true);
  expect(copies.length).toBe(3);
});
