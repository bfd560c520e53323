import type { Client, CustomTypesConfig, Pool, PoolConfig } from "pg";
import { isNoDatabase, isRefusedUser, isServerAnswer, plainError, reasonOf } from "./postgres-fault.ts";

/** How long a node that starts waits for the server, in ms. */
const CONNECT_MS = 5_000;

/** The number of PostgreSQL's type of 64 bits. */
const INT8 = 20;

/** Where a store lies. The URL, and with it the password, stays in here. */
export interface PostgresAddress {
  /** What people are told: the database, its server and the setting that names it. */
  readonly name: string;
  /**
   * A connection of its own.
   * @throws Error with a sentence for the operator
   */
  connect(): Promise<Client>;
  makePool(config: PoolConfig): Pool;
}

/** @throws Error with a sentence when it is no address */
export async function readAddress(url: string): Promise<PostgresAddress> {
  // The driver is loaded by whoever has such a store, and by nobody else.
  const { default: pg } = await import("pg");
  // Times, keys and places are all below 2^53.
  const getTypeParser = (oid: number, format?: "text" | "binary") =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as "text");
  const types = { getTypeParser } as unknown as CustomTypesConfig;
  const common = { connectionString: url, types, keepAlive: true, application_name: "interlock" };
  const makeClient = () => new pg.Client({ ...common, connectionTimeoutMillis: CONNECT_MS });

  let parsed: Client;
  try {
    parsed = makeClient();
  } catch {
    // Without its cause, which may quote the URL.
    throw new Error("INTERLOCK_STORE is not an address as in postgres://user:password@host:5432/database");
  }
  const server = parsed.host.startsWith("/") ? parsed.host : `${parsed.host}:${parsed.port}`;
  const name = `the database "${parsed.database}" at ${server} (INTERLOCK_STORE)`;

  /** Why it cannot be connected to, and what to look at. */
  function sentenceOf(error: unknown): string {
    const reason = reasonOf(error);
    if (isRefusedUser(error)) {
      const what = "check the user and the password of INTERLOCK_STORE";
      return `PostgreSQL at ${server} does not let the user "${parsed.user}" in: ${reason}; ${what}`;
    }
    if (isNoDatabase(error)) {
      return `there is no database "${parsed.database}" at ${server}: create it, or name another in INTERLOCK_STORE`;
    }
    if (isServerAnswer(error)) return `${name} takes no connection: ${reason}`;
    return `there is no connection to PostgreSQL at ${server} (INTERLOCK_STORE): ${reason}`;
  }

  return {
    name,
    async connect() {
      const client = makeClient();
      // Lost while it is in use, it says so to whoever uses it; without a listener the process would end.
      client.on("error", () => {});
      try {
        await client.connect();
      } catch (error) {
        // The driver may leave it open, and the server would wait a minute for a password that nobody has.
        client.end().catch(() => {});
        throw new Error(sentenceOf(error), { cause: plainError(error) });
      }
      return client;
    },
    makePool: (config) => new pg.Pool({ ...config, ...common }),
  };
}
