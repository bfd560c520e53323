import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { readSettings } from "../../../src/config/settings.ts";
import { readPage, root } from "../../docs/page.ts";
import { testWith } from "../../support/programs/suites.ts";

const UNIT = "deploy/interlock.service";
const text = await readFile(join(root, UNIT), "utf8");
const valuesOf = (key: string) => [...text.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value]) => value!);

test("the unit of a node starts it again whenever it ends, with settings that it has, and lets it drain", () => {
  expect(valuesOf("Restart")).toEqual(["always"]);
  // No number of tries after which systemd gives up.
  expect(valuesOf("StartLimitIntervalSec")).toEqual(["0"]);
  expect(valuesOf("ExecStart")).toEqual(["/usr/bin/env interlock serve"]);
  const env = Object.fromEntries(valuesOf("Environment").map((line) => line.split(/=(.*)/s).slice(0, 2)));
  const settings = readSettings(env, []);
  if (!("settings" in settings)) throw new Error(JSON.stringify(settings));
  const [state] = valuesOf("StateDirectory");
  expect(env["INTERLOCK_STORE"]).toMatch(new RegExp(`^sqlite:/var/lib/${state}/`));
  expect(Number(valuesOf("TimeoutStopSec")[0]) * 1_000).toBeGreaterThan(settings.settings.drainMs + 2_000);
  expect(readPage("docs/operate/operations.md").text).toContain(UNIT);
});

testWith(["systemd"], "systemd finds no fault in the unit of a node", async () => {
  const { stdout, stderr } = await promisify(execFile)("systemd-analyze", ["verify", "--man=no", join(root, UNIT)]);
  expect(stdout + stderr).not.toContain("interlock");
});

testWith(["systemd"], "systemd finds a node's unit hardly exposed", async () => {
  // In tenths: it ends with a failure beyond. Agents need the network, namespaces and system calls of their sandboxes.
  await promisify(execFile)("systemd-analyze", ["security", "--offline=true", "--threshold=50", join(root, UNIT)]);
});
