import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readHome } from "../../../../src/agents/process/home.ts";
import { makeFolder } from "../../../support/stores/sqlite-place.ts";

async function openHome(): Promise<string> {
  const { folder, remove } = await makeFolder();
  onTestFinished(remove);
  return folder;
}

test("workers that share a home folder give it the same name, which does not change", async () => {
  const HOME = await openHome();
  const names = await Promise.all(["a", "b", "c"].map((name) => readHome({ HOME }, name)));
  expect(new Set(names).size).toBe(1);
  expect(await readHome({ HOME }, "later")).toBe(names[0]);
  expect(await readHome({ HOME, XDG_STATE_HOME: join(HOME, "state") }, "other")).toBe("other");
});

test("a home folder that is missing, is not writable, or contains other files has no name", async () => {
  const HOME = await openHome();
  const folder = join(HOME, ".local", "state", "interlock");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "home"), "no name at all!");
  expect(await readHome({ HOME }, "a")).toBeUndefined();
  expect(await readHome({}, "a")).toBeUndefined();
  expect(await readHome({ HOME: "/dev/null" }, "a")).toBeUndefined();
});
