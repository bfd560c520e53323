import { readdir, readFile } from "node:fs/promises";

/** A step forward of a database's shape; there is no way back but a backup. */
export interface Migration {
  /** 1, 2, 3 …: the version the database has afterwards. */
  version: number;
  name: string;
  sql: string;
}

/** What carries migrations out, one per kind of database. */
export interface MigrationTarget {
  /** Which database it is, as a person would find it. */
  readonly name: string;
  /** 0 for a new one. */
  version(): Promise<number>;
  /** The whole step and its version in one transaction, or nothing of it. */
  apply(migration: Migration): Promise<void>;
}

const FILE = /^(\d{4})_[a-z0-9_]+\.sql$/;

/** The migrations of a dialect: beside `src` when run from source, inside `dist` when built. */
export function migrationsFolder(dialect: "sqlite" | "postgres"): URL {
  const isSource = import.meta.url.endsWith(".ts");
  return new URL(`${isSource ? "../../" : "../"}migrations/${dialect}/`, import.meta.url);
}

/**
 * The migrations in a folder, in their order: `0001_name.sql`, `0002_…`. Other files are left alone.
 * @throws Error when a number is missing or there twice
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
 * Bring a database to this program's newest version.
 * @throws Error when the database is newer than the program, or a step fails; steps before that one stay
 */
export async function migrate(target: MigrationTarget, migrations: readonly Migration[]): Promise<void> {
  const current = await target.version();
  if (current > migrations.length) {
    throw new Error(
      `${target.name} has version ${current}, newer than the ${migrations.length} this program knows: ` +
        "run a newer Interlock, or restore a backup made before the upgrade",
    );
  }
  for (const migration of migrations.slice(current)) {
    try {
      await target.apply(migration);
    } catch (cause) {
      throw new Error(`${target.name} could not be migrated by ${migration.name}: ${String(cause)}`, { cause });
    }
  }
}
