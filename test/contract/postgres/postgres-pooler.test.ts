import { expect, test } from "vitest";
import type { SessionId } from "../../../src/protocol/ids.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { startPgBouncer } from "../../support/servers/pgbouncer.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";

describeWith([POSTGRES, "pgbouncer"], "a PostgreSQL store behind PgBouncer", (start, pgbouncer) => {
  const server = serverOf(start);

  test("a pooler in transaction mode is refused at the start, with the remedy", async () => {
    const url = await startPgBouncer(pgbouncer, await makeDatabase(server()), "transaction");
    await expect(openPostgresStore({ url, clock: new StandingClock(), log: new KeptLog() })).rejects.toThrow(
      /^a pooler in front of the database "\w+" at 127\.0\.0\.1:\d+ \(INTERLOCK_STORE\) moves clients between connections: use its session mode, or connect to the server$/,
    );
  });

  test("nodes behind a pooler in session mode share a store", async () => {
    const url = await startPgBouncer(pgbouncer, await makeDatabase(server()), "session");
    const [one, other] = [await openNode(url, { connections: 2 }), await openNode(url, { connections: 2 })];
    const floor = new FloorWriter(one);
    await floor.write({ sessions: [floor.session("a")] });
    expect((await other.loadSession("a" as SessionId))?.session).toEqual(floor.session("a"));
  });
});
