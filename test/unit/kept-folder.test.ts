import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { keptFolder } from "../support/runner/kept-folder.ts";

/** Keeps folders under a separate name, and counts how often one was made. */
function keeper() {
  const name = randomUUID();
  const made: string[] = [];
  const keep = async (key: string[], fill = (folder: string) => writeFile(join(folder, "text"), key.join())) => {
    const folder = await keptFolder(name, key, async (making) => {
      made.push(making);
      await fill(making);
    });
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    return folder;
  };
  return { keep, made };
}

test("a cached folder is made once for each key", async () => {
  const { keep, made } = keeper();
  const first = await keep(["a", "b"]);
  expect(await keep(["a", "b"])).toBe(first);
  expect(made).toHaveLength(1);
  const second = await keep(["ab"]);
  expect(await readFile(join(second, "text"), "utf8")).toBe("ab");
  expect(await readFile(join(first, "text"), "utf8")).toBe("a,b");
});

test("a folder that could not be filled is not kept", async () => {
  const { keep, made } = keeper();
  await expect(keep(["a"], () => Promise.reject(new Error("the disk is full")))).rejects.toThrow("the disk is full");
  await keep(["a"]);
  expect(made).toHaveLength(2);
  expect(made.filter((folder) => existsSync(folder))).toEqual([]);
});

test("processes that make the same folder at the same time get the same one", async () => {
  const { keep, made } = keeper();
  const folders = await Promise.all([keep(["a"]), keep(["a"]), keep(["a"])]);
  expect(new Set(folders).size).toBe(1);
  expect(made.filter((folder) => existsSync(folder))).toEqual([]);
  expect(await readFile(join(folders[0]!, "text"), "utf8")).toBe("a");
});
