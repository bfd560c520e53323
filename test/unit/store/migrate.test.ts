import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { listMigrations, type Migration, type MigrationTarget, migrate } from "../../../src/store/migrate.ts";

/** A database that only stores its version. */
class FakeTarget implements MigrationTarget {
  readonly name = "data/test.db";
  readonly applied: string[] = [];
  readonly broken: string | undefined;
  #version: number;

  constructor(version: number, broken?: string) {
    this.#version = version;
    this.broken = broken;
  }

  async version(): Promise<number> {
    return this.#version;
  }

  async differenceFrom(applied: readonly Migration[]): Promise<string | undefined> {
    return applied.find(({ sql }) => sql !== "")?.name;
  }

  async apply({ version, name }: Migration): Promise<void> {
    if (name === this.broken) throw new Error("no such column");
    this.applied.push(name);
    this.#version = version;
  }
}

const THREE = [1, 2, 3].map((version) => ({ version, name: `000${version}_x.sql`, sql: "" }));

async function folderOf(...names: string[]): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of names) await writeFile(join(folder, name), `-- ${name}`);
  return pathToFileURL(`${folder}/`);
}

test("migrations are applied in order, from the database's version", async () => {
  const [fresh, old, current] = [new FakeTarget(0), new FakeTarget(1), new FakeTarget(3)];
  for (const target of [fresh, old, current]) await migrate(target, THREE);
  expect(fresh.applied).toEqual(["0001_x.sql", "0002_x.sql", "0003_x.sql"]);
  expect(old.applied).toEqual(["0002_x.sql", "0003_x.sql"]);
  expect(current.applied).toEqual([]);
});

test("a newer database is refused with what to do", async () => {
  const target = new FakeTarget(4);
  await expect(migrate(target, THREE)).rejects.toThrow(
    "data/test.db has version 4, newer than the 3 this program knows: " +
      "run a newer Interlock, or restore a backup made before the upgrade",
  );
  expect(target.applied).toEqual([]);
});

test("a database that other steps have made is refused with what to do", async () => {
  const target = new FakeTarget(2);
  const [first, , third] = THREE;
  const other = { version: 2, name: "0002_x.sql", sql: "CREATE TABLE other (a)" };
  await expect(migrate(target, [first!, other, third!])).rejects.toThrow(
    "data/test.db was made by another checkout of Interlock: 0002_x.sql differs here. Run the checkout that made it, " +
      "or name a new store; nothing in it was changed",
  );
  expect(target.applied).toEqual([]);
});

test("a failing migration is named, and ends the migration", async () => {
  const target = new FakeTarget(0, "0002_x.sql");
  await expect(migrate(target, THREE)).rejects.toThrow("data/test.db could not be migrated by 0002_x.sql");
  expect(target.applied).toEqual(["0001_x.sql"]);
});

test("migrations are listed by their number, and other files are ignored", async () => {
  const folder = await folderOf("0002_more.sql", "0001_initial.sql", "README.md", "1_no.sql");
  const expected = ["0001_initial.sql", "0002_more.sql"].map((name, n) => ({
    version: n + 1,
    name,
    sql: `-- ${name}`,
  }));
  expect(await listMigrations(folder)).toEqual(expected);
});

test.each([[["0001_a.sql", "0003_c.sql"]], [["0001_a.sql", "0001_b.sql"]], [["0002_b.sql"]]])(
  "%j are not a sequence, and are refused",
  async (names) => {
    await expect(listMigrations(await folderOf(...names))).rejects.toThrow(/has no migration \d/);
  },
);
