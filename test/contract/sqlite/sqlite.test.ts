import { execFile } from "node:child_process";
import {
  chmod,
  copyFile,
  link as hardLink,
  mkdir,
  open as openFile,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import type { Worker } from "node:worker_threads";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { AppError } from "../../../src/protocol/errors.ts";
import type { ConnectionId, FloorId, MessageId, SessionId } from "../../../src/protocol/ids.ts";
import { restore } from "../../../src/store/sqlite/file-copies.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { ConnectionRow, Store } from "../../../src/store/store.ts";
import { testWith } from "../../support/programs/suites.ts";
import { VirtualClock } from "../../support/runner/virtual-clock.ts";
import { expectUpgraded, TO_FIRST_SCHEMA, writeAsFirst } from "../../support/stores/first-schema.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import type { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";
import { StoreProcess } from "../../support/stores/store-process.ts";
import { makePlace } from "../../support/stores/temporary-store.ts";

const run = promisify(execFile);
const ANN = "u:ann" as FloorId;
const A = "a" as SessionId;

/** A page of the database, in bytes. */
const PAGE = 4_096;
let folder: string;
let file: string;
let clock: StandingClock;
let log: KeptLog;

beforeEach(async () => {
  ({ folder, file, clock, log } = await makePlace());
});

/** Open a store; closed when the test ends at the latest. */
async function open(path = file, options: Partial<Parameters<typeof openSqliteStore>[0]> = {}) {
  const store = await openSqliteStore({ file: path, clock, log, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** Open the file in a separate process. */
async function start(options?: { maxFileKib: number }): Promise<StoreProcess> {
  const process = await StoreProcess.start(file, options);
  onTestFinished(() => process.kill());
  return process;
}

/** The threads that this test starts from now on. */
function keepThreads(): Worker[] {
  const threads: Worker[] = [];
  const keep = (thread: Worker) => threads.push(thread);
  process.on("worker", keep);
  onTestFinished(() => void process.off("worker", keep));
  return threads;
}

/** Execute a statement on a file that no store has open. */
function execute(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

/** A text, and a database of another program. */
async function makeForeign(): Promise<{ text: string; foreign: string }> {
  const [text, foreign] = [join(folder, "notes.txt"), join(folder, "other.db")];
  await writeFile(text, "remember the milk");
  execute(foreign, "CREATE TABLE songs (title TEXT)");
  return { text, foreign };
}

/** The messages that `fill` writes. */
const MESSAGES = 50;

/** Fill the file with a floor's messages. Returns its number of pages. */
async function fill(): Promise<number> {
  const store = await open();
  const floor = new FloorWriter(store);
  for (let n = 0; n < MESSAGES; n++) {
    const message = makeMessage("a", `m${n}`, { content: "x".repeat(4_000) });
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }] });
  }
  await store.close();
  return (await stat(file)).size / PAGE;
}

/** Overwrite a page of a database; its first page has the number 0. */
async function damage(path: string, page: number): Promise<void> {
  const handle = await openFile(path, "r+");
  await handle.write(Buffer.alloc(PAGE, 0xa5), 0, PAGE, page * PAGE);
  await handle.close();
}

describe("opening a SQLite file", () => {
  test("opening a SQLite file creates its folder, and closing it leaves a single file behind", async () => {
    const path = join(folder, "a", "b", "interlock.db");
    const store = await open(path);
    await new FloorWriter(store).write();
    await store.close();
    expect((await readdir(join(folder, "a", "b"))).sort()).toEqual(["interlock.db", "interlock.db-lock"]);
  });

  test("a file has one owner, within this process and among all processes", async () => {
    const store = await open();
    const refusal = `${file} is in use by another Interlock`;
    await expect(open()).rejects.toThrow(refusal);
    await expect(start()).rejects.toThrow(refusal);
    await store.close();
    await (await start()).kill();
  });

  test("a link to a file has the same owner, and a file with two names is refused", async () => {
    const link = join(folder, "link.db");
    const other = join(folder, "elsewhere", "other.db");
    await symlink(file, link);
    // A link to a missing file creates that file.
    const store = await open(link);
    await expect(start()).rejects.toThrow(`${file} is in use by another Interlock`);
    await expect(open()).rejects.toThrow(`${file} is in use by another Interlock`);
    await mkdir(join(folder, "elsewhere"));
    await hardLink(file, other);
    await expect(open(other)).rejects.toThrow(`${other} has 2 names (hard links)`);
    await rm(other);
    expect(await new FloorWriter(store).write()).toBe("committed");
    await store.close();
    expect((await (await open()).loadFloor(ANN))?.version).toBe(1);
  });

  test("the files and their folder are readable by their owner only, including existing ones", async () => {
    const path = join(folder, "a", "b", "interlock.db");
    const modes = async (...names: string[]) =>
      await Promise.all(names.map(async (name) => ((await stat(join(folder, name))).mode & 0o777).toString(8)));
    const before = process.umask(0o022);
    onTestFinished(() => void process.umask(before));
    const store = await open(path);
    await new FloorWriter(store).write();
    const files = ["", "-lock", "-wal", "-shm"].map((suffix) => `a/b/interlock.db${suffix}`);
    expect(await modes("a", "a/b", ...files)).toEqual(["700", "700", "600", "600", "600", "600"]);
    await store.close();
    await chmod(path, 0o644);
    await chmod(join(folder, "a"), 0o755);
    await open(path);
    // The mode of an existing folder is left to its creator.
    expect(await modes("a", ...files)).toEqual(["755", "600", "600", "600", "600"]);
  });

  test("a database of the first schema is upgraded, and keeps its floors, sessions and run requests", async () => {
    const first = await open();
    const floor = await writeAsFirst(first);
    await first.close();
    const withoutRings = "DROP INDEX floors_by_ring; ALTER TABLE floors DROP COLUMN rings_at";
    execute(file, `${withoutRings}; ${TO_FIRST_SCHEMA}; PRAGMA user_version = 1`);
    const upgraded = await open();
    await expectUpgraded(upgraded, floor);
    await upgraded.close();
    await open();
  });

  test("a database of another checkout is refused, with what differs, and one with an index more is used", async () => {
    await (await open()).close();
    execute(file, "CREATE INDEX an_operators ON sessions (agent_id)");
    await (await open()).close();
    execute(file, "DROP INDEX sessions_due; CREATE INDEX sessions_due ON sessions (due_at)");
    const refusal =
      /interlock\.db was made by another checkout of Interlock: index sessions_due differs here\. Run the checkout/;
    await expect(open()).rejects.toThrow(refusal);
    await expect(restore(file, join(folder, "restored.db"))).rejects.toThrow(refusal);
  });

  test("a file that is not Interlock's database is refused with a sentence, and stays unchanged", async () => {
    const { text, foreign } = await makeForeign();
    await expect(open(text)).rejects.toThrow(`${text} is not a SQLite database`);
    await expect(open(foreign)).rejects.toThrow(`${foreign} is a SQLite database, but not one of Interlock's`);
    expect((await stat(text)).size).toBe(17);
  });

  test("a folder or a file that is not Interlock's database keeps its permissions when it is refused", async () => {
    const place = join(folder, "folder");
    const link = join(folder, "link.db");
    await mkdir(place);
    await chmod(place, 0o755);
    await symlink(place, link);
    for (const path of [place, link]) {
      await expect(open(path)).rejects.toThrow(`${path} cannot be opened: it is not a file`);
    }
    expect((await stat(place)).mode & 0o777).toBe(0o755);
    const { text, foreign } = await makeForeign();
    for (const path of [text, foreign]) {
      await chmod(path, 0o644);
      await expect(open(path)).rejects.toThrow("is ");
      expect((await stat(path)).mode & 0o777).toBe(0o644);
    }
    const locks = ["notes.txt-lock", "other.db-lock"];
    expect((await readdir(folder)).sort()).toEqual(["folder", "link.db", "notes.txt", "other.db", ...locks].sort());
  });

  test.each(["missing", "empty"])(
    "a database that is %s beside a log of commits is refused until it is put back",
    async (kind) => {
      const path = join(folder, "kept.db");
      const store = await open();
      await new FloorWriter(store).write();
      await copyFile(file, `${path}.away`);
      await copyFile(`${file}-wal`, `${path}-wal`);
      if (kind === "empty") await writeFile(path, "");
      // Each try is refused: the first one must not leave a file with which the second one would begin.
      for (let tries = 0; tries < 2; tries++) {
        await expect(open(path)).rejects.toThrow(
          `${path} is ${kind}, but ${path}-wal has commits of it: put the database back; or, for a new one, move ` +
            `${path}-wal away and keep it with the database that it belongs to`,
        );
      }
      await rename(`${path}.away`, path);
      expect((await (await open(path)).loadFloor(ANN))?.version).toBe(1);
    },
  );

  test("a damaged database is refused with the fault and the remedy", async () => {
    const pages = await fill();
    for (const page of [1, Math.floor(pages / 2)]) {
      const copy = join(folder, `damaged${page}.db`);
      await copyFile(file, copy);
      await damage(copy, page);
      await expect(open(copy)).rejects.toThrow(`${copy} is damaged (`);
      await expect(open(copy)).rejects.toThrow("restore a backup");
    }
  });

  test("a damaged database over 64 MiB is served, and its log has the fault and the remedy", async () => {
    const pages = await fill();
    const columns = "session_id, hash, mime_type, created_at, bytes";
    execute(file, `INSERT INTO blobs (${columns}) VALUES ('a', 'h', 'm', 0, zeroblob(70000000))`);
    // A page of the new row, which no request reads.
    await damage(file, pages + 100);
    const error = log.nextError();
    const store = await open();
    const fault = await error;
    expect(fault).toContain(`${file} is damaged (`);
    expect(fault).toContain("restore a backup");
    expect(store.faults()).toEqual(["the database is damaged: the log says what to do"]);
    expect((await store.loadFloor(ANN))?.version).toBe(MESSAGES);
    await store.saveJumps({ jumpedMs: 0, doubtUntil: 1 });
  });

  test("a write that meets a damaged page fails alone, and the damage is logged once", async () => {
    await fill();
    const db = new DatabaseSync(file);
    const found = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'connections'").get();
    const { rootpage } = found as { rootpage: number };
    db.close();
    const store = await open();
    await damage(file, rootpage - 1);
    const error = log.nextError();
    expect(store.faults()).toEqual([]);
    const row: ConnectionRow = { id: "c" as ConnectionId, slots: [], expiresAt: 1, version: 0 };
    const saved = Promise.allSettled([
      store.saveConnection(row),
      store.saveJumps({ jumpedMs: 0, doubtUntil: 1 }),
      store.saveConnection(row),
    ]);
    const lost = { status: "rejected", reason: expect.objectContaining({ code: "unavailable" }) };
    expect(await saved).toMatchObject([lost, { status: "fulfilled" }, lost]);
    expect(await error).toContain(`${file} is damaged (`);
    expect(store.faults()).toEqual(["the database is damaged: the log says what to do"]);
    expect(log.lines).toHaveLength(1);
  });

  test("a large intact database passes its check, which ends with the store", async () => {
    await fill();
    const threads = keepThreads();
    const store = await open(file, { startCheckSize: 0 });
    // -1: the thread has ended.
    await vi.waitUntil(() => threads[1]?.threadId === -1);
    expect(store.faults()).toEqual([]);
    expect(log.lines).toEqual([]);
    await store.close();
    await (await open(file, { startCheckSize: 0 })).close();
    expect(threads.map(({ threadId }) => threadId)).toEqual([-1, -1, -1, -1]);
    expect((await readdir(folder)).sort()).toEqual(["interlock.db", "interlock.db-lock"]);
  });

  test("`:memory:` is stored in a folder of its own that is gone after closing", async () => {
    vi.stubEnv("TMPDIR", folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    const store = await open(":memory:");
    expect(await readdir(folder)).toHaveLength(1);
    await store.close();
    expect(await readdir(folder)).toEqual([]);
  });
});

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
    const store = await open(file, { clock: virtual });
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
    const early = floors.slice(1, 750).map((floor) => floor.write());
    await first;
    // However busy the machine is, the thread has not written these before it is told to end.
    const late = floors.slice(750).map((floor) => floor.write());
    await thread.terminate();
    const results = await Promise.allSettled([...early, ...late]);
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
    for (let tries = 0; tries < 2; tries++) {
      await expect(floor.write()).rejects.toMatchObject({ code: "unavailable" });
    }
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
      // In one iteration of the event loop, so in one transaction: it is rolled back, and each change is written
      // separately.
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
    execute(file, "UPDATE floors SET version = 7");
    expect(await store.commit(ann.change({ receipts: [ann.receipt("c1")] }))).toBe("conflict");
    // Nothing of it is stored, and the next change is based on what is stored.
    expect(await store.findReceipts([{ caller: "ann", commandId: "c1" }])).toEqual([]);
    ann.version = 7;
    expect(await store.commit(ann.change({ receipts: [ann.receipt("c1")] }))).toBe("committed");
    expect(await store.confirm(ANN, 8)).toBe(true);
  });

  test("the writer's cached rows cover the indexed columns: title, state and last activity", async () => {
    let store: Store = await open();
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
    store = await open();
    ann.continueIn(store);
    await ann.write({ sessions: [ann.session("a", { title: "third", state: "archived" })] });
    expect([await found({ q: "second" }), await found({ q: "third" })]).toEqual([[], ["a third"]]);
  });
});

