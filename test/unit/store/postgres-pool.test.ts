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
  /** A statement that is answered, or fails with this error; the code of a failure. */
  const ask = async (error?: Error, name = ASKED.name) => {
    const answer = pool.query({ ...ASKED, name });
    await driver.give();
    if (error) driver.queries.at(-1)!.reject(error);
    else driver.queries.at(-1)!.resolve({ rows: [] });
    return await answer.catch(({ fault, code }) => fault ?? code);
  };
  return { driver, clock, log, pool, ask };
}

const BUSY = "another session of the database holds a lock that statements of this node wait for";
const AWAY = "the database does not answer statements";
const BACK = "the database answers statements again";

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
  const { driver, ask } = open();
  const locked = failure("55P03", "ERROR");
  const outcomes = [];
  for (const error of [failure("23505", "ERROR"), locked, failure("57P01", "FATAL"), failure("EPIPE")]) {
    outcomes.push(await ask(error));
  }
  expect(outcomes).toEqual(["taken", "unavailable", "unavailable", "unavailable"]);
  expect(driver.releases).toEqual([false, false, true, true]);
});

test("the pool logs once that the database is away and once that it is back", async () => {
  const { driver, clock, log, pool, ask } = open();
  for (let n = 0; n < 3; n++) {
    const answer = pool.query(ASKED);
    driver.connecting.shift()!.reject(failure("ECONNREFUSED"));
    await expect(answer).rejects.toMatchObject({ code: "unavailable" });
  }
  await clock.advance(1_000);
  // A refusal is an answer, too.
  for (const error of [failure("23505", "ERROR"), undefined]) await ask(error);
  expect(log.lines).toEqual([AWAY, BACK]);
});

test("the pool logs once that the database fails some statements and answers others, and that it fails none any more", async () => {
  const { clock, log, ask } = open();
  for (let n = 0; n < 20; n++) {
    await ask(failure("53300", "FATAL"));
    await clock.advance(500);
    await ask();
  }
  expect(log.lines).toEqual([AWAY]);
  await clock.advance(500);
  await ask();
  expect(log.lines).toEqual([AWAY, BACK]);
});

test("the pool logs a full disk once, also while reads and small writes succeed, and that writes find room after a minute", async () => {
  const { driver, clock, log, ask } = open();
  const full = failure("53100", "ERROR");
  for (let n = 0; n < 20; n++) {
    expect(await ask(full, "write")).toBe("unavailable");
    await clock.advance(30_000);
    for (const name of ["read", "write"]) await ask(undefined, name);
    await clock.advance(20_000);
  }
  expect(driver.releases).not.toContain(true);
  const [refuses, takes] = ["the database refuses writes", "the database takes writes again"];
  expect(log.lines).toEqual([refuses]);
  await clock.advance(10_000);
  await ask(undefined, "read");
  expect(log.lines).toEqual([refuses]);
  for (let n = 0; n < 2; n++) await ask(undefined, "write");
  expect(log.lines).toEqual([refuses, takes]);
  await ask(full, "write");
  expect(log.lines).toEqual([refuses, takes, refuses]);
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
  expect(log.lines.at(-1)).toBe(AWAY);
});

test("the pool logs a lock that another session holds once a minute, and not as an outage of the database", async () => {
  const { driver, clock, log, pool } = open();
  for (const [wait, lines] of [
    [0, 1],
    [30_000, 1],
    [29_999, 1],
    [1, 2],
  ] as const) {
    await clock.advance(wait);
    const answer = pool.query(ASKED);
    await driver.give();
    driver.queries.at(-1)!.reject(failure("55P03", "ERROR"));
    await expect(answer).rejects.toBeInstanceOf(RowsLocked);
    expect(log.lines).toEqual(Array(lines).fill(BUSY));
  }
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
