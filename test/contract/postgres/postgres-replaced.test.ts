import { expect, test } from "vitest";
import type { FloorId } from "../../../src/protocol/ids.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter } from "../../support/stores/floor-writer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

/** Keeps the reasons of errors, too. */
class ReasonLog extends KeptLog {
  readonly reasons: unknown[] = [];

  override error(facts: { reason?: unknown }, message: string): void {
    this.reasons.push(facts.reason);
    super.error(facts, message);
  }
}

describeWith([POSTGRES], "a PostgreSQL store that was replaced", (start) => {
  const server = serverOf(start);
  const nameOf = (url: string) => new URL(url).pathname.slice(1);
  const ask = (sql: string) => askDatabase(server().url, sql);

  /** The database gets another name when its connections are closed; nodes may try to connect at any moment. */
  async function rename(url: string, to: string): Promise<void> {
    const name = nameOf(url);
    await ask(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await ask(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${name}'`);
    await ask(`ALTER DATABASE ${name} RENAME TO ${to}`);
    await ask(`ALTER DATABASE ${to} ALLOW_CONNECTIONS true`);
  }

  test.each([
    [
      "an empty database",
      undefined,
      "it has no store, but this node opened one: correct its address, or restart the node",
    ],
    ["a restored store with a new epoch", "r1", "it is another store than this node opened (r1): restart the node"],
  ])(
    "while %s is at its address, a node commits nothing and reads nothing; then it continues",
    async (_, epoch, why) => {
      const url = await makeDatabase(server());
      const log = new ReasonLog();
      const store = await openNode(url, { log, connections: 4 });
      const floor = new FloorWriter(store, "u:ann");
      await floor.write();
      await rename(url, `${nameOf(url)}_own`);
      await ask(`CREATE DATABASE ${nameOf(url)} TEMPLATE ${epoch ? `${nameOf(url)}_own` : "template1"}`);
      if (epoch) await askDatabase(url, `UPDATE interlock.meta SET epoch = '${epoch}'`);
      const outcomes = () =>
        Promise.all(
          [floor.write(), store.loadFloor(floor.id), store.confirm("u:none" as FloorId, 0)].map((each) =>
            each.then(
              () => "answered",
              ({ code }) => code,
            ),
          ),
        );
      for (let n = 0; n < 3; n++) expect(await outcomes()).toEqual(Array.from({ length: 3 }, () => "unavailable"));
      expect(store.isReplaced).toBe(true);
      expect(log.reasons).toEqual([expect.stringContaining(why)]);
      await rename(url, `${nameOf(url)}_other`);
      await ask(`ALTER DATABASE ${nameOf(url)}_own RENAME TO ${nameOf(url)}`);
      expect(await floor.write()).toBe("committed");
      expect(store.isReplaced).toBe(false);
    },
  );

  test("a store that gets a new epoch under a node's connections is refused from the next comparison of the time on", async () => {
    const url = await makeDatabase(server());
    const store = await openNode(url);
    const floor = new FloorWriter(store, "u:ann");
    await floor.write();
    await askDatabase(url, "UPDATE interlock.meta SET epoch = 'r2'");
    await expect(store.timeOffset()).rejects.toMatchObject({ code: "unavailable" });
    expect(store.isReplaced).toBe(true);
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await expect(store.loadFloor(floor.id)).rejects.toMatchObject({ code: "unavailable" });
    const [row] = await askDatabase(url, `SELECT version FROM interlock.floors WHERE id = '${floor.id}'`);
    expect(Number(row!["version"])).toBe(floor.version);
  });

  test("a statement whose table is gone is unavailable, and the fault of no request", async () => {
    const url = await makeDatabase(server());
    const store = await openNode(url);
    await askDatabase(url, "DROP SCHEMA interlock CASCADE");
    await expect(store.loadFloor("u:ann" as FloorId)).rejects.toMatchObject({ code: "unavailable" });
    await expect(new FloorWriter(store).write()).rejects.toMatchObject({ code: "unavailable" });
  });
});
