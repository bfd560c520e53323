import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { readPage } from "../../docs/page.ts";
import { deployed } from "../../support/documents/deployment.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { startPgBouncer } from "../../support/servers/pgbouncer.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { askDatabase, POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { expectUpgraded, TO_FIRST_SCHEMA, writeAsFirst } from "../../support/stores/first-schema.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { KeptLog, makeFolder, StandingClock } from "../../support/stores/sqlite-place.ts";

const run = promisify(execFile);
const BACKUP =
  "a pg_dump that was taken while a node runs is restored as docs/operate/operations.md shows, and goes on";
/** The lock by which nodes that start take turns. */
const TURN = 0x464c6f72;
const ROUNDS = 20;

/** Keeps the reasons of errors, too. */
class ReasonLog extends KeptLog {
  readonly reasons: unknown[] = [];

  override error(facts: { reason?: unknown }, message: string): void {
    this.reasons.push(facts.reason);
    super.error(facts, message);
  }
}

/** The error of something that fails. */
const failureOf = (asked: Promise<unknown>): Promise<Error> =>
  asked.then(
    () => expect.unreachable(),
    (error: Error) => error,
  );

describeWith([POSTGRES], "a PostgreSQL store", (start) => {
  const server = serverOf(start);
  const empty = () => makeDatabase(server());
  const nameOf = (url: string) => new URL(url).pathname.slice(1);
  const opened = () => ({ clock: new StandingClock(), log: new KeptLog() });

  /** The server's URL with a change. */
  const altered = (url: string, over: Partial<URL>): string => Object.assign(new URL(url), over).href;

  describe("opening", () => {
    test("eight nodes that start at once on an empty database create the store once", async () => {
      const url = await empty();
      const stores = await Promise.all(Array.from({ length: 8 }, () => openNode(url, { connections: 2 })));
      expect(new Set(stores.map(({ epoch, secret }) => `${epoch} ${secret}`)).size).toBe(1);
      const applied = await askDatabase(url, "SELECT version FROM interlock.migrations ORDER BY version");
      expect(applied).toEqual(applied.map((_, index) => ({ version: index + 1 })));
      expect(applied.length).toBeGreaterThan(0);
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

    test("a database of the first schema is upgraded, and keeps its floors, sessions and run requests", async () => {
      const url = await empty();
      const first = await openNode(url);
      const floor = await writeAsFirst(first);
      await first.close();
      // That schema came with its functions.
      await askDatabase(
        url,
        `SET search_path = interlock; ${TO_FIRST_SCHEMA};
         DELETE FROM migrations WHERE version > 1; DROP FUNCTION commit_floor; DELETE FROM functions`,
      );
      const upgraded = await openNode(url);
      await expectUpgraded(upgraded, floor);
      await upgraded.close();
      await openNode(url);
    });

    test.each(["SET digest = 'other'", "SET digest = NULL"])(
      "a database of another checkout is refused: %s",
      async (change) => {
        const url = await empty();
        await (await openNode(url)).close();
        await askDatabase(url, `UPDATE interlock.migrations ${change} WHERE version = 1`);
        await expect(openNode(url)).rejects.toThrow(
          /the database "interlock_\w+" .* was made by another checkout of Interlock: 0001_initial\.sql differs here/,
        );
      },
    );

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
         REVOKE CREATE ON DATABASE ${nameOf(url)} FROM PUBLIC`,
      );
      const poor = altered(url, { username: `tenant_${process.pid}`, password: "hush" });
      await expect(openNode(poor)).rejects.toThrow(/could not be migrated by 0001_initial\.sql: .*permission denied/);
      await openNode(url);
      await askDatabase(url, `DROP ROLE tenant_${process.pid}`);
    });

    test("a role without superuser rights, as deploy/ makes it, has a store, writes it and opens it again", async () => {
      const url = await empty();
      const role = `owner_${process.pid}`;
      const made = deployed("postgres-role.sql")
        .replaceAll(/^(\\|--).*$/gm, "")
        .replace(":'password'", "'hush'")
        .replace("ALTER DATABASE interlock", `ALTER DATABASE ${nameOf(url)}`)
        .replaceAll(/\binterlock\b/g, role);
      await askDatabase(url, made);
      const own = altered(url, { username: role, password: "hush" });
      const [rights] = await askDatabase(
        own,
        "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user",
      );
      expect(rights).toEqual({ rolsuper: false, rolcreatedb: false, rolcreaterole: false });
      const first = await openNode(own);
      const floor = new FloorWriter(first);
      expect(await floor.write()).toBe("committed");
      await first.close();
      const second = await openNode(own);
      floor.continueIn(second);
      expect(await floor.write()).toBe("committed");
      await second.close();
      await askDatabase(url, `REASSIGN OWNED BY ${role} TO postgres; DROP OWNED BY ${role}; DROP ROLE ${role}`);
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
        [
          "postgres://ann:opensesame@h/x?sslmode=verify-full&sslrootcert=/no/ca.crt",
          "INTERLOCK_STORE: the file /no/ca.crt cannot be read (ENOENT)",
        ],
      ] as const;
      const secrets = ["opensesame", decodeURIComponent(new URL(url).password)];
      for (const [address, sentence] of refusals) {
        const error = await failureOf(openPostgresStore({ url: address, ...opened() }));
        expect(error.message).toMatch(sentence);
        const errorText = JSON.stringify([error.message, error.stack, error.cause, String(error.cause)]);
        for (const secret of secrets) expect(errorText).not.toContain(secret);
      }
    });

    test("a database whose encoding cannot store every text is refused", async () => {
      const url = await empty();
      const name = `${nameOf(url)}_latin`;
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
      await askDatabase(url, `ALTER DATABASE ${nameOf(url)} SET default_transaction_read_only = on`);
      await expect(store.confirm(new FloorWriter(store).id, 0)).rejects.toMatchObject({ code: "unavailable" });
      await expect(new FloorWriter(store).write()).rejects.toMatchObject({ code: "unavailable" });
      expect(log.lines).toEqual(["the database does not answer statements"]);
    });
  });

  test("a database that may lose acknowledged commits causes a warning", async () => {
    const url = await empty();
    const log = new KeptLog();
    await askDatabase(url, `ALTER DATABASE ${nameOf(url)} SET synchronous_commit = off`);
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
    const failure = await failureOf(floor.write({ messages: [{ kind: "add", message }] }));
    expect(failure.message).toBe("there is no session nobody on this floor (P0002)");
    expect(failure).not.toHaveProperty("code", "unavailable");
    expect(JSON.stringify([failure, failure.stack])).not.toContain("a secret");
  });

  describeWith(["pgbouncer"], "behind PgBouncer", (pgbouncer) => {
    test("a pooler in transaction mode is refused at the start, with the remedy", async () => {
      const { url } = await startPgBouncer(pgbouncer, await empty(), "transaction");
      await expect(openPostgresStore({ url, ...opened() })).rejects.toThrow(
        /^a pooler in front of the database "\w+" at 127\.0\.0\.1:\d+ \(INTERLOCK_STORE\) moves clients between connections: use its session mode, or connect to the server$/,
      );
    });

    test("nodes behind a pooler in session mode share a store", async () => {
      const { url } = await startPgBouncer(pgbouncer, await empty(), "session");
      const [one, other] = [await openNode(url, { connections: 2 }), await openNode(url, { connections: 2 })];
      const floor = new FloorWriter(one);
      await floor.write({ sessions: [floor.session("a")] });
      expect((await other.loadSession("a" as SessionId))?.session).toEqual(floor.session("a"));
    });
  });

  describe("in a database with settings of its own", () => {
    async function makeWith(setting: string): Promise<string> {
      const url = await empty();
      await askDatabase(url, `ALTER DATABASE ${nameOf(url)} SET ${setting}`);
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

  describeWith(["pgDump"], "of which there is a backup", () => {
    test(BACKUP, async ({ skip }) => {
      const [url, restored] = [await empty(), await empty()];
      const [row] = await askDatabase(url, "SELECT current_setting('server_version_num')::int / 10000 AS major");
      const [, version] = /\) (\d+)/.exec((await run("pg_dump", ["--version"])).stdout)!;
      skip(Number(version) < Number(row!["major"]), "pg_dump refuses a server that is newer");
      const node = await openNode(url);
      const floor = new FloorWriter(node);
      await floor.write({ sessions: [floor.session("a")] });
      const { folder, remove } = await makeFolder();
      onTestFinished(remove);
      const file = join(folder, "dump");
      await run("pg_dump", ["--format=custom", `--file=${file}`, url]);
      const later = new FloorWriter(node, "u:bob");
      await later.write({ sessions: [later.session("b")] });
      await run("pg_restore", ["--exit-on-error", `--dbname=${restored}`, file]);
      const shown = readPage("docs/operate/operations.md").blocks.find(({ text }) =>
        text.startsWith('psql "$INTERLOCK_STORE" -c'),
      )!;
      await askDatabase(restored, /"(UPDATE [^"]+)"/.exec(shown.text)![1]!);
      const next = await openNode(restored);
      expect([next.epoch, next.secret]).toEqual(["r1", node.secret]);
      expect((await next.loadSession("a" as SessionId))?.session).toEqual(floor.session("a"));
      expect(await next.loadSession("b" as SessionId)).toBeUndefined();
      floor.continueIn(next);
      await floor.write({ sessions: [floor.session("c")] });
      expect((await next.loadSession("c" as SessionId))?.session).toEqual(floor.session("c"));
    });
  });

  describe("that was replaced", () => {
    /** A node's store with a floor. */
    async function openWritten(over: Parameters<typeof openNode>[1] = {}) {
      const url = await empty();
      const store = await openNode(url, over);
      const floor = new FloorWriter(store);
      await floor.write();
      return { url, store, floor };
    }

    const ask = (sql: string) => askDatabase(server().url, sql);

    /** The database gets another name when its connections are closed; nodes may try to connect at any moment. */
    async function rename(url: string, to: string): Promise<void> {
      const name = nameOf(url);
      await ask(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      await ask(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${name}'`);
      await ask(`ALTER DATABASE ${name} RENAME TO ${to}`);
      await ask(`ALTER DATABASE ${to} ALLOW_CONNECTIONS true`);
    }

    const EMPTY = "it has no store, but this node opened one: correct its address, or restart the node";

    test.each([
      ["an empty database", undefined, EMPTY],
      ["a restored store with a new epoch", "r1", "it is another store than this node opened (r1): restart the node"],
    ])(
      "while %s is at its address, a node commits nothing and reads nothing; then it continues",
      async (_, epoch, why) => {
        const log = new ReasonLog();
        const { url, store, floor } = await openWritten({ log, connections: 4 });
        await rename(url, `${nameOf(url)}_own`);
        await ask(`CREATE DATABASE ${nameOf(url)} TEMPLATE ${epoch ? `${nameOf(url)}_own` : "template1"}`);
        if (epoch) await askDatabase(url, `UPDATE interlock.meta SET epoch = '${epoch}'`);
        const told = (asked: Promise<unknown>) => asked.then(() => "answered").catch(({ code }) => code);
        const outcomes = () =>
          Promise.all([floor.write(), store.loadFloor(floor.id), store.confirm("u:none" as FloorId, 0)].map(told));
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
      const { url, store, floor } = await openWritten();
      await askDatabase(url, "UPDATE interlock.meta SET epoch = 'r2'");
      await expect(store.timeOffset()).rejects.toMatchObject({ code: "unavailable" });
      expect(store.isReplaced).toBe(true);
      for (const asked of [floor.write(), store.loadFloor(floor.id)]) {
        await expect(asked).rejects.toMatchObject({ code: "unavailable" });
      }
      const [row] = await askDatabase(url, `SELECT version FROM interlock.floors WHERE id = '${floor.id}'`);
      expect(Number(row!["version"])).toBe(floor.version);
    });

    test("a statement whose table is gone is unavailable, and the fault of no request", async () => {
      const { url, store, floor } = await openWritten();
      await askDatabase(url, "DROP SCHEMA interlock CASCADE");
      await expect(store.loadFloor(floor.id)).rejects.toMatchObject({ code: "unavailable" });
      await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    });
  });
});
