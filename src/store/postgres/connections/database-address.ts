import type { Client, CustomTypesConfig, Pool, PoolConfig } from "pg";
import { Unreachable } from "../../../shared/unreachable.ts";
import { isNoDatabase, isPassing, isRefusedUser, isServerAnswer, plainError, reasonOf } from "../sql-state.ts";
import { applicationName, type NodeLabel } from "./node-label.ts";

/** How long a starting node waits for the server, in ms. */
const CONNECT_MS = 5_000;

/** The type number of PostgreSQL's 64-bit integers. */
const INT8 = 20;

/** The address of a store. The URL, which holds the password, stays private. */
export interface PostgresAddress {
  /** The name in messages: the database, its server and the setting that names it. */
  readonly name: string;
  /**
   * Open a separate connection.
   * @throws Error with a sentence for the operator; Unreachable if the server does not answer or is starting
   */
  connect(): Promise<Client>;
  makePool(config: PoolConfig): Pool;
}

/** @throws Error with a sentence if the URL is invalid */
export async function readAddress(url: string, node?: NodeLabel): Promise<PostgresAddress> {
  // Only nodes with a PostgreSQL store load the driver.
  const { default: pg } = await import("pg");
  // Times, keys and numbers of events are all below 2^53.
  const getTypeParser = (oid: number, format?: "text" | "binary") =>
    oid === INT8 ? Number : pg.types.getTypeParser(oid, format as "text");
  const types = { getTypeParser } as unknown as CustomTypesConfig;
  const common = { connectionString: url, types, keepAlive: true, application_name: applicationName(node) };
  const makeClient = () => new pg.Client({ ...common, connectionTimeoutMillis: CONNECT_MS });

  let parsed: Client;
  try {
    parsed = makeClient();
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (path !== undefined) throw new Error(`INTERLOCK_STORE: the file ${path} cannot be read (${code})`);
    // Without the cause, which may quote the URL.
    throw new Error("INTERLOCK_STORE must be an address such as postgres://user:password@host:5432/database");
  }
  const server = parsed.host.startsWith("/") ? parsed.host : `${parsed.host}:${parsed.port}`;
  const name = `the database "${parsed.database}" at ${server} (INTERLOCK_STORE)`;

  /** Why the connection fails, and what to check. */
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
      // The user of the connection handles its loss. Without a listener the event would end the process.
      client.on("error", () => {});
      try {
        await client.connect();
      } catch (error) {
        // The driver may leave it open, and the server would wait a minute for a password.
        client.end().catch(() => {});
        const Failure = isPassing(error) ? Unreachable : Error;
        throw new Failure(sentenceOf(error), { cause: plainError(error) });
      }
      return client;
    },
    makePool: (config) => new pg.Pool({ ...config, ...common }),
  };
}
