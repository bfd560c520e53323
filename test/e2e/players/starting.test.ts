/** How the bridge starts: what it says where something is missing, and the unit of systemd. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { startSessionBus } from "../../../examples/car/session-bus.ts";
import { readPage, root } from "../../docs/page.ts";
import { end } from "../../support/desktops/desktop.ts";
import { withoutPackage } from "../../support/nodes/cli.ts";
import { testWith } from "../../support/programs/suites.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const UNIT = "deploy/interlock-players.service";
const CLI = join(root, "src/cli/main.ts");
const run = promisify(execFile);

/** Start the bridge, which ends by itself. `flags` are Node's. @returns what it printed on stderr */
async function failureOf(env: NodeJS.ProcessEnv, { flags = [] as string[], args = [] as string[] } = {}) {
  const { folder } = await makeFolder(onTestFinished);
  const own = { HOME: folder, XDG_STATE_HOME: folder, DBUS_SESSION_BUS_ADDRESS: `unix:path=${folder}/bus`, ...env };
  const started = run(process.execPath, [...flags, CLI, "players", ...args], { cwd: folder, env: own });
  const { code, stderr } = await started.then(
    () => ({ code: 0, stderr: "" }),
    (error: { code: number; stderr: string }) => error,
  );
  expect(code).toBe(1);
  return stderr;
}

test("without the library of D-Bus the bridge says how to install it", async () => {
  const said = await failureOf({}, { flags: withoutPackage("@jellybrick/dbus-next") });
  expect(said).toMatch(/^interlock: .* npm install @jellybrick\/dbus-next@\d+\.\d+\.\d+\n$/);
});

test("without a session bus the bridge ends with a sentence, and a faulty file is named with its lines", async () => {
  expect(await failureOf({})).toMatch(/^interlock: the session bus cannot be reached: .*\n$/);
  const faulty = join(root, "config/car.yaml");
  expect(await failureOf({}, { args: [faulty] })).toMatch(/^interlock: \S*car\.yaml:\d+:\d+ /);
});

testWith(["dbus"], "without pactl the bridge says what to install", async () => {
  const { folder } = await makeFolder(onTestFinished);
  const socket = join(folder, "bus");
  const bus = await startSessionBus(socket, process.env);
  onTestFinished(() => end(bus));
  const said = await failureOf({ DBUS_SESSION_BUS_ADDRESS: `unix:path=${socket}`, PATH: "/nonexistent" });
  expect(said).toMatch(/^interlock: .*pactl: apt install pulseaudio-utils\n$/);
});

test("the unit of systemd starts the bridge again whenever it ends, with flags that the bridge has", async () => {
  const text = await readFile(join(root, UNIT), "utf8");
  const unit = new Map([...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, key, value]) => [key, value]));
  expect(unit.get("Restart")).toBe("always");
  // No number of tries after which systemd gives up.
  expect(unit.get("StartLimitIntervalSec")).toBe("0");
  const [env, interlock, verb, ...args] = unit.get("ExecStart")!.split(" ");
  expect([env, interlock, verb]).toEqual(["/usr/bin/env", "interlock", "players"]);
  // Its command line is valid: it gets as far as a file that is not there.
  expect(await failureOf({}, { args: [...args, "nowhere.yaml"] })).toContain("nowhere.yaml");
  for (const page of ["docs/use/players.md", "docs/use/players.zh.md"]) expect(readPage(page).text).toContain(UNIT);
});

testWith(["systemd"], "systemd finds no fault in the unit", async () => {
  const { folder } = await makeFolder(onTestFinished);
  const verify = ["verify", "--user", "--man=no", join(root, UNIT)];
  const { stdout, stderr } = await run("systemd-analyze", verify, { env: { ...process.env, XDG_RUNTIME_DIR: folder } });
  expect(stdout + stderr).not.toContain("interlock-players");
});
