import { EventEmitter } from "node:events";
import type { Pool } from "pg";
import { expect, test } from "vitest";
import { PostgresPool, RowsLocked } from "../../../src/store/postgres/connections/connection-pool.ts";
import { StoreIdentity } from "../../../src/store/postgres/connections/store-identity.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

const ASKED = { name: "asked", text: "SELECT" };

/** The driver's pool, as far as it is used here: its requests wait until the test settles them. */
class ControlledPool extends EventEmitter {
  readonly connecting: PromiseWithResolvers<unknown>[] = [];
  readonly queries: ({ asked: Record<string, unknown> } & PromiseWithResolvers<{ rows: unknown[] }>)[] = [];
  /** For each returned connection, whether it is to be closed. */
  readonly releases: unknown[] = [];
  ending = false;

  connect(): Promise<unknown> {
    const connection = Promise.withResolvers<unknown>();
    this.connecting.push(connection);
    return connection.promise;
  }

  /** The connection that was requested first is ready. */
  async give(): Promise<void> {
    this.connecting.shift()!.resolve({
      query: (asked: Record<string, unknown>) => {
        const settle = Promise.withResolvers<{ rows: unknown[] }>();
        this.queries.push({ asked, ...settle });
        return settle.promise;
      },
      release: (isBad: unknown) => this.releases.push(isBad ?? false),
    });
    await new Promise(setImmediate);
  }

  async end(): Promise<void> {
    this.ending = true;
  }
}

function open() {
  const driver = new ControlledPool();
  const clock = new VirtualClock();
  const log = new KeptLog();
  const identity = new StoreIdentity({ epoch: "e1", lostCommits: "stop", onNewEpoch() {} });
  const pool = new PostgresPool(driver as unknown as Pool, identity, "the database", clock, log);
  return { driver, clock, log, pool };
}

const failure = (code: string, severity?: string) =>
  Object.assign(new Error("no"), { code, ...(severity && { severity }) });

test("a statement gets the rest of two seconds, and at least a quarter of a second", async () => {
  const { driver, clock, pool } = open();
  for (const waited of [0, 700, 1_900]) {
    const answer = pool.query(ASKED, [1]);
    await clock.advance(waited);
    await driver.give();
    driver.queries.at(-1)!.resolve({ rows: [waited] });
    expect(await answer).toEqual([waited]);
  }
  expect(driver.queries.map(({ asked }) => asked["query_timeout"])).toEqual([2_000, 1_300, 250]);
  expect(driver.releases).toEqual([false, false, false]);
});

test("the pool refuses statements when four thousand wait, and accepts more when one is answered", async () => {
  const { driver, pool } = open();
  const waiting = Array.from({ length: 4_096 }, () => pool.query(ASKED));
  await expect(pool.query(ASKED)).rejects.toMatchObject({ code: "unavailable" });
  await driver.give();
  driver.queries[0]!.resolve({ rows: [] });
  await waiting[0];
  void pool.query(ASKED);
  expect(driver.connecting).toHaveLength(4_096);
});

test("the pool keeps a connection whose statement was refused, and closes a connection in doubt", async () => {
  const { driver, pool } = open();
  const outcomes = [];
  for (const error of [
    failure("23505", "ERROR"),
    failure("55P03", "ERROR"),
    failure("57P01", "FATAL"),
    failure("EPIPE"),
  ]) {
    const answer = pool.query(ASKED);
    await driver.give();
    driver.queries.at(-1)!.reject(error);
    outcomes.push(await answer.catch(({ fault, code }) => fault ?? code));
  }
  expect(outcomes).toEqual(["taken", "unavailable", "unavailable", "unavailable"]);
  expect(driver.releases).toEqual([false, false, true, true]);
});

test("the pool logs once that the database is away and once that it is back", async () => {
  const { driver, clock, log, pool } = open();
  for (let n = 0; n < 3; n++) {
    const answer = pool.query(ASKED);
    driver.connecting.shift()!.reject(failure("ECONNREFUSED"));
    await expect(answer).rejects.toMatchObject({ code: "unavailable" });
  }
  await clock.advance(1_000);
  // A refusal is an answer, too.
  for (const settle of [
    (n: number) => driver.queries[n]!.reject(failure("23505", "ERROR")),
    (n: number) => driver.queries[n]!.resolve({ rows: [] }),
  ]) {
    const answer = pool.query(ASKED);
    await driver.give();
    settle(driver.queries.length - 1);
    await Promise.allSettled([answer]);
  }
  expect(log.lines).toEqual(["the database does not answer statements", "the database answers statements again"]);
});

