import { execFile } from "node:child_process";
import { copyFile, rename, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import type { Worker } from "node:worker_threads";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { FloorId, MessageId, SessionId } from "../../../src/protocol/ids.ts";
import type { Store } from "../../../src/store/store.ts";
import { testWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { keepThreads, makePlace, openStore } from "../../support/stores/opened-store.ts";
import type { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";
import { StoreProcess } from "../../support/stores/store-process.ts";

const run = promisify(execFile);
const ANN = "u:ann" as FloorId;
const A = "a" as SessionId;

let folder: string;
let file: string;
let clock: StandingClock;
let log: KeptLog;

beforeEach(async () => {
  ({ folder, file, clock, log } = await makePlace());
});

const open = (path = file, options?: { startCheckSize: number }) => openStore({ file: path, clock, log, ...options });

/** Open the file in a separate process. */
async function start(options?: { maxFileKib: number }): Promise<StoreProcess> {
  const process = await StoreProcess.start(file, options);
  onTestFinished(() => process.kill());
  return process;
}

describe("a store whose process is killed", () => {
  test("a store whose process was killed has every acknowledged change, and each change completely or not at all", async () => {
    const owner = await start();
    const floor = new FloorWriter({ commit: (change) => owner.call("commit", change) } as Store);
    const ids = Array.from({ length: 41 }, (_, n) => `m${n}`);
    const write = (n: number) => {
      const message = makeMessage("a", ids[n]!);
      const sessions = [floor.session("a", { messageCount: n + 1 })];
      const events = [floor.event("message", message, { session: "a" })];
      return floor.write({ sessions, messages: [{ kind: "add", message }], events });
    };
    for (let n = 0; n < 40; n++) await write(n);
    // In progress when the process dies, so never answered.
    void write(40);
    await owner.kill();

    const store = await open();
    const { version, head } = (await store.loadFloor(ANN))!;
    const view = (await store.viewSession(A, 1_000))!;
    expect(version).toBeGreaterThanOrEqual(40);
    expect(view.messages.map(({ id }) => id)).toEqual(ids.slice(0, version));
    expect([view.messages.length, view.session.messageCount, view.head, head]).toEqual(Array(4).fill(version));
  });
});

describe("a store that cannot write", () => {
  testWith(
    ["bash", "prlimit"],
    "a full disk makes writes fail while reads continue, and the store recovers",
    async () => {
      const owner = await start({ maxFileKib: 1_024 });
      const floor = new FloorWriter({ commit: (change) => owner.call("commit", change) } as Store);
      const write = (n: number) => {
        const message = makeMessage("a", `m${n}`, { content: `${n} `.repeat(4_000) });
        const sessions = [floor.session("a", { messageCount: n + 1 })];
        return floor.write({ sessions, messages: [{ kind: "add", message }] });
      };
      let count = 0;
      const fill = async () => {
        for (; count < 1_000; count++) await write(count);
      };
      await expect(fill()).rejects.toThrow("unavailable");
      expect(count).toBeGreaterThan(5);
      await expect(write(count)).rejects.toThrow("unavailable");

      const view = await owner.call("viewSession", A, 1_000);
      expect([view?.messages.length, view?.session.messageCount]).toEqual([count, count]);
      expect((await owner.call("loadFloor", ANN))?.version).toBe(count);

      await run("prlimit", ["--pid", String(owner.pid), "--fsize=unlimited:"]);
      for (const end = count + 300; count < end; count++) expect(await write(count)).toBe("committed");
      await owner.kill();
      const store = await open();
      // A page of long messages ends at its limit in bytes; the session's row counts all of them.
      const recovered = (await store.viewSession(A, 1))!;
      expect(recovered.session.messageCount).toBe(count);
      expect(recovered.messages.map(({ id }) => id)).toEqual([`m${count - 1}`]);
      const oldest = await store.listMessages(A, { after: "m0" as MessageId, limit: 1 });
      expect(oldest?.messages.map(({ id }) => id)).toEqual(["m1"]);
    },
    30_000,
  );

  testWith(
    ["bash"],
    "a write-ahead log that has filled the disk is copied into the database, and makes room without help",
    async () => {
      const owner = await start({ maxFileKib: 1_024 });
      const floor = new FloorWriter({ commit: (change) => owner.call("commit", change) } as Store);
      // The log grows with each commit, the database does not.
      for (let n = 0; n < 300; n++) {
        expect(await floor.write({ snapshot: JSON.stringify(`${n} `.repeat(4_000)) })).toBe("committed");
      }
      await owner.kill();
      expect(await (await open()).loadFloor(ANN)).toMatchObject({ version: 300 });
    },
  );

  test("the log says that the database takes writes again, although nothing is written", async () => {
    const virtual = new VirtualClock();
    const store = await openStore({ file, clock: virtual, log });
    const floor = new FloorWriter(store);
    await floor.write();
    await rename(file, `${file}.away`);
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await virtual.advance(5_000);
    await store.saveJumps({ jumpedMs: 0, doubtUntil: 0 }).catch(() => {});
    expect(log.lines).toEqual(["the database refuses writes"]);
    await rename(`${file}.away`, file);
    const told = log.nextInfo();
    await virtual.advance(5_000);
    expect(await told).toBe("the database takes writes again");
    expect(virtual.timerCount).toBe(0);
  });

  /** The store, and its writer's thread. */
  async function openWithThread(): Promise<{ store: Store; thread: Worker }> {
    const threads = keepThreads();
    const store = await open();
    return { store, thread: threads[0]! };
  }

  test("a lost writer's thread makes writes fail while reads continue, and another thread starts", async () => {
    const { store, thread } = await openWithThread();
    const floor = new FloorWriter(store);
    await floor.write();
    await thread.terminate();
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    expect((await store.loadFloor(ANN))?.version).toBe(1);
    clock.time += 1_000;
    expect(await floor.write()).toBe("committed");
    expect(log.lines).toEqual(["the writer's thread was lost", "the writer's thread was started again"]);
  });

  test("every job that the lost thread had is answered", async () => {
    const { store, thread } = await openWithThread();
    const floors = Array.from({ length: 1_500 }, (_, index) => new FloorWriter(store, `u:${index}`));
    const first = floors[0]!.write();
    const writes = floors.slice(1).map((floor) => floor.write());
    await first;
    await thread.terminate();
    const results = await Promise.allSettled(writes);
    const versions = await Promise.all(floors.slice(1).map(async ({ id }) => (await store.loadFloor(id))?.version));
    for (const [index, result] of results.entries()) {
      if (result.status === "fulfilled") expect([result.value, versions[index]]).toEqual(["committed", 1]);
      else expect(result.reason).toMatchObject({ code: "unavailable" });
    }
    expect(results.at(-1)?.status).toBe("rejected");
  });

  test("a file that was removed is not replaced by an empty one", async () => {
    const { store, thread } = await openWithThread();
    const floor = new FloorWriter(store);
    await floor.write();
    await thread.terminate();
    await rename(file, `${file}.away`);
    clock.time += 1_000;
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await rename(`${file}.away`, file);
    clock.time += 1_000;
    expect(await floor.write()).toBe("committed");
    expect((await store.loadFloor(ANN))?.version).toBe(2);
    expect(log.lines).toContain("the writer's thread could not be started");
  });

  test("a file that is moved while it is open accepts no write that a restart would not find", async () => {
    const store = await open();
    const floor = new FloorWriter(store);
    await floor.write();
    await rename(file, `${file}.away`);
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await copyFile(`${file}.away`, file);
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await rename(`${file}.away`, file);
    expect(await floor.write()).toBe("committed");
    expect(log.lines).toEqual(["the database refuses writes", "the database takes writes again"]);
  });

  test("a write-ahead log that is removed while open makes writes fail, and earlier writes are kept", async () => {
    const store = await open();
    const floor = new FloorWriter(store);
    for (let n = 0; n < 3; n++) await floor.write();
    await rm(`${file}-wal`);
    await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    await store.close();
    expect((await (await open()).loadFloor(ANN))?.version).toBeGreaterThanOrEqual(3);
  });

  test("a read that fails because the write-ahead log was emptied is logged once in a minute", async () => {
    const store = await open();
    const floor = new FloorWriter(store);
    const session = () => [floor.session("a", { title: "x".repeat(200) })];
    for (let n = 0; n < 3; n++) await floor.write({ sessions: session() });
    await truncate(`${file}-wal`);
    const read = () => expect(store.viewSession(A, 1)).rejects.toMatchObject({ code: "unavailable" });
    await read();
    await read();
    expect(log.lines).toEqual(["the database cannot be read"]);
    clock.time += 60_000;
    await read();
    expect(log.lines).toHaveLength(2);
  });

  test("a change that cannot be sent to the thread fails alone", async () => {
    const store = await open();
    const [ann, bob] = [new FloorWriter(store), new FloorWriter(store, "u:bob")];
    const broken = { ...ann.change(), snapshot: (() => "") as unknown as string };
    const results = await Promise.allSettled([store.commit(broken), bob.write()]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect((results[0] as PromiseRejectedResult).reason).not.toBeInstanceOf(AppError);
  });
});

describe("the writer's cached rows", () => {
  test("the writer's cached rows are dropped on a rollback, so that one change's failure does not make others conflict", async () => {
    const store = await open();
    const ann = new FloorWriter(store);
    const bob = new FloorWriter(store, "u:bob");
    await ann.write({ sessions: [ann.session("a")] });
    await bob.write({ sessions: [bob.session("b")] });
    for (let round = 0; round < 3; round++) {
      // In one turn of the event loop, so in one transaction: it is rolled back, and each change is written separately.
      const missing = { kind: "append" as const, sessionId: "b" as SessionId, id: "gone" as never, text: "?" };
      const [good, bad] = await Promise.allSettled([
        store.commit(ann.change({ sessions: [ann.session("a", { title: `round ${round}` })] })),
        store.commit(bob.change({ sessions: [bob.session("b")], messages: [missing] })),
      ]);
      expect(good).toEqual({ status: "fulfilled", value: "committed" });
      expect(bad).toMatchObject({ reason: { name: "JobFailed" } });
      ann.version += 1;
    }
    expect(await store.confirm(ANN, 4)).toBe(true);
    expect(await store.confirm(bob.id, 1)).toBe(true);
    expect((await store.loadSession(A))?.session.title).toBe("round 2");
  });

  test("the writer's cached rows are compared with the database, so that another process's write is a conflict", async () => {
    const store = await open();
    const ann = new FloorWriter(store);
    await ann.write({ sessions: [ann.session("a")] });
    const other = new DatabaseSync(file);
    other.exec("UPDATE floors SET version = 7");
    other.close();
    expect(await store.commit(ann.change({ receipts: [ann.receipt("c1")] }))).toBe("conflict");
    // Nothing of it is stored, and the next change is based on what is stored.
    expect(await store.findReceipts([{ caller: "ann", commandId: "c1" }])).toEqual([]);
    ann.version = 7;
    expect(await store.commit(ann.change({ receipts: [ann.receipt("c1")] }))).toBe("committed");
    expect(await store.confirm(ANN, 8)).toBe(true);
  });

  test("the writer's cached rows cover the indexed columns: title, state and last activity", async () => {
    const store = await open();
    const ann = new FloorWriter(store);
    const found = async (query: object) => {
      const page = { page: 0, pageSize: 10, includeArchived: true };
      return (await store.listSessions({ ...page, ...query })).sessions.map(({ id, title }) => `${id} ${title}`);
    };
    await ann.write({ sessions: [ann.session("a", { title: "first" }), ann.session("b", { title: "other" })] });
    await ann.write({ sessions: [ann.session("a", { title: "second" })] });
    expect(await found({ q: "first" })).toEqual([]);
    expect(await found({ q: "second" })).toEqual(["a second"]);
    await ann.write({ sessions: [ann.session("a", { title: "second", state: "archived" })] });
    expect(await found({ state: "archived" })).toEqual(["a second"]);
    await ann.write({ sessions: [ann.session("b", { title: "other", lastActivityAt: clock.now() + 9_000_000 })] });
    expect(await found({})).toEqual(["b other", "a second"]);
    // After a restart no earlier commit is in memory.
    await store.close();
    const again = await open();
    const later = new FloorWriter(again);
    later.version = ann.version;
    later.head = ann.head;
    await later.write({ sessions: [ann.session("a", { title: "third", state: "archived" })] });
    const page = { page: 0, pageSize: 10, includeArchived: true };
    expect((await again.listSessions({ ...page, q: "second" })).total).toBe(0);
    expect((await again.listSessions({ ...page, q: "third" })).total).toBe(1);
  });
});

describe("stored data", () => {
  test("a backup copied while the store is closed opens with everything", async () => {
    const store = await open();
    await new FloorWriter(store).write();
    await store.close();
    const copy = join(folder, "copy.db");
    await copyFile(file, copy);
    expect((await (await open(copy)).loadFloor(ANN))?.version).toBe(1);
  });

  test("no row of the log holds more than 64 KiB", async () => {
    const store = await open();
    const floor = new FloorWriter(store);
    const events = [65_000, 70_000, 400_000].map((n) => floor.event("data", "x".repeat(n), { session: "a" }));
    const message = makeMessage("a", "m", { content: "航".repeat(50_000) });
    events.push(floor.event("message", message, { session: "a" }));
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }], events });
    await store.close();
    const db = new DatabaseSync(file);
    const { largest } = db.prepare("SELECT max(octet_length(json)) AS largest FROM events").get() as {
      largest: number;
    };
    db.close();
    expect(largest).toBeLessThanOrEqual(65_536);
  });
});
