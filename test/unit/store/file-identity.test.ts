import { statSync } from "node:fs";
import { copyFile, rename, rm, utimes, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { FileGuard, FileInUse, FileMoved, identityOf, lockOf } from "../../../src/store/sqlite/file-identity.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

let file: string;
let now: number;
/** The names of what the guard read, in order. */
let read: string[];

beforeEach(async () => {
  const folder = await makeFolder();
  onTestFinished(folder.remove);
  file = folder.file;
  for (const name of [file, `${file}-wal`, lockOf(file)]) await writeFile(name, "old");
  now = 0;
  read = [];
});

function watch(): FileGuard {
  return new FileGuard(
    file,
    { database: identityOf(file), lock: identityOf(lockOf(file)) },
    {
      monotonic: () => now,
      stat(path) {
        read.push(path === dirname(file) ? "folder" : basename(path));
        return statSync(path, { bigint: true, throwIfNoEntry: false });
      },
    },
  );
}

/** A guard that trusts the folder's time of change. */
function watchSettled(): FileGuard {
  const guard = watch();
  guard.check();
  now += 3_000;
  guard.check();
  read = [];
  return guard;
}

test("the times of the write-ahead log are not read again once the folder has stayed the same for 3 s", () => {
  const names = ["folder", basename(file), basename(lockOf(file)), `${basename(file)}-wal`];
  const guard = watch();
  guard.check();
  now += 2_999;
  guard.check();
  expect(read).toEqual([...names, ...names]);
  now += 1;
  guard.check();
  read = [];
  guard.checkFile();
  guard.check();
  expect(read).toEqual(["folder", "folder"]);
});

test("a folder that changes is checked file by file until it has stayed the same for 3 s again", async () => {
  const guard = watchSettled();
  await writeFile(join(dirname(file), "another"), "");
  guard.check();
  now += 3_000;
  guard.check();
  expect(read).toHaveLength(8);
  guard.check();
  expect(read).toHaveLength(9);
});

for (const [what, guardNow] of [
  ["at first", watch],
  ["once the folder is trusted", watchSettled],
] as const) {
  test(`a database that is moved, replaced or put back is noticed ${what}`, async () => {
    const guard = guardNow();
    guard.check();
    await rename(file, `${file}.away`);
    expect(() => guard.checkFile()).toThrow(FileMoved);
    expect(() => guard.check()).toThrow(`${file} was moved, removed or replaced`);
    await copyFile(`${file}.away`, file);
    now += 10_000;
    expect(() => guard.checkFile()).toThrow(FileMoved);
    expect(() => guard.check()).toThrow(FileMoved);
    await rename(`${file}.away`, file);
    guard.checkFile();
    guard.check();
  });

  test(`another owner's lock is noticed ${what}, and a removed lock is not refused`, async () => {
    const guard = guardNow();
    await rename(lockOf(file), `${file}.away`);
    guard.checkFile();
    guard.check();
    await writeFile(lockOf(file), "new");
    expect(() => guard.checkFile()).toThrow(FileInUse);
    now += 10_000;
    expect(() => guard.check()).toThrow(`${file} was opened by another process, after ${lockOf(file)} was removed`);
    await rename(`${file}.away`, lockOf(file));
    guard.check();
  });

  test(`a write-ahead log that is removed or replaced is noticed ${what}`, async () => {
    const guard = guardNow();
    guard.check();
    await rename(`${file}-wal`, `${file}.away`);
    expect(() => guard.check()).toThrow(`${file}-wal was moved, removed or replaced`);
    await copyFile(`${file}.away`, `${file}-wal`);
    now += 10_000;
    expect(() => guard.check()).toThrow(FileMoved);
    await rename(`${file}.away`, `${file}-wal`);
    guard.check();
  });
}

test("a replacement that sets the folder's old time of modification is noticed", async () => {
  const modified = 1_000_000_000;
  await utimes(dirname(file), modified, modified);
  const guard = watchSettled();
  await copyFile(file, `${file}.new`);
  await rename(`${file}.new`, file);
  await utimes(dirname(file), modified, modified);
  expect(() => guard.checkFile()).toThrow(FileMoved);
});

test("a folder that is moved, removed or replaced is noticed", async () => {
  const guard = watchSettled();
  const folder = dirname(file);
  await rename(folder, `${folder}.away`);
  expect(() => guard.checkFile()).toThrow(FileMoved);
  now += 10_000;
  expect(() => guard.check()).toThrow(FileMoved);
  await rename(`${folder}.away`, folder);
  guard.check();
  await rm(folder, { recursive: true });
  expect(() => guard.check()).toThrow(FileMoved);
});
