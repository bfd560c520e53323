import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { changeRows } from "../../../src/store/postgres/floor-commit.ts";
import type { Store } from "../../../src/store/store.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";

const folder = join(import.meta.dirname, "../../../migrations/postgres/functions");
const sqlOf = (name: string) => readFileSync(join(folder, `${name}.sql`), "utf8").replaceAll(/--.*$/gm, "");

/** The names that a function declares for the fields of its JSON. */
function declared(sql: string, alias: string): string[] {
  const [, list] = sql.match(new RegExp(`AS ${alias} \\(([^)]*)\\)`))!;
  return list!.split(",").map((each) => each.trim().split(" ")[0]!);
}

const floor = new FloorWriter({} as Store, "u:ann");
const change = changeRows(floor.change({ sessions: [floor.session("talk")] }), new Map());

test("a commit on PostgreSQL writes every column of a session, of a new one and of a known one", () => {
  const sql = sqlOf("write_sessions");
  const columns = Object.keys(change.sessions![0]!);
  expect(columns.length).toBeGreaterThan(15);
  expect(declared(sql, "s").sort()).toEqual(columns.sort());
  const [known, added] = sql.slice(sql.indexOf("LOOP")).split(/^ *ELSE$/m);
  for (const part of [known!, added!]) {
    expect(columns.filter((column) => !new RegExp(`\\bput\\.${column}\\b`).test(part))).toEqual([]);
  }
});

test("a commit on PostgreSQL uses every field of a change, and updates every column with which it adds a floor", () => {
  const sql = sqlOf("commit_floor");
  const fields = Object.keys(change);
  expect(declared(sql, "c").sort()).toEqual(fields.sort());
  const body = sql.slice(sql.indexOf("BEGIN"));
  expect(fields.filter((field) => !new RegExp(`\\bnew\\.${field}\\b`).test(body))).toEqual([]);
  const [, added] = body.match(/INSERT INTO floors \(([^)]*)\)/)!;
  const [, updated] = body.match(/UPDATE floors SET([^;]*?)WHERE/)!;
  const fixed = ["id", "floor_hash"];
  const columns = added!.split(",").map((each) => each.trim());
  expect(columns.length).toBeGreaterThan(7);
  const isUpdated = (column: string) => new RegExp(`\\b${column} = new\\.`).test(updated!);
  expect(columns.filter((column) => !fixed.includes(column) && !isUpdated(column))).toEqual([]);
});