test("the pool logs once that the database fails some statements and answers others, and that it fails none any more", async () => {
  const { driver, clock, log, pool } = open();
  const ask = async (settle: (query: (typeof driver.queries)[number]) => void) => {
    const answer = pool.query(ASKED);
    await driver.give();
    settle(driver.queries.at(-1)!);
    await Promise.allSettled([answer]);
  };
  for (let n = 0; n < 20; n++) {
    await ask(({ reject }) => reject(failure("53300", "FATAL")));
    await clock.advance(500);
    await ask(({ resolve }) => resolve({ rows: [] }));
  }
  expect(log.lines).toEqual(["the database does not answer statements"]);
  await clock.advance(500);
  await ask(({ resolve }) => resolve({ rows: [] }));
  expect(log.lines).toEqual(["the database does not answer statements", "the database answers statements again"]);
});

test("the pool logs a full disk once, also while reads and small writes succeed, and that writes find room after a minute", async () => {
  const { driver, clock, log, pool } = open();
  const ask = async (name: string, error?: Error) => {
    const answer = pool.query({ ...ASKED, name });
    await driver.give();
    if (error) driver.queries.at(-1)!.reject(error);
    else driver.queries.at(-1)!.resolve({ rows: [] });
    return await answer.catch(({ code }) => code);
  };
  for (let n = 0; n < 20; n++) {
    expect(await ask("write", failure("53100", "ERROR"))).toBe("unavailable");
    await clock.advance(30_000);
    await ask("read");
    await ask("write");
    await clock.advance(20_000);
  }
  expect(driver.releases).not.toContain(true);
  expect(log.lines).toEqual(["the database refuses writes"]);
  await clock.advance(10_000);
  await ask("read");
  expect(log.lines).toEqual(["the database refuses writes"]);
  await ask("write");
  await ask("write");
  const both = ["the database refuses writes", "the database takes writes again"];
  expect(log.lines).toEqual(both);
  await ask("write", failure("53100", "ERROR"));
  expect(log.lines).toEqual([...both, "the database refuses writes"]);
});

test("the pool logs once a minute that a full disk leaves no room for new connections, and not an outage of the database", async () => {
  const { driver, clock, log, pool } = open();
  const ask = async (error: Error) => {
    const answer = pool.query(ASKED);
    driver.connecting.shift()!.reject(error);
    await expect(answer).rejects.toMatchObject({ code: "unavailable" });
  };
  const initFile = Object.assign(new Error("could not write init file"), { code: "XX000", severity: "FATAL" });
  for (const [wait, error] of [
    [0, initFile],
    [30_000, failure("53100", "FATAL")],
    [29_999, initFile],
  ] as const) {
    await clock.advance(wait);
    await ask(error);
  }
  expect(log.lines).toEqual(["the database refuses new connections because its disk is full"]);
  await clock.advance(1);
  await ask(initFile);
  expect(log.lines).toHaveLength(2);
  await ask(failure("XX000", "FATAL"));
  expect(log.lines.at(-1)).toBe("the database does not answer statements");
});

test("the pool logs a lock that another session holds once a minute, and not as an outage of the database", async () => {
  const { driver, clock, log, pool } = open();
  const ask = async () => {
    const answer = pool.query(ASKED);
    await driver.give();
    driver.queries.at(-1)!.reject(failure("55P03", "ERROR"));
    await expect(answer).rejects.toBeInstanceOf(RowsLocked);
  };
  for (const wait of [0, 30_000, 29_999]) {
    await clock.advance(wait);
    await ask();
  }
  expect(log.lines).toEqual(["another session of the database holds a lock that statements of this node wait for"]);
  await clock.advance(1);
  await ask();
  expect(log.lines).toHaveLength(2);
});

test("the pool closes once its statements are answered, and only once", async () => {
  const { driver, pool } = open();
  const answer = pool.query(ASKED);
  const closing = [pool.close(), pool.close()];
  await expect(pool.query(ASKED)).rejects.toMatchObject({ code: "unavailable" });
  expect(driver.ending).toBe(false);
  await driver.give();
  driver.queries[0]!.resolve({ rows: [7] });
  expect(await answer).toEqual([7]);
  await Promise.all(closing);
  expect(driver.ending).toBe(true);
});

test("a lost connection, idle or in use, does not end the process", () => {
  const { driver } = open();
  driver.emit("error", failure("ECONNRESET"));
  const client = new EventEmitter();
  driver.emit("connect", client);
  client.emit("error", failure("ECONNRESET"));
});
