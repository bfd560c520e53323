import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { settingFaultsOf, settingsOf } from "../../support/catalogs/settings.ts";

const folder = mkdtempSync(join(tmpdir(), "interlock-secret-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "store");
writeFileSync(file, "sqlite:of-the-file.db\n");
const empty = join(folder, "empty");
writeFileSync(empty, "\n");

it.each([
  [{ INTERLOCK_STORE_FILE: file }, "of-the-file.db"],
  // As in the unit of systemd, whose own value is emptied.
  [{ INTERLOCK_STORE: "", INTERLOCK_STORE_FILE: file }, "of-the-file.db"],
  [{ INTERLOCK_STORE: "sqlite:itself.db", INTERLOCK_STORE_FILE: file }, "itself.db"],
  [{ INTERLOCK_STORE: "", INTERLOCK_STORE_FILE: "" }, "data/interlock.db"],
])("an empty variable is unset, and its file has its value: %j", (env, at) => {
  expect(settingsOf(env).store).toEqual({ kind: "sqlite", file: at });
});

it("a file without a value is a fault, because the node would open another store", () => {
  const fault = "names a file that cannot be read, is empty, or has more than 64 KiB";
  for (const path of [join(folder, "none"), folder, empty]) {
    const env = { INTERLOCK_STORE_FILE: path, INTERLOCK_BUS_FILE: path };
    expect(settingFaultsOf(env)).toEqual([`INTERLOCK_STORE_FILE: ${fault}`, `INTERLOCK_BUS_FILE: ${fault}`]);
    expect(settingFaultsOf({ ...env, INTERLOCK_STORE: "sqlite::memory:", INTERLOCK_BUS: "memory" })).toEqual([]);
  }
});
