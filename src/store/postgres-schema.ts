import type { Client } from "pg";
import type { Logger } from "../protocol/logger.ts";
import { type Meta, newMeta } from "./meta.ts";
import { listMigrations, type Migration, type MigrationTarget, migrate, migrationsFolder } from "./migrate.ts";
import { isLockTimeout, plainError } from "./postgres-fault.ts";

/** The oldest server that is still looked after by its makers, as `server_version_num` says it. */
const OLDEST_SERVER = 140_000;
/** Nodes that start together take turns by this lock of the database; any number that is ours alone. */
const LOCK = 0x464c6f72;
/** How long a node waits for its turn, and a migration for its tables, in ms. */
const TURN_MS = 60_000;

interface ServerFacts {
  version: number;
  versionText: string;
  encoding: string;
  commits: string;
}

/**
 * Make a database an up-to-date store: new, or migrated. However many nodes do so at once, it is done once.
 * @param name what the database is called where it cannot be used
 * @throws Error with a sentence when it cannot be one, or is newer than this program
 */
export async function prepareDatabase(client: Client, name: string, now: number, log: Logger): Promise<Meta> {
  await client.query(`SET search_path = interlock; SET lock_timeout = ${TURN_MS}`);
  await checkServer(client, name, log);
  await takeTurn(client, name);
  await migrate(new PostgresTarget(client, name), await listMigrations(migrationsFolder("postgres")));
  const { epoch, secret } = newMeta();
  await client.query(
    "INSERT INTO meta (id, epoch, secret, created_at, format) VALUES (1, $1, $2, $3, 1) ON CONFLICT DO NOTHING",
    [epoch, secret, now],
  );
  const { rows } = await client.query<Meta>("SELECT epoch, secret FROM meta");
  return rows[0]!;
}

/** What is taken is gone with the connection, however that ends. */
async function takeTurn(client: Client, name: string): Promise<void> {
  try {
    await client.query("SELECT pg_advisory_lock($1)", [LOCK]);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    throw new Error(`${name} has been migrated by another node for ${TURN_MS / 1_000} s, and still is`);
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
    log.warn({ database: name }, "synchronous_commit is off: what was acknowledged may be lost with the server");
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

  async apply({ version, name, sql }: Migration): Promise<void> {
    await this.#client.query("BEGIN");
    try {
      await this.#client.query(sql);
      await this.#client.query("INSERT INTO migrations (version, name) VALUES ($1, $2)", [version, name]);
      await this.#client.query("COMMIT");
    } catch (error) {
      // When the connection is lost, there is nothing left to take back.
      await this.#client.query("ROLLBACK").catch(() => {});
      throw plainError(error);
    }
  }
}
