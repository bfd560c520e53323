import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { rm, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { BARE_ENV } from "../support/agents/bare-env.ts";
import { makeFolder } from "../support/stores/sqlite-place.ts";

const root = resolve(import.meta.dirname, "../..");
/** Fails in the second run, and notes the orders and the tries that it was given. */
const SHAKY = `import { appendFileSync, readFileSync } from "node:fs";
  import { expect, test } from "vitest";
  appendFileSync("runs", process.env.TEST_ORDER + " " + process.env.TEST_RETRIES + "\\n");
  test("shaky", () => expect(readFileSync("runs", "utf8").trim().split("\\n"), "runs").not.toHaveLength(2));
  test("steady", () => {});`;
const STEADY = 'import { test } from "vitest"; test("steady", () => {});';

interface Ending {
  code: unknown;
  printed: string;
  runs: string;
}

/** Runs the hunt in a project of these tests. */
async function hunt(tests: Record<string, string>, ...words: string[]): Promise<Ending> {
  const { folder } = await makeFolder(onTestFinished);
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const [name, text] of Object.entries(tests)) await writeFile(join(folder, name), text);
  const program = join(root, "test/support/runner/flakes.ts");
  return new Promise((done) => {
    execFile(process.execPath, [program, ...words], { cwd: folder, env: BARE_ENV }, (error, stdout, stderr) => {
      const runs = existsSync(join(folder, "runs")) ? readFileSync(join(folder, "runs"), "utf8") : "";
      done({ code: error?.code ?? 0, printed: stdout + stderr, runs });
    });
  });
}

test("the hunt names tests and files that fail in one of its runs, with message, seed and the log of the run", async () => {
  const unloadable = 'if (process.env.TEST_ORDER === "8") throw new Error("no test came");\n';
  const tests = { "a.test.js": SHAKY, "b.test.js": `${unloadable}${STEADY}` };
  const { code, printed, runs } = await hunt(tests, "--runs", "2", "--load", "0", "--seed", "7");
  expect([code, runs]).toEqual([1, "7 0\n8 0\n"]);
  expect(printed).toMatch(
    /^run 1 of 2 \(seed 7, 0 busy loops\), \d+ s: clean\nrun 2 of 2 \(seed 8, 0 busy loops, empty /,
  );
  expect(printed).toContain("1 of 2 runs were clean.\n\n1 of 2  ");
  expect(printed).toContain("1 of 2  a.test.js > shaky\n  run 2 with seed 8\n");
  expect(printed).toMatch(/1 of 2 {2}b\.test\.js\n {2}run 2 with seed 8\n.*no test came/);
  expect(printed).toMatch(/^ {2}AssertionError: runs: expected .* to not have a length of 2/m);
  const folder = /^The logs of the red runs are in (\S+)$/m.exec(printed)![1]!;
  onTestFinished(() => rm(folder, { recursive: true }));
  expect(readFileSync(join(folder, "run-2.log"), "utf8")).toContain("shaky");
  expect(existsSync(join(folder, "run-1.log"))).toBe(false);
});

test("a hunt of some files without a failure ends with 0 and keeps nothing", async () => {
  const broken = 'throw new Error("no test came of this");';
  const tests = { "a.test.js": STEADY, "b.test.js": broken };
  const { code, printed } = await hunt(tests, "--runs", "1", "--load", "1", "--files", "a.test");
  expect([code, printed.includes("logs")]).toEqual([0, false]);
  expect(printed).toMatch(/^run 1 of 1 \(seed \d+, 1 busy loops\)/);
});
