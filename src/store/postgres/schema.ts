import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { Client } from "pg";
import type { Logger } from "../../shared/ports/logger.ts";
import { withColumns } from "../columns.ts";
import { type Meta, newMeta } from "../meta.ts";
import {
  bareSql,
  listMigrations,
  type Migration,
  type MigrationTarget,
  migrate,
  migrationsFolder,
} from "../migrate.ts";
import {
  type FoundStore,
  GIVE_EPOCH,
  IDENTITY,
  LOST_ADVICE,
  type LostCommits,
  PROMOTED_ADVICE,
  USE_TIMELINE,
} from "./connections/store-identity.ts";
import { isLockTimeout, plainError } from "./sql-state.ts";

/** The oldest supported server, as `server_version_num`. */
const OLDEST_SERVER = 140_000;
/** The advisory lock by which nodes that start together migrate one after the other. Any number unique to Interlock. */
const LOCK = 0x464c6f72;
/** How long a node waits for that lock, and a migration for its tables, in ms. */
const LOCK_WAIT_MS = 60_000;

interface ServerFacts {
  version: number;
  versionText: string;
  encoding: string;
  commits: string;
}

export interface PrepareOptions {
  /** The database's name in error messages. */
  name: string;
  now: number;
  lostCommits: LostCommits;
  log: Logger;
}

/**
 * Create a store in a database, or migrate it to the newest version. Nodes that do so at once wait for each other.
 * @throws Error with a sentence if the database cannot be a store, is newer than this program, or lacks commits or may
 *   lack some
 */
export async function prepareDatabase(client: Client, { name, now, lostCommits, log }: PrepareOptions): Promise<Meta> {
  // A database or a role may limit statements by itself, and a migration of much data takes long.
  await client.query(`SET search_path = interlock; SET lock_timeout = ${LOCK_WAIT_MS}; SET statement_timeout = 0`);
  await checkServer(client, name, log);
  await lockMigrations(client, name);
  const folder = migrationsFolder("postgres");
  await migrate(new PostgresTarget(client, name), await listMigrations(folder));
  await putFunctions(client, await readFunctions(new URL("functions/", folder)));
  const { epoch, secret } = newMeta();
  await client.query("INSERT INTO meta (id, epoch, secret, created_at) VALUES (1, $1, $2, $3) ON CONFLICT DO NOTHING", [
    epoch,
    secret,
    now,
  ]);
  const read = async () => (await client.query<Meta & FoundStore & { isPromoted: boolean }>(IDENTITY)).rows[0]!;
  let found = await read();
  if (found.lost === found.epoch || found.isPromoted) {
    if (lostCommits === "stop") {
      throw new Error(`${name} cannot be used: ${found.lost === found.epoch ? LOST_ADVICE : PROMOTED_ADVICE}`);
    }
    await client.query(GIVE_EPOCH, [found.epoch, newMeta().epoch]);
    found = await read();
  }
  await client.query(USE_TIMELINE, [found.epoch]);
  return found;
}

/** The lock is released with the connection, however that ends. */
async function lockMigrations(client: Client, name: string): Promise<void> {
  try {
    await client.query("SELECT pg_advisory_lock($1)", [LOCK]);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    throw new Error(`another node has been migrating ${name} for ${LOCK_WAIT_MS / 1_000} s and has not finished`);
  }
}

async function checkServer(client: Client, name: string, log: Logger): Promise<void> {
  const { rows } = await client.query<ServerFacts>(`
    SELECT current_setting('server_version_num')::integer AS version, current_setting('server_version') AS "versionText",
      current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS commits`);
  const { version, versionText, encoding, commits } = rows[0]!;
  if (version < OLDEST_SERVER) {
    throw new Error(`${name} is on PostgreSQL ${versionText}; at least ${OLDEST_SERVER / 10_000} is needed`);
  }
  if (encoding !== "UTF8") {
    throw new Error(`${name} keeps text as ${encoding}; create one with ENCODING 'UTF8' for Interlock`);
  }
  if (commits === "off") {
    log.warn({ database: name }, "synchronous_commit is off: a crash of the server may lose acknowledged commits");
  }
}

interface FunctionFile {
  name: string;
  sql: string;
  digest: string;
}

async function readFunctions(folder: URL): Promise<FunctionFile[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".sql")).sort();
  return await Promise.all(
    names.map(async (name) => {
      const sql = withColumns(await readFile(new URL(name, folder), "utf8"));
      return { name, sql, digest: digestOf(sql) };
    }),
  );
}

const digestOf = (sql: string): string => createHash("sha256").update(sql).digest("hex");

/** Apply the functions whose files changed since they were last applied, all in one transaction. */
async function putFunctions(client: Client, files: readonly FunctionFile[]): Promise<void> {
  const { rows } = await client.query<{ name: string; digest: string }>("SELECT name, digest FROM functions");
  const applied = new Map(rows.map(({ name, digest }) => [name, digest]));
  const changed = files.filter(({ name, digest }) => applied.get(name) !== digest);
  if (changed.length === 0) return;
  await client.query("BEGIN");
  try {
    for (const { name, sql, digest } of changed) {
      await client.query(sql);
      await client.query(
        "INSERT INTO functions VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET digest = excluded.digest",
        [name, digest],
      );
    }
    await client.query("COMMIT");
  } catch (error) {
    // If the connection is lost, there is nothing to roll back.
    await client.query("ROLLBACK").catch(() => {});
    throw plainError(error);
  }
}

class PostgresTarget implements MigrationTarget {
  readonly name: string;
  readonly #client: Client;

  constructor(client: Client, name: string) {
    this.#client = client;
    this.name = name;
  }

  async version(): Promise<number> {
    const { rows } = await this.#client.query<{ isOurs: boolean; isEmpty: boolean }>(`
      SELECT to_regclass('interlock.migrations') IS NOT NULL AS "isOurs",
        NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('interlock')) AS "isEmpty"`);
    const { isOurs, isEmpty } = rows[0]!;
    if (isOurs) {
      const applied = await this.#client.query<{ version: number }>(
        "SELECT coalesce(max(version), 0) AS version FROM migrations",
      );
      return applied.rows[0]!.version;
    }
    if (!isEmpty) throw new Error(`${this.name} has a schema "interlock", but not one of Interlock's`);
    return 0;
  }

  async differenceFrom(applied: readonly Migration[]): Promise<string | undefined> {
    // As JSON: a table of an older checkout has no such column.
    const { rows } = await this.#client.query<{ version: number; digest: string | null }>(
      "SELECT version, to_jsonb(migrations) ->> 'digest' AS digest FROM migrations",
    );
    const digests = new Map(rows.map(({ version, digest }) => [version, digest]));
    return applied.find(({ version, sql }) => digests.get(version) !== digestOf(bareSql(sql)))?.name;
  }

  async apply({ version, name, sql }: Migration): Promise<void> {
    await this.#client.query("BEGIN");
    try {
      await this.#client.query(sql);
      await this.#client.query("INSERT INTO migrations (version, name, digest) VALUES ($1, $2, $3)", [
        version,
        name,
        digestOf(bareSql(sql)),
      ]);
      await this.#client.query("COMMIT");
    } catch (error) {
      // If the connection is lost, there is nothing to roll back.
      await this.#client.query("ROLLBACK").catch(() => {});
      throw plainError(error);
    }
  }
}
