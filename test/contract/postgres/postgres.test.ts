import { describe, expect, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";

describeWith([POSTGRES], "a PostgreSQL store", (start) => {
  const server = serverOf(start);
  const empty = () => makeDatabase(server());

  /** The server's URL with a change. */
  function altered(
    url: string,
    over: { password?: string; username?: string; pathname?: string; port?: string },
  ): string {
    return Object.assign(new URL(url), over).href;
  }

  describe("opening", () => {
    test("eight nodes that start at once on an empty database create the store once", async () => {
      const url = await empty();
      const stores = await Promise.all(Array.from({ length: 8 }, () => openNode(url, { connections: 2 })));
      expect(new Set(stores.map(({ epoch, secret }) => `${epoch} ${secret}`)).size).toBe(1);
      const applied = await askDatabase(url, "SELECT version FROM interlock.migrations ORDER BY version");
      expect(applied).toEqual(applied.map((_, index) => ({ version: index + 1 })));
      expect(applied.length).toBeGreaterThan(0);
    });

    test("every node reads what another node wrote", async () => {
      const url = await empty();
      const [one, other] = [await openNode(url), await openNode(url)];
      const floor = new FloorWriter(one);
      await floor.write({ sessions: [floor.session("a")] });
      expect(await other.confirm(floor.id, 1)).toBe(true);
      expect((await other.loadSession("a" as SessionId))?.session).toEqual(floor.session("a"));
    });

    test("a node that shares a store without a bus warns, and names the others, whichever of them has none", async () => {
      const url = await empty();
      const found: object[] = [];
      const log = Object.assign(new KeptLog(), { warn: (facts: object) => void found.push(facts) });
      const openAs = async (name: string, bus: "memory" | "redis") => {
        const store = await openNode(url, { log, node: { name, bus } });
        await store.confirm("u:a" as FloorId, 0);
      };
      await openAs("front:1", "redis");
      await openAs("front:2", "redis");
      expect(found).toEqual([]);
      await openAs("lone:3", "memory");
      await openAs("front:4", "redis");
      expect(found).toEqual([
        { bus: "memory", others: ["front:1 (redis)", "front:2 (redis)"] },
        { bus: "redis", others: ["lone:3 (memory)"] },
      ]);
    });

    test("the database's functions are applied again if their files have changed", async () => {
      const url = await empty();
      await (await openNode(url)).close();
      const bodyOf = async () => {
        const [row] = await askDatabase(url, "SELECT prosrc FROM pg_proc WHERE proname = 'commit_floors'");
        return (row as { prosrc: string }).prosrc;
      };
      const shipped = await bodyOf();
      const other =
        "CREATE OR REPLACE FUNCTION interlock.commit_floors(changes json) RETURNS boolean[] LANGUAGE sql AS 'SELECT NULL::boolean[]'";
      await askDatabase(url, other);
      await (await openNode(url)).close();
      // The files were applied already, so nothing is done.
      expect(await bodyOf()).toBe("SELECT NULL::boolean[]");
      await askDatabase(url, "UPDATE interlock.functions SET digest = 'older' WHERE name = 'commit_floors.sql'");
      await (await openNode(url)).close();
      expect(await bodyOf()).toBe(shipped);
    });

    test("a database newer than the program is refused, and stays unchanged", async () => {
      const url = await empty();
      await (await openNode(url)).close();
      await askDatabase(url, "INSERT INTO interlock.migrations (version, name) VALUES (99, 'later')");
      const refusal =
        /the database "interlock_\w+" .* has version 99, newer than the \d+ this program knows: run a newer/;
      await expect(openNode(url)).rejects.toThrow(refusal);
      const [row] = await askDatabase(url, "SELECT count(*)::integer AS count FROM interlock.migrations");
      expect(row).toEqual({ count: expect.any(Number) });
    });

    test("a foreign schema of that name is refused; an empty one is used, and other tables are unchanged", async () => {
      const url = await empty();
      await askDatabase(url, "CREATE SCHEMA interlock; CREATE TABLE interlock.songs (); CREATE TABLE sessions (n int)");
      await expect(openNode(url)).rejects.toThrow('has a schema "interlock", but not one of Interlock\'s');
      await askDatabase(url, "DROP TABLE interlock.songs");
      const store = await openNode(url);
      expect((await store.listSessions({ page: 0, pageSize: 1, includeArchived: true })).total).toBe(0);
      expect(await askDatabase(url, "SELECT * FROM public.sessions")).toEqual([]);
    });

    test("a failed migration is rolled back completely, and the error names it", async () => {
      const url = await empty();
      await askDatabase(
        url,
        `CREATE ROLE tenant_${process.pid} LOGIN PASSWORD 'hush';
         REVOKE CREATE ON DATABASE ${new URL(url).pathname.slice(1)} FROM PUBLIC`,
      );
      const poor = altered(url, { username: `tenant_${process.pid}`, password: "hush" });
      await expect(openNode(poor)).rejects.toThrow(/could not be migrated by 0001_initial\.sql: .*permission denied/);
      await openNode(url);
      await askDatabase(url, `DROP ROLE tenant_${process.pid}`);
    });

    test("a refused login is reported with the setting's name and without the password", async () => {
      const url = await empty();
      const { hostname, port } = new URL(url);
      const nobody = String(await freePort());
      const refusals = [
        [
          altered(url, { password: "opensesame" }),
          /let the user "postgres" in: password .*the password of INTERLOCK_STORE/,
        ],
        [altered(url, { username: "mallory" }), /let the user "mallory" in/],
        [altered(url, { password: "" }), /let the user "postgres" in: SASL/],
        [altered(url, { pathname: "/nowhere" }), `there is no database "nowhere" at ${hostname}:${port}: create it`],
        [
          altered(url, { port: nobody }),
          `there is no connection to PostgreSQL at ${hostname}:${nobody} (INTERLOCK_STORE)`,
        ],
        ["postgres://ann:opensesame@[/x", "INTERLOCK_STORE must be an address such as postgres://"],
      ] as const;
      const secrets = ["opensesame", decodeURIComponent(new URL(url).password)];
      for (const [address, sentence] of refusals) {
        const error = await openPostgresStore({ url: address, clock: new StandingClock(), log: new KeptLog() }).then(
          () => expect.unreachable(),
          (reason: Error) => reason,
        );
        expect(error.message).toMatch(sentence);
        const errorText = JSON.stringify([error.message, error.stack, error.cause, String(error.cause)]);
        for (const secret of secrets) expect(errorText).not.toContain(secret);
      }
    });

    test("a database whose encoding cannot store every text is refused", async () => {
      const url = await empty();
      const name = `${new URL(url).pathname.slice(1)}_latin`;
      await askDatabase(
        url,
        `CREATE DATABASE ${name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
      );
      await expect(openNode(altered(url, { pathname: `/${name}` }))).rejects.toThrow("keeps text as LATIN1");
      await askDatabase(url, `DROP DATABASE ${name}`);
    });

    test("a server that accepts no writes is not read from either", async () => {
      const url = await empty();
      const log = new KeptLog();
      const store = await openNode(url, { log });
      await askDatabase(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`);
      await expect(store.confirm(new FloorWriter(store).id, 0)).rejects.toMatchObject({ code: "unavailable" });
      await expect(new FloorWriter(store).write()).rejects.toMatchObject({ code: "unavailable" });
      expect(log.lines).toEqual(["the database does not answer statements"]);
    });
  });

  test("a database that may lose acknowledged commits causes a warning", async () => {
    const url = await empty();
    const log = new KeptLog();
    await askDatabase(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`);
    await openNode(url, { log });
    expect(log.lines).toEqual([expect.stringContaining("synchronous_commit is off")]);
  });

  test("nodes follow the server's time: each computes its own offset", async () => {
    const url = await empty();
    const clock = new StandingClock();
    const store = await openNode(url, { clock });
    const [row] = await askDatabase(url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float AS now");
    const offset = await store.timeOffset();
    // The clock stands still, so its offset is the distance to noon.
    expect(clock.time + offset).toBeGreaterThanOrEqual(Math.floor(row!["now"] as number));
    clock.time += 60_000;
    expect(await store.timeOffset()).toBeLessThan(offset);
  });

  test("characters that PostgreSQL's text cannot hold are replaced before they are written, and nothing fails", async () => {
    const store = await openNode(await empty());
    const floor = new FloorWriter(store);
    const message = makeMessage("a", "m", { content: "one\0two \ud800 three", errorMessage: "\udc00\0" });
    const event = floor.event("message", message, { session: "a" });
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }], events: [event] });
    const stored = await store.findMessage("a" as SessionId, message.id);
    expect(stored?.content).toBe("one\uFFFDtwo \uFFFD three");
    expect((await store.readFloorLog(floor.id, 0, 1)).entries).toEqual([event]);
  });

  test("a change that names a missing row is refused as its own fault, and the message contains no data", async () => {
    const store = await openNode(await empty());
    const floor = new FloorWriter(store);
    const message = makeMessage("nobody", "m", { content: "a secret" });
    const failure = await floor.write({ messages: [{ kind: "add", message }] }).then(
      () => expect.unreachable(),
      (error: Error) => error,
    );
    expect(failure.message).toBe("there is no session nobody on this floor (P0002)");
    expect(failure).not.toHaveProperty("code", "unavailable");
    expect(JSON.stringify([failure, failure.stack])).not.toContain("a secret");
  });
});
