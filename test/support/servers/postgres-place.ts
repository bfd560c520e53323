import { onTestFinished } from "vitest";
import {
  openPostgresStore,
  type PostgresOptions,
  type PostgresStore,
} from "../../../src/store/postgres/postgres-store.ts";
import { KeptLog, StandingClock } from "../stores/sqlite-place.ts";
import type { PostgresServer } from "./postgres-server.ts";

/** The URL of an empty database that is dropped after the test. */
export async function makeDatabase(server: PostgresServer): Promise<string> {
  const { url, drop } = await server.makeDatabase();
  // Not dropped if the server is about to stop, because dropping is slow.
  if (!server.isOurs) onTestFinished(drop);
  return url;
}

/** A node's store on a database; closed when the test ends at the latest. */
export async function openNode(url: string, over: Partial<PostgresOptions> = {}): Promise<PostgresStore> {
  const store = await openPostgresStore({ url, clock: new StandingClock(), log: new KeptLog(), ...over });
  onTestFinished(() => store.close());
  return store;
}
