import { execFile } from "node:child_process";
import { copyFile, mkdir, readdir, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import type { Worker } from "node:worker_threads";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { AppError } from "../../src/protocol/errors.ts";
import type { FloorId, SessionId } from "../../src/protocol/ids.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { FloorWriter, makeMessage } from "../support/floor-writer.ts";
import { KeptLog, makeFolder, StandingClock } from "../support/sqlite-place.ts";
import { StoreProcess } from "../support/store-process.ts";

const run = promisify(execFile);
const ANN = "u:ann" as FloorId;
const A = "a" as SessionId;

let folder: string;
let file: string;
let clock: StandingClock;
let log: KeptLog;

beforeEach(async () => {
  const made = await makeFolder();
  ({ folder, file } = made);
  clock = new StandingClock();
  log = new KeptLog();
  onTestFinished(made.remove);
});

/** Open the file; closed when the test ends, if not before. */
async function open(path = file): Promise<Store> {
  const store = await openSqliteStore({ file: path, clock, log });
  onTestFinished(() => store.close());
  return store;
}

/** Open the file in a process of its own. */
async function start(options?: { maxFileKib: number }): Promise<StoreProcess> {
  const process = await StoreProcess.start(file, options);
  onTestFinished(() => process.kill());
  return process;
}

describe("opening a SQLite file", () => {
  test("makes its folder, and leaves one tidy file behind when it is closed", async () => {
    const path = join(folder, "a", "b", "interlock.db");
    const store = await open(path);
    await new FloorWriter(store).write();
    await store.close();
    expect((await readdir(join(folder, "a", "b"))).sort()).toEqual(["interlock.db", "interlock.db-lock"]);
  });

  test("a file has one owner, in this process and in any other", async () => {
    const store = await open();
    const refusal = `${file} is in use by another Interlock`;
    await expect(open()).rejects.toThrow(refusal);
    await expect(start()).rejects.toThrow(refusal);
    await store.close();
    await (await start()).kill();
  });

  test("an owner that was killed leaves the file to the next one", async () => {
    const owner = await start();
    await expect(open()).rejects.toThrow("in use");
    await owner.kill();
    await open();
  });

  test("a database newer than the program is refused, and stays as it is", async () => {
    await (await open()).close();
    const db = new DatabaseSync(file);
    db.exec("PRAGMA user_version = 99");
    db.close();
    const refusal = expect(open()).rejects;
    await refusal.toThrow(/interlock\.db has version 99, newer than the \d+ this program knows/);
    await expect(open()).rejects.toThrow("run a newer Interlock, or restore a backup made before the upgrade");
  });

  test("what is no database of ours is refused with a sentence, and stays as it is", async () => {
    const text = join(folder, "notes.txt");
    await writeFile(text, "remember the milk");
    await expect(open(text)).rejects.toThrow(`${text} is not a SQLite database`);
    const foreign = join(folder, "other.db");
    const db = new DatabaseSync(foreign);
    db.exec("CREATE TABLE songs (title TEXT)");
    db.close();
    await expect(open(foreign)).rejects.toThrow(`${foreign} is a SQLite database, but not one of Interlock's`);
    await mkdir(join(folder, "folder"));
    await expect(open(join(folder, "folder"))).rejects.toThrow("cannot be opened");
    expect((await stat(text)).size).toBe(17);
  });

  test("a file that could not be opened is not kept locked", async () => {
    await writeFile(file, "nothing of ours");
    await expect(open()).rejects.toThrow("not a SQLite database");
    await writeFile(file, "");
    await open();
  });

  test("`:memory:` lies in a folder of its own that is gone after closing", async () => {
    vi.stubEnv("TMPDIR", folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    const store = await open(":memory:");
    expect(await readdir(folder)).toHaveLength(1);
    await store.close();
    expect(await readdir(folder)).toEqual([]);
  });
});

describe("a store whose process is killed", () => {
  test("has everything that was answered, and nothing by halves", async () => {
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
    // Under way when the process dies, so never answered.
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
  const canLift = process.platform === "linux";

  test.skipIf(!canLift)(
    "refuses writes while the disk is full, goes on reading, and recovers (needs prlimit)",
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
      expect((await store.viewSession(A, 1_000))?.messages).toHaveLength(count);
    },
    30_000,
  );

  /** The store, and the thread that writes for it. */
  async function openWithThread(): Promise<{ store: Store; thread: Worker }> {
    const threads: Worker[] = [];
    const keep = (thread: Worker) => threads.push(thread);
    process.on("worker", keep);
    const store = await open();
    process.off("worker", keep);
    return { store, thread: threads[0]! };
  }

  test("refuses writes when its thread is lost, goes on reading, and starts another", async () => {
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

  test("answers everything that its thread had when it was lost", async () => {
    const { store, thread } = await openWithThread();
    const floors = Array.from({ length: 600 }, (_, index) => new FloorWriter(store, `u:${index}`));
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

  test("a file that was taken away is not replaced by an empty one", async () => {
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

  test("a change that cannot be sent to a thread hurts nobody else", async () => {
    const store = await open();
    const [ann, bob] = [new FloorWriter(store), new FloorWriter(store, "u:bob")];
    const broken = { ...ann.change(), snapshot: (() => "") as unknown as string };
    const results = await Promise.allSettled([store.commit(broken), bob.write()]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect((results[0] as PromiseRejectedResult).reason).not.toBeInstanceOf(AppError);
  });
});

describe("what is stored", () => {
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
