import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { keptFolder } from "../support/runner/kept-folder.ts";

/** The folders of this test are apart from those that other tests keep. */
function stage() {
  const name = `test-${randomUUID()}`;
  const write = vi.fn(async (folder: string) => writeFile(join(folder, "text"), `${write.mock.calls.length}`));
  const kept = new Set<string>();
  onTestFinished(async () => {
    for (const folder of kept) await rm(folder, { recursive: true, force: true });
  });
  const keep = async (key: readonly string[], make: (folder: string) => Promise<void> = write) => {
    const folder = await keptFolder(name, key, make);
    kept.add(folder);
    return folder;
  };
  return { write, keep };
}

const textIn = (folder: string) => readFile(join(folder, "text"), "utf8");

test("a folder is made once for its key", async () => {
  const { write, keep } = stage();
  const folder = await keep(["a", "b"]);
  expect(await keep(["a", "b"])).toBe(folder);
  expect(write).toHaveBeenCalledTimes(1);
  expect(await textIn(folder)).toBe("1");
});

test.each([[["a", "c"]], [["ab"]], [["", "ab"]], [["b", "a"]], [["a", "b", ""]]])(
  "another key makes another folder: %j",
  async (key) => {
    const { keep } = stage();
    const folder = await keep(["a", "b"]);
    const other = await keep(key);
    expect(other).not.toBe(folder);
    expect([await textIn(folder), await textIn(other)]).toEqual(["1", "2"]);
  },
);

test("of several processes that make a folder at once the first one is kept, and nothing else is left", async () => {
  const { keep } = stage();
  const all = Promise.withResolvers<void>();
  let begun = 0;
  const made: string[] = [];
  const together = async (folder: string) => {
    made.push(folder);
    await writeFile(join(folder, "text"), folder);
    if (++begun === 3) all.resolve();
    await all.promise;
  };
  const folders = await Promise.all([1, 2, 3].map(() => keep(["a"], together)));
  expect(new Set(folders).size).toBe(1);
  expect(made).toContain(await textIn(folders[0]!));
  expect(made.filter((folder) => existsSync(folder))).toEqual([]);
});

test("a folder that could not be made is not kept, and is made the next time", async () => {
  const { keep } = stage();
  let making = "";
  const failed = keep(["a"], async (folder) => {
    making = folder;
    await writeFile(join(folder, "text"), "half");
    throw new Error("the disk is full");
  });
  await expect(failed).rejects.toThrow("the disk is full");
  expect(existsSync(making)).toBe(false);
  expect(await textIn(await keep(["a"]))).toBe("1");
});

test("a folder of the same name that is older than a day is removed when another is made, and a younger one stays", async () => {
  const { keep } = stage();
  const [old, young] = [await keep(["old"]), await keep(["young"])];
  const before = (hours: number) => new Date(Date.now() - hours * 3_600_000);
  await utimes(old, before(25), before(25));
  await utimes(young, before(23), before(23));
  const left = `${dirname(old)}/making-${randomUUID()}`;
  await mkdir(left);
  await utimes(left, before(25), before(25));
  const current = await keep(["current"]);
  const names = await readdir(dirname(old));
  expect([old, young, left, current].map((folder) => names.includes(folder.split("/").at(-1)!))).toEqual([
    false,
    true,
    false,
    true,
  ]);
});
