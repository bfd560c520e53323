import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { isAlive } from "../support/agents/processes.ts";
import { describeWith } from "../support/programs/suites.ts";
import { OWN_POSTGRES } from "../support/servers/postgres-server.ts";
import { REDIS_PROCESS } from "../support/servers/redis-server.ts";

const root = resolve(import.meta.dirname, "../..");
const pathOf = (path: string) => JSON.stringify(join(root, path));

/** Starts a node, both servers and a browser, says so, and waits. */
const TESTS = `import { test } from "vitest";
  import { chromium } from ${pathOf("node_modules/playwright-core/index.mjs")};
  import { ChildServer } from ${pathOf("test/support/nodes/child-server.ts")};
  import { describeWith } from ${pathOf("test/support/programs/suites.ts")};
  import { OWN_POSTGRES } from ${pathOf("test/support/servers/postgres-server.ts")};
  import { REDIS_PROCESS } from ${pathOf("test/support/servers/redis-server.ts")};
  describeWith([OWN_POSTGRES, REDIS_PROCESS, "chromium"], "all", (startPostgres, startRedis, executablePath) => {
    test("all of them run", async () => {
      await Promise.all([
        startPostgres(),
        startRedis(),
        ChildServer.start({ INTERLOCK_STORE: "sqlite::memory:" }),
        chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] }),
      ]);
      console.log("ALL RUN");
      await new Promise(() => {});
    });
  });`;

/** The processes that this one has started, and those that they have started. */
function startedBy(pid: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const [, parent] = /^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, "utf8"))!;
        return [[Number(name), Number(parent)] as const];
      } catch {
        return [];
      }
    });
  const found = new Set([pid]);
  for (let size = 0; size !== found.size; ) {
    size = found.size;
    for (const [each, parent] of parents) if (found.has(parent)) found.add(each);
  }
  return [...found].filter((each) => each !== pid);
}

/** What was started; empty if it has ended meanwhile. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}

describeWith([OWN_POSTGRES, REDIS_PROCESS, "chromium"], "a run of tests that ends early", () => {
  test.each(["SIGINT", "SIGTERM", "SIGKILL"] as const)(
    "%s to its main process alone leaves no node, PostgreSQL, Redis or browser behind",
    async (signal) => {
      const folder = await mkdtemp(join(tmpdir(), "interlock-left-"));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      await symlink(join(root, "node_modules"), join(folder, "node_modules"));
      await writeFile(join(folder, "a.test.js"), TESTS);
      const setup = ["test/support/runner/own-programs.ts"].map((path) => join(root, path));
      const config = { setupFiles: setup, pool: "forks", provide: { found: inject("found") }, testTimeout: 600_000 };
      await writeFile(join(folder, "vitest.config.js"), `export default { test: ${JSON.stringify(config)} };`);
      const vitest = join(root, "node_modules/vitest/vitest.mjs");
      const run = spawn(process.execPath, [vitest, "run", "--reporter=verbose"], {
        cwd: folder,
        detached: true,
        env: { ...process.env, CI: "" },
        stdio: ["ignore", "pipe", "inherit"],
      });
      onTestFinished(() => void run.kill("SIGKILL"));
      const ended = once(run, "close");
      let printed = "";
      run.stdout.setEncoding("utf8").on("data", (text) => (printed += text));
      await expect.poll(() => printed).toContain("ALL RUN");
      const started = startedBy(run.pid!);
      const commands = started.map(commandOf).join("\n");
      for (const name of ["src/cli/main.ts", "postgres", "redis-server", "chrom"]) expect(commands).toContain(name);
      run.kill(signal);
      await ended;
      await expect.poll(() => started.filter(isAlive)).toEqual([]);
    },
  );
});
