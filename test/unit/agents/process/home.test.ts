import { execFile } from "node:child_process";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
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
  for (let round = 0; round < 40; round++) {
    const XDG_STATE_HOME = join(HOME, `state ${round}`);
    const names = await Promise.all(["a", "b", "c", "d"].map((name) => readHome({ XDG_STATE_HOME }, name)));
    expect([...new Set(names)]).toEqual([expect.stringMatching(/^[a-d]$/)]);
    expect(await readHome({ XDG_STATE_HOME }, "later")).toBe(names[0]);
    expect(await readdir(join(XDG_STATE_HOME, "interlock"))).toEqual(["home"]);
  }
  expect(await readHome({ HOME }, "one")).toBe("one");
  expect(await readHome({ HOME, XDG_STATE_HOME: join(HOME, "other") }, "two")).toBe("two");
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

// On /proc the system answers ENOENT to every mkdir, which Node's own recursive mkdir repeats without end. It would
// hang this process, so another one asks.
test.runIf(process.platform === "linux")("a home folder that the system does not create has no name", async () => {
  const home = new URL("../../../../src/agents/process/home.ts", import.meta.url);
  const script = `import { readHome } from "${home}"; console.log(await readHome({ HOME: "/proc/none" }, "a"));`;
  const asked = promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  expect((await asked).stdout).toBe("undefined\n");
});
