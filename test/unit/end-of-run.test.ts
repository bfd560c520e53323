import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { INSTALL } from "../support/programs/programs.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";

const root = resolve(import.meta.dirname, "../..");
const TESTS = `import { expect, test } from "vitest";
  const tries = new Map();
  const count = (name) => tries.set(name, (tries.get(name) ?? 0) + 1).get(name);
  test("steady", () => {});
  test("shaky", ({ task }) => expect(count(task.name), "tries").toBeGreaterThan(1));
  test("broken", () => { throw new Error("always\\nthe same"); });`;

/** The output and exit code of a run of these tests with the project's reporter. */
async function run(
  settings: object,
  { tests = TESTS, isCi = false } = {},
): Promise<{ printed: string; code: unknown; repeated: string }> {
  const { folder } = await makeFolder(onTestFinished);
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await writeFile(join(folder, "a.test.js"), tests);
  const reporter = JSON.stringify(join(root, "test/support/runner/end-of-run.ts"));
  const reporters = `["default", new EndOfRun(${isCi})]`;
  await writeFile(
    join(folder, "vitest.config.js"),
    `import { EndOfRun } from ${reporter};
    export default { test: { reporters: ${reporters}, ...${JSON.stringify(settings)} } };`,
  );
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  return new Promise((done) => {
    const kept = join(folder, "repeated");
    const env = { ...process.env, CI: isCi ? "true" : "", NO_COLOR: "1", TEST_REPEATED: kept };
    execFile(process.execPath, [vitest, "run"], { cwd: folder, env }, (error, stdout) => {
      const repeated = existsSync(kept) ? readFileSync(kept, "utf8") : "";
      done({ printed: stdout, code: error?.code ?? 0, repeated });
    });
  });
}

const suites = JSON.stringify(join(root, "test/support/programs/suites.ts"));
/** Beside them a suite that needs two programs, of which one is there. */
const WITH_A_SUITE = `${TESTS}
  import { describeWith } from ${suites};
  const start = () => { console.log("STARTED"); return start; };
  const server = (program) => ({ program, ways: ["machine"], start });
  describeWith([server("postgres"), server("redis")], "both servers", (startPostgres) => {
    startPostgres();
    test("both", () => {});
  });`;
const provide = { found: { postgres: { machine: "/usr/bin/postgres" } } };

test("CI lists each test that was retried, at its end, and the slowest files; a suite without its programs fails", async () => {
  const { printed, code, repeated } = await run({ retry: 2, provide }, { tests: WITH_A_SUITE, isCi: true });
  const end = printed.slice(printed.indexOf("REPEATED"));
  expect(end).toMatch(/^REPEATED {2}tests that failed and ran again: 3\n/);
  expect(end).toContain("a.test.js > shaky (try 2 passed; the first: tries: expected 1 to be greater than 1)");
  expect(end).toContain("a.test.js > broken (try 3 failed too; the first: always)");
  expect(end).toContain("a.test.js > both servers (needs Redis) (try 3 failed too; the first: both servers was not ");
  expect(end).not.toContain("steady");
  expect(end).toMatch(/SLOWEST {2}files.*\n +\d+\.\d +\d+\.\d {2}a\.test\.js\n/);
  expect([code, printed.includes("STARTED"), printed.includes("LEFT OUT")]).toEqual([1, false, false]);
  // For the line at the very end of what CI runs.
  expect(repeated).toMatch(/^a\.test\.js > shaky\na\.test\.js > broken\na\.test\.js > both servers .*\n$/);
});

test("outside CI a test that passed at its second try is to be reported, and a suite without its programs is left out by name, before one is started", async () => {
  const { printed, code, repeated } = await run({ retry: 1, provide }, { tests: WITH_A_SUITE });
  const shaky = "passed at the second try: a.test.js > shaky (the first: tries: expected 1 to be greater than 1); ";
  expect([code, printed.match(/ passed at .*/g)]).toEqual([1, [` ${shaky}please report it`]]);
  const unwanted = ["REPEATED", "STARTED", "SLOWEST"].filter((word) => printed.includes(word));
  expect([unwanted, repeated]).toEqual([[], ""]);
  expect(printed.trimEnd().split("\n").at(-1)).toBe(
    ` LEFT OUT  1 suite was left out, for want of Redis (1). On Debian, this installs all of them: ${INSTALL}`,
  );
});

test("TEST_SECOND_TRY makes the first attempt of each test fail, so that the second one counts", async () => {
  const setupFiles = [join(root, "test/support/runner/failing-first-try.ts")];
  const { printed } = await run({ retry: 2, setupFiles }, { isCi: true });
  expect(printed).toContain("a.test.js > steady (try 2 passed; the first: the first try fails on purpose)");
});
