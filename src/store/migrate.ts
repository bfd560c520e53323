import { readdir, readFile } from "node:fs/promises";

/** One step to a newer schema. Migrations only go forward; a backup is the way back. */
export interface Migration {
  /** The version of the database after this step: 1, 2, 3 … */
  version: number;
  name: string;
  sql: string;
}

/** Applies migrations to one kind of database. */
export interface MigrationTarget {
  /** The database's name in messages to operators. */
  readonly name: string;
  /** The current version; 0 for a new database. */
  version(): Promise<number>;
  /** What of the schema these steps make otherwise than those that were applied; undefined if they are the same. */
  differenceFrom(applied: readonly Migration[]): Promise<string | undefined>;
  /** Apply the step and its version in one transaction. */
  apply(migration: Migration): Promise<void>;
}

const FILE = /^(\d{4})_[a-z0-9_]+\.sql$/;

/** The migrations of a dialect: beside `src`, and beside `dist` in a build. */
export function migrationsFolder(dialect: "sqlite" | "postgres"): URL {
  return new URL(`../../migrations/${dialect}/`, import.meta.url);
}

/**
 * The migrations in a folder, in order: `0001_name.sql`, `0002_…`. Other files are ignored.
 * @throws Error if a number is missing or used twice
 */
export async function listMigrations(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => FILE.test(name)).sort();
  return await Promise.all(
    names.map(async (name, index) => {
      const version = Number(FILE.exec(name)![1]);
      if (version !== index + 1) throw new Error(`${folder.pathname} has no migration ${index + 1}, but ${name}`);
      return { version, name, sql: await readFile(new URL(name, folder), "utf8") };
    }),
  );
}

/**
 * Migrate a database to this program's newest version.
 * @throws Error if the database is newer than the program, or was made by other steps, or a step fails; earlier steps
 *   remain applied
 */
export async function migrate(target: MigrationTarget, migrations: readonly Migration[]): Promise<void> {
  const current = await target.version();
  if (current > migrations.length) {
    throw new Error(
      `${target.name} has version ${current}, newer than the ${migrations.length} this program knows: ` +
        "run a newer Interlock, or restore a backup made before the upgrade",
    );
  }
  const difference = current === 0 ? undefined : await target.differenceFrom(migrations.slice(0, current));
  if (difference !== undefined) throw new Error(otherSchema(target.name, difference));
  for (const migration of migrations.slice(current)) {
    try {
      await target.apply(migration);
    } catch (cause) {
      throw new Error(
        `${target.name} could not be migrated by ${migration.name}: ${cause instanceof Error ? cause.message : String(cause)}`,
        { cause },
      );
    }
  }
}

/** Why a store cannot be used that has the version of this program, and not its schema. */
export const otherSchema = (name: string, difference: string): string =>
  `${name} was made by another checkout of Interlock: ${difference} differs here. ` +
  "Run the checkout that made it, or name a new store; nothing in it was changed";

/** SQL without comments and layout: what remains decides which schema it makes. */
export const bareSql = (sql: string): string =>
  sql
    .replace(/--[^\n]*/g, "")
    .replace(/\s+/g, " ")
    .trim();
