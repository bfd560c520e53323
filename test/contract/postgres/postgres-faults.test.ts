import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { FloorId, SessionId } from "../../../src/protocol/ids.ts";
import type { Store } from "../../../src/store/store.ts";
import { SystemClock } from "../../../src/system/system-clock.ts";
import { StallingProxy } from "../../support/networks/stalling-proxy.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { makeDatabase, openNode } from "../../support/servers/postgres-place.ts";
import { OWN_POSTGRES } from "../../support/servers/postgres-server.ts";
import { serverOf } from "../../support/servers/shared-server.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { KeptLog } from "../../support/stores/sqlite-place.ts";

describeWith([OWN_POSTGRES], "a PostgreSQL server that fails", (start) => {
  const server = serverOf(start);

  /** Every kind of request to a store, for a server that is away. */
  const EVERYTHING: ((store: Store) => Promise<unknown>)[] = [
    (store) => new FloorWriter(store).write(),
    (store) => store.confirm("u:ann" as FloorId, 0),
    (store) => store.readFloorLog("u:ann" as FloorId, 0, 1),
    (store) => store.listSessions({ page: 0, pageSize: 1, includeArchived: true, q: "jazz" }),
    (store) => store.saveConnection({ id: "c" as never, slots: [], expiresAt: 1, version: 0 }),
    (store) => store.prune({ now: 1, receiptsBefore: 1, limit: 1 }),
  ];

  /** Writes one message per commit, repeatedly, like a host: after an unknown outcome it reads before it continues. */
  class Writer {
    readonly #floor: FloorWriter;
    readonly #store: Store;
    readonly #session: string;
    readonly #acknowledged: string[] = [];
    readonly codes = new Set<unknown>();
    #waiting: { count: number; settle: PromiseWithResolvers<void> } | undefined;
    isStopped = false;

    constructor(store: Store, name: string) {
      this.#store = store;
      this.#session = name;
      this.#floor = new FloorWriter(store, `u:${name}`);
    }

    async run(): Promise<void> {
      for (let n = 0; !this.isStopped; n++) {
        const isWritten = await this.#noteCode(() => this.#write(`m${n}`));
        while (!isWritten && !this.isStopped && !(await this.#noteCode(() => this.#reload())));
      }
    }

    /** Whether it succeeded. */
    async #noteCode(work: () => Promise<void>): Promise<boolean> {
      try {
        await work();
        return true;
      } catch (error) {
        this.codes.add((error as { code?: string }).code);
        return false;
      }
    }

    /** Resolves when `count` more were acknowledged. */
    acknowledges(more: number): Promise<void> {
      const settle = Promise.withResolvers<void>();
      this.#waiting = { count: this.#acknowledged.length + more, settle };
      return settle.promise;
    }

    async check(): Promise<void> {
      const view = await this.#store.viewSession(this.#session as SessionId, 100_000);
      const stored = view!.messages.map(({ id }) => id);
      expect(stored).toEqual(expect.arrayContaining(this.#acknowledged));
      // Some of the unacknowledged commits may be stored, but completely: each is a version of its floor.
      expect((await this.#store.loadFloor(this.#floor.id))?.version).toBe(stored.length);
      expect(view!.session.messageCount).toBe(stored.length);
    }

    async #write(id: string): Promise<void> {
      const sessions = [this.#floor.session(this.#session, { messageCount: this.#floor.version + 1 })];
      const messages = [{ kind: "add" as const, message: makeMessage(this.#session, id) }];
      expect(await this.#floor.write({ sessions, messages })).toBe("committed");
      this.#acknowledged.push(id);
      if (this.#acknowledged.length >= (this.#waiting?.count ?? Number.POSITIVE_INFINITY))
        this.#waiting!.settle.resolve();
    }

    async #reload(): Promise<void> {
      this.#floor.version = (await this.#store.loadFloor(this.#floor.id))?.version ?? 0;
    }
  }

  for (const how of ["orderly", "crash"] as const) {
    test(`a restart of PostgreSQL under load (${how}) loses nothing acknowledged, and work continues afterwards`, async () => {
      const url = await makeDatabase(server());
      const log = new KeptLog();
      const clock = new SystemClock();
      const stores = [await openNode(url, { clock, log, connections: 4 }), await openNode(url, { connections: 4 })];
      const writers = Array.from({ length: 12 }, (_, n) => new Writer(stores[n % 2]!, `${how}${n}`));
      const running = Promise.all(writers.map((writer) => writer.run()));
      onTestFinished(() => {
        for (const writer of writers) writer.isStopped = true;
      });
      for (let restarts = 0; restarts < 2; restarts++) {
        await Promise.all(writers.map((writer) => writer.acknowledges(8)));
        await server().restart(how);
      }
      await Promise.all(writers.map((writer) => writer.acknowledges(8)));
      await expect.poll(() => log.lines.at(-1)).toBe("the database answers statements again");
      for (const writer of writers) writer.isStopped = true;
      await running;
      for (const writer of writers) await writer.check();
      const codes = new Set(writers.flatMap((writer) => [...writer.codes]));
      expect(codes).toEqual(new Set(["unavailable"]));
      // Logged when the server went away and when it came back, and not with every statement between.
      const logged = ["the database does not answer statements", "the database answers statements again"];
      expect(new Set(log.lines)).toEqual(new Set(logged));
      expect(log.lines.length).toBeLessThan(20);
    });
  }

  test("while PostgreSQL answers no query, every call is unavailable; calls work again when it answers", async () => {
    const url = await makeDatabase(server());
    const proxy = await StallingProxy.start(url);
    const throughProxy = Object.assign(new URL(url), { port: String(proxy.port) }).href;
    const store = await openNode(throughProxy, { connections: 3 });
    const floor = new FloorWriter(store, "u:bob");
    await floor.write();
    proxy.stall();
    const answers = await Promise.allSettled(EVERYTHING.map((ask) => ask(store)));
    for (const answer of answers) expect(answer).toMatchObject({ reason: { code: "unavailable" } });
    // By now only new connections are attempted.
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    proxy.resume();
    const version = async () => (await store.loadFloor(floor.id).catch(() => undefined))?.version;
    while ((await version()) === undefined) {}
    floor.version = (await version())!;
    expect(await floor.write()).toBe("committed");
  });

  test("a server that stops taking writes confirms nothing to connections that it keeps, until it takes writes again", async () => {
    const store = await openNode(await makeDatabase(server()), { connections: 1 });
    const floor = new FloorWriter(store, "u:ann");
    await floor.write();
    const version = floor.version;
    const setReadOnly = async (value: "on" | "off") => {
      const admin = new pg.Client({ connectionString: server().url, options: "-c default_transaction_read_only=off" });
      await admin.connect();
      await admin.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await admin.query("SELECT pg_reload_conf()");
      await admin.end();
    };
    onTestFinished(() => setReadOnly("off"));
    const confirm = () => store.confirm(floor.id, version).catch(({ code }) => code);
    expect(await confirm()).toBe(true);
    await setReadOnly("on");
    await expect.poll(confirm).toBe("unavailable");
    await setReadOnly("off");
    await expect.poll(confirm).toBe(true);
    expect(await store.confirm("u:none" as FloorId, 0)).toBe(true);
    expect(await store.confirm("u:none" as FloorId, 1)).toBe(false);
  });

  test("when the database was dropped, no error contains a password, and closing ends", async () => {
    const { url, drop } = await server().makeDatabase();
    const log = new KeptLog();
    const store = await openNode(url, { log });
    await drop();
    for (const ask of EVERYTHING) {
      const error = await ask(store).then(
        () => expect.unreachable(),
        (reason: Error) => reason,
      );
      expect(error).toMatchObject({ code: "unavailable" });
      const logged = JSON.stringify([error, error.message, error.stack, error.cause, (error.cause as Error).stack]);
      expect(logged).not.toContain(decodeURIComponent(new URL(url).password));
    }
    await store.close();
    expect(log.lines).toEqual(["the database does not answer statements"]);
  });
});
