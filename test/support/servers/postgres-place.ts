import pg from "pg";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import {
  openPostgresStore,
  type PostgresOptions,
  type PostgresStore,
} from "../../../src/store/postgres/postgres-store.ts";
import { KeptLog, StandingClock } from "../stores/sqlite-place.ts";
import type { PostgresServer } from "./postgres-server.ts";

/** To set a server up, or to end with one, on a machine that has much else to do. */
const PATIENCE_MS = 60_000;

/** The server of a suite, from its first test to its last. */
export function serverOf(start: () => Promise<PostgresServer>): () => PostgresServer {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    server = await start();
  }, PATIENCE_MS);
  afterAll(async () => {
    await server?.stop();
  }, PATIENCE_MS);
  return () => server!;
}

/** The URL of an empty database that is of no use to anybody after the test. */
export async function makeDatabase(server: PostgresServer): Promise<string> {
  const { url, drop } = await server.makeDatabase();
  // To drop one takes a while, and is not worth it where the server is about to go.
  if (!server.isOurs) onTestFinished(drop, PATIENCE_MS);
  return url;
}

/** A node's store on a database; closed when the test ends, if not before. */
export async function openNode(url: string, over: Partial<PostgresOptions> = {}): Promise<PostgresStore> {
  const store = await openPostgresStore({ url, clock: new StandingClock(), log: new KeptLog(), ...over });
  onTestFinished(() => store.close(), PATIENCE_MS);
  return store;
}

/** Ask the database past the store. */
export async function askDatabase(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query(sql);
    return rows;
  } finally {
    await client.end();
  }
}