describe("stored data", () => {
  test("no row of the log holds more than 64 KiB", async () => {
    const store = await open();
    const floor = new FloorWriter(store);
    const events = [65_000, 70_000, 400_000].map((n) => floor.event("data", "x".repeat(n), { session: "a" }));
    const message = makeMessage("a", "m", { content: "航".repeat(50_000) });
    events.push(floor.event("message", message, { session: "a" }));
    await floor.write({ sessions: [floor.session("a")], messages: [{ kind: "add", message }], events });
    await store.close();
    const db = new DatabaseSync(file);
    const found = db.prepare("SELECT max(octet_length(json)) AS largest FROM events").get();
    db.close();
    expect(found!["largest"]).toBeLessThanOrEqual(65_536);
  });
});

test("floors whose sessions' time comes before their alarm are found, until the alarm is set anew", async () => {
  const store = await open();
  const write = async (id: string, alarm: number, rings?: number) => {
    const floor = new FloorWriter(store, id);
    await floor.write({ alarm, rings });
    return floor;
  };
  const one = await write("u:one", 10_000, 10_100);
  await write("u:other", 500, 10_050);
  await write("u:third", 10_000);
  // The wall clock is as far ahead as it was, then by nine seconds more.
  expect(await store.lateRings(20_000, 100, 10)).toEqual([]);
  expect(await store.lateRings(20_000, 9_100, 10)).toEqual([one.id]);
  expect(await store.lateRings(10_099, 9_100, 10)).toEqual([]);
  await one.write({ alarm: 1_000, rings: 10_100 });
  expect(await store.lateRings(20_000, 9_100, 10)).toEqual([]);
});
