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
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { ConnectionId, FloorId } from "../../../src/protocol/ids.ts";
import type { ConnectionRow } from "../../../src/store/store.ts";
import { FloorWriter, makeMessage } from "../../support/stores/floor-writer.ts";
import { keepThreads, makePlace, openStore } from "../../support/stores/opened-store.ts";
import type { KeptLog, StandingClock } from "../../support/stores/sqlite-place.ts";
import { StoreProcess } from "../../support/stores/store-process.ts";

const ANN = "u:ann" as FloorId;

/** A page of the database, in bytes. */
const PAGE = 4_096;
let folder: string;
let file: string;
let clock: StandingClock;
let log: KeptLog;

beforeEach(async () => {
  ({ folder, file, clock, log } = await makePlace());
});

const open = (path = file, options?: { startCheckSize: number }) => openStore({ file: path, clock, log, ...options });

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

/** Open the file in a separate process. */
async function start(options?: { maxFileKib: number }): Promise<StoreProcess> {
  const process = await StoreProcess.start(file, options);
  onTestFinished(() => process.kill());
  return process;
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

  test("an owner that was killed leaves the file to the next one", async () => {
    const owner = await start();
    await expect(open()).rejects.toThrow("in use");
    await owner.kill();
    await open();
  });

  test("a database newer than the program is refused, and stays unchanged", async () => {
    await (await open()).close();
    const db = new DatabaseSync(file);
    db.exec("PRAGMA user_version = 99");
    db.close();
    const refusal = expect(open()).rejects;
    await refusal.toThrow(/interlock\.db has version 99, newer than the \d+ this program knows/);
    await expect(open()).rejects.toThrow("run a newer Interlock, or restore a backup made before the upgrade");
  });

  test("a file that is not Interlock's database is refused with a sentence, and stays unchanged", async () => {
    const text = join(folder, "notes.txt");
    await writeFile(text, "remember the milk");
    await expect(open(text)).rejects.toThrow(`${text} is not a SQLite database`);
    const foreign = join(folder, "other.db");
    const db = new DatabaseSync(foreign);
    db.exec("CREATE TABLE songs (title TEXT)");
    db.close();
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
    const text = join(folder, "notes.txt");
    await writeFile(text, "remember the milk");
    const foreign = join(folder, "other.db");
    const db = new DatabaseSync(foreign);
    db.exec("CREATE TABLE songs (title TEXT)");
    db.close();
    for (const path of [text, foreign]) {
      await chmod(path, 0o644);
      await expect(open(path)).rejects.toThrow("is ");
      expect((await stat(path)).mode & 0o777).toBe(0o644);
    }
    expect((await readdir(folder)).sort()).toEqual([
      "folder",
      "link.db",
      "notes.txt",
      "notes.txt-lock",
      "other.db",
      "other.db-lock",
    ]);
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
    const db = new DatabaseSync(file);
    db.exec(
      "INSERT INTO blobs (session_id, hash, mime_type, created_at, bytes) VALUES ('a', 'h', 'm', 0, zeroblob(70000000))",
    );
    db.close();
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
    const { rootpage } = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'connections'").get() as {
      rootpage: number;
    };
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

  test("a large intact database passes its check", async () => {
    await fill();
    const threads = keepThreads();
    const store = await open(file, { startCheckSize: 0 });
    // -1: the thread has ended.
    await vi.waitUntil(() => threads[1]?.threadId === -1, { timeout: 20_000 });
    expect(store.faults()).toEqual([]);
    expect(log.lines).toEqual([]);
  });

  test("the check of a large database ends with the store", async () => {
    await fill();
    const threads = keepThreads();
    const store = await open(file, { startCheckSize: 0 });
    await store.close();
    // -1: the thread has ended.
    expect(threads.map(({ threadId }) => threadId)).toEqual([-1, -1]);
    expect((await readdir(folder)).sort()).toEqual(["interlock.db", "interlock.db-lock"]);
  });

  test("a file that could not be opened is not kept locked", async () => {
    await writeFile(file, "nothing of ours");
    await expect(open()).rejects.toThrow("not a SQLite database");
    await writeFile(file, "");
    await open();
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
