import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";

/** The lock by which nodes that start take turns. */
const TURN = 0x464c6f72;
const ROUNDS = 20;

describeWith([POSTGRES], "a PostgreSQL database with settings of its own", (start) => {
  const server = serverOf(start);

  async function makeWith(setting: string): Promise<string> {
    const url = await makeDatabase(server());
    await askDatabase(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET ${setting}`);
    return url;
  }

  test("commits to different floors do not fail each other where transactions are serializable by default", async () => {
    const url = await makeWith("default_transaction_isolation = 'serializable'");
    const stores = [await openNode(url), await openNode(url)];
    const floors = Array.from({ length: 16 }, (_, n) => new FloorWriter(stores[n % 2]!, `u:${n}`));
    for (let round = 0; round < ROUNDS; round++) {
      const writing = floors.map((floor, n) => floor.write({ sessions: [floor.session(`s${n}-${round}`)] }));
      const outcomes = await Promise.allSettled(writing);
      expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
    }
  });

  test("a starting node waits for its turn for longer than statements may take by default", async () => {
    const url = await makeWith("statement_timeout = '200ms'");
    const other = new pg.Client(url);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query(`SET statement_timeout = 0; SELECT pg_advisory_lock(${TURN})`);
    const opening = openNode(url);
    // Seen if it fails before it is awaited below.
    opening.catch(() => {});
    const waiting = `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
    await expect.poll(async () => (await other.query(waiting)).rowCount).toBe(1);
    await other.query(`SELECT pg_sleep(0.5); SELECT pg_advisory_unlock(${TURN})`);
    expect(await new FloorWriter(await opening).write()).toBe("committed");
  });
});
