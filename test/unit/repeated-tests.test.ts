import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const TESTS = `import { expect, test } from "vitest";
  const tries = new Map();
  const count = (name) => tries.set(name, (tries.get(name) ?? 0) + 1).get(name);
  test("steady", () => {});
  test("shaky", ({ task }) => expect(count(task.name), "tries").toBeGreaterThan(1));
  test("broken", () => { throw new Error("always\\nthe same"); });`;

/** The output of a run of these tests, with two retries of each and the project's reporter. */
async function run(settings: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "interlock-repeated-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await writeFile(join(folder, "a.test.js"), TESTS);
  const reporter = JSON.stringify(join(root, "test/support/runner/repeated-tests.ts"));
  await writeFile(
    join(folder, "vitest.config.js"),
    `import { RepeatedTests } from ${reporter};
    export default { test: { retry: 2, reporters: ["default", new RepeatedTests()], ...${JSON.stringify(settings)} } };`,
  );
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  return new Promise((done) => {
    const env = { ...process.env, NO_COLOR: "1" };
    execFile(process.execPath, [vitest, "run"], { cwd: folder, env }, (_, stdout) => done(stdout));
  });
}

test("a test run lists each test that was retried, at its end, with the failure of the first attempt", async () => {
  const printed = await run({});
  const end = printed.slice(printed.indexOf("REPEATED"));
  expect(end).toMatch(/^REPEATED {2}tests that failed and ran again: 2\n/);
  expect(end).toContain("a.test.js > shaky (try 2 passed; the first: tries: expected 1 to be greater than 1)");
  expect(end).toContain("a.test.js > broken (try 3 failed too; the first: always)");
  expect(end).not.toContain("steady");
});

test("TEST_SECOND_TRY makes the first attempt of each test fail, so that the second one counts", async () => {
  const printed = await run({ setupFiles: [join(root, "test/support/runner/failing-first-try.ts")] });
  expect(printed).toContain("a.test.js > steady (try 2 passed; the first: the first try fails on purpose)");
});
